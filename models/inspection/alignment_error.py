"""Links as text, and how far they are from what people drew."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from models.inspection.alignment import Link

Pairs = frozenset[tuple[int, int]]
PAIR = re.compile(r"(\d+)([-p])(\d+)")


class Gold(NamedTuple):
    """Links that must be there and links that may be; `possible` holds the sure ones too."""

    sure: Pairs
    possible: Pairs


def pairs(found: Iterable[Link]) -> Pairs:
    return frozenset((link.source, link.target) for link in found)


def pharaoh(found: Iterable[Link]) -> str:
    """ "0-0 1-2": source-target, from 0, in order."""
    return " ".join(f"{source}-{target}" for source, target in sorted(pairs(found)))


def read_pharaoh(text: str) -> Gold:
    """One sentence's links: "i-j" sure, "ipj" possible. ValueError names what is neither."""
    sure, possible = set[tuple[int, int]](), set[tuple[int, int]]()
    for word in text.split():
        match = PAIR.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} is no link: write source-target, like 0-2, or 0p2 for a possible one.")
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def alignment_error_rate(sentences: Iterable[tuple[Pairs, Gold]]) -> float:
    """AER = 1 - (|A∩S| + |A∩P|) / (|A| + |S|) over all sentences (Och & Ney 2003): 0 where every sure link was found
    and nothing but possible ones. Of nothing at all: 0."""
    agreed = total = 0
    for found, gold in sentences:
        agreed += len(found & gold.sure) + len(found & (gold.possible | gold.sure))
        total += len(found) + len(gold.sure)
    return 1 - agreed / total if total else 0.0
