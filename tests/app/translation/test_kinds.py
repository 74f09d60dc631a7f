"""Each kind of text against engines that translate a vocabulary and keep, drop or garble every other word."""

from __future__ import annotations

import asyncio

import pytest

from app.translation.driver import Translator
from tests.app.translation.kinds import KINDS, WORDS, Member
from tests.app.translation.unreliable_engines import made_engine
from tests.request_builders import text_request

SHOWN = 12


def failures(members: list[Member], engine: str) -> list[str]:
    result = []
    for pair in WORDS:
        own = [member for member in members if member.pair == pair]
        requests = [text_request(member.text, *pair, format=member.format) for member in own]
        translations = asyncio.run(Translator(made_engine(engine, pair, WORDS[pair])).translate(requests))
        for member, result_of in zip(own, translations, strict=True):
            text = result_of.text
            faults = member.lost(text), member.misplaced(text), member.untranslated(text)
            if any(faults):
                result.append(f"{member.text!r} -> {text!r}: lost {faults[0]}, unwanted {faults[1]}, not {faults[2]}")
    return result


@pytest.mark.every_value
@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        (kind, engine)
        for kind in KINDS
        # of numbers, which the model reads, a garbled one (+1 999) may still be the same number
        for engine in (
            "exact",
            "dropping",
            *(() if kind in ("small_numbers", "doubled_signs") else ("garbling", "knowing")),
        )
    ],
)
def test_every_member_of_a_kind_comes_back_whole(kind: str, engine: str) -> None:
    members = KINDS[kind]
    assert len(members) >= 20
    lost = failures(members, engine)
    assert not lost, "\n".join([f"{len(lost)} of {len(members)}", *lost[:SHOWN]])
