"""For each sentence one term: a word of it, and the word of its reference that it most often goes with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

_WORD = re.compile(r"[^\W\d_]{4,}")  # shorter ones are hardly terms
_SEEN = 5  # in so many pairs at least do both words stand
_DICE = 0.3  # 2 x the pairs with both over the pairs with each: from here on it is a translation and no chance


class Term(NamedTuple):
    sentence: int
    source: str
    target: str


def terms(
    sources: Sequence[str], references: Sequence[str], corpus: tuple[Sequence[str], Sequence[str]], count: int
) -> list[Term]:
    """Of the first `count` sentences that have one. corpus: the pairs that are counted, the same languages. Words are
    as they stand in the sentence, and stand there once."""
    firsts, seconds, both = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for source, target in zip(*corpus, strict=True):
        here, there = _words(source), _words(target)
        firsts.update(here)
        seconds.update(there)
        both.update(product(here, there))
    results = []
    for number, (source, reference) in enumerate(zip(sources, references, strict=True)):
        pairs = [
            (2 * both[here, there] / (firsts[here] + seconds[there]), here, there)
            for here, there in product(_words(source), _words(reference))
            if both[here, there] >= _SEEN
        ]
        best, here, there = max(pairs, default=(0.0, "", ""))
        if best >= _DICE and here.lower() != there.lower():
            results.append(Term(number, here, there))
        if len(results) == count:
            break
    return results


def holds(text: str, term: str) -> bool:
    """As a word of its own, in any case."""
    return re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text, re.IGNORECASE) is not None


def _words(text: str) -> list[str]:
    counts = Counter(_WORD.findall(text))
    return [word for word, times in counts.items() if times == 1]
