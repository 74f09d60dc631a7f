"""Code, mail headers and cells of plain texts."""

from __future__ import annotations

import time

import pytest

from app.text.text_blocks import untranslatable_blocks
from app.translation.segments import segmented


def kept(text: str) -> list[str]:
    return [text[start:end] for start, end in untranslatable_blocks(text)]


def test_fenced_code_stays() -> None:
    text = "Ein Hund:\n```python\nhund = 1  # ein Hund\n~~~\n```\nEnde\n~~~~\nHund\n~~~\n~~~~~\n"
    assert kept(text) == ["```python\nhund = 1  # ein Hund\n~~~\n```", "~~~~\nHund\n~~~\n~~~~~"]
    assert segmented(text, "de").pieces == ["Ein Hund:", "Ende"]
    assert segmented("> ```\n> hund\n> ```\n> Ein Hund", "de").pieces == ["Ein Hund"]


@pytest.mark.parametrize("text", ["```\nEin Hund", "Ein ``` Hund\n```", "```a```\nEin Hund\n```b```"])
def test_text_behind_an_unclosed_fence_is_translated(text: str) -> None:
    assert kept(text) == []


def test_mail_headers_stay_but_for_the_subject() -> None:
    headers = (
        "Received: from a\n  by b;\nFrom: Anna <a@b.de>\nTo: Bob\nSubject: Re: AW: Der Hund\nMIME-Version: 1.0\n\n"
    )
    assert segmented(headers + "Hallo Bob\n", "de").pieces == ["Der Hund", "Hallo Bob"]
    assert kept("From: Berlin\nTo: Paris\n") == []
    assert kept("Subject: Der Hund\nEin Text\n") == []


def test_cells_are_texts_of_their_own() -> None:
    table = "| Der Hund | Die Katze |\n|---|:-:|\n|Ein \\| Hund|34|\n"
    assert segmented(table, "de").pieces == ["Der Hund", "Die Katze", "Ein \\| Hund"]
    assert segmented("Muster GmbH · Hauptstraße 1 | Berlin", "de").pieces == ["Muster GmbH", "Hauptstraße 1", "Berlin"]
    assert segmented("- [x] Brot\n* [ ] Bier\n[^1]: Eine Notiz\n: Ein Satz", "de").pieces == [
        "Brot",
        "Bier",
        "Eine Notiz",
        "Ein Satz",
    ]


@pytest.mark.parametrize(
    "pattern", ["```\n", "~~~ a\n", "| ", "|a|\n", "From: a\n", "Subject: a\n", " · ", "> \n", "a b\n"]
)
def test_time_is_linear_in_the_length_of_the_text(pattern: str) -> None:
    began = time.process_time()
    segmented((pattern * 100_000)[:100_000], "de")
    assert time.process_time() - began < 20  # no measure of speed: time that grows with the square takes minutes
