"""Which line ends and columns of a text separate sentences."""

from __future__ import annotations

import pytest

from app.translation.segments import segmented

MAIL = """\
Hallo Bob,

ein Mann und eine Frau sitzen in einem Park und lesen
ein Buch, während zwei Hunde im Gras spielen und alle
Kinder laufen. Der Tag ist heute sehr warm und so
schön.

>> ein Kind spielt mit einem Ball auf der grünen Wiese,
>> und eine Frau schaut zu.
"""


def pieces(text: str) -> list[str]:
    return segmented(text, "de").pieces


def test_sentences_of_broken_lines_are_whole() -> None:
    assert pieces(MAIL) == [
        "Hallo Bob,",
        "ein Mann und eine Frau sitzen in einem Park und lesen\nein Buch, während zwei Hunde im Gras spielen und alle\n"
        "Kinder laufen.",
        "Der Tag ist heute sehr warm und so\nschön.",
        "ein Kind spielt mit einem Ball auf der grünen Wiese,\n>> und eine Frau schaut zu.",
    ]
    assert "\r\n>> und eine" in pieces(MAIL.replace("\n", "\r\n"))[-1]


@pytest.mark.parametrize(
    "text",
    [
        "Max Muster\nHauptstraße 1\n10115 Berlin",
        "zwei männer stehen am herd und bereiten das essen zu\nein kleiner hund läuft über die wiese",
        "Ein Mann und eine Frau sitzen in einem Park und\nlesen ein Buch, aber die Zeile danach ist länger als sie.",
        "- ein Mann und eine Frau sitzen in einem Park und lesen\n- ein Hund spielt.",
        "Ein Mann und eine Frau sitzen in einem Park und lesen:\nein Buch.",
        "> Ein Mann und eine Frau sitzen in einem Park und lesen\nein Buch.",
        "Ein Mann und eine Frau sitzen in einem Park und lesen  \nein Buch.",
        "Ein Mann und eine Frau sitzen in einem Park und lesen\n\nein Buch.",
    ],
)
def test_lines_that_are_texts_of_their_own(text: str) -> None:
    assert not any("\n" in piece for piece in pieces(text))
