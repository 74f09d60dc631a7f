"""Which characters a text has, and which of them are odd: invisible, broken, or hardly ever there."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np

SEEN_RARELY = 2  # times, at most
SHOWN = 40
SHOWN_ODD = 12
KINDS = {
    "Cc": "control",
    "Cf": "invisible",
    "Co": "private use",
    "Cn": "unassigned",
    "Zs": "unusual space",
    "Zl": "line separator",
    "Zp": "paragraph separator",
}


def count(texts: Iterable[str]) -> Counter[str]:
    """How often each character occurs."""
    totals = np.zeros(0x110000, np.int64)
    remaining = iter(texts)
    while some := list(islice(remaining, 10_000)):
        points = np.frombuffer("".join(some).encode("utf-32-le"), np.uint32)
        found = np.bincount(points)
        totals[: len(found)] += found
    return Counter({chr(point): int(totals[point]) for point in np.flatnonzero(totals)})


def oddity(character: str) -> str | None:
    """What is odd about a character; None: nothing."""
    if character in " \n\u3000":  # the last is the space of Chinese and Japanese
        return None
    return "not decodable" if character == "\ufffd" else KINDS.get(unicodedata.category(character))


def name(character: str) -> str:
    """U+00AD SOFT HYPHEN"""
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()


def scripts(counts: Counter[str]) -> dict[str, int]:
    """How many letters of each script, the most first: Unicode's own names begin with it."""
    found: Counter[str] = Counter()
    for character, number in counts.items():
        if character.isalpha():
            found[unicodedata.name(character, "UNNAMED").split(" ")[0].split("-")[0].lower()] += number
    return dict(found.most_common())


def inventory(counts: Counter[str], first: Callable[[str], str]) -> dict[str, Any]:
    """first: where a character stands first. rare: those that occur once or twice, some of them."""
    odd = sorted(((number, character) for character, number in counts.items() if oddity(character)), reverse=True)
    rare = [character for character, number in counts.items() if number <= SEEN_RARELY and not oddity(character)]
    return {
        "characters": counts.total(),
        "distinct": len(counts),
        "scripts": scripts(counts),
        "odd": [
            {"character": name(c), "kind": oddity(c), "count": number, "first": first(c)}
            for number, c in odd[:SHOWN_ODD]
        ],
        "odd_count": len(odd),
        "rare": "".join(sorted(rare)[:SHOWN]),
        "rare_count": len(rare),
    }
