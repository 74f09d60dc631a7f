"""Terms that a text must hold: small ones, drawn ones, and whether a text holds them, by trying everything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from models.tokenizer.word_parts import WordParts

Required = tuple[tuple[tuple[int, ...], ...], ...]
A, B, C = 3, 4, 5


def parts(continues: Sequence[int], open_: Sequence[int], size: int = 6) -> WordParts:
    flags = np.zeros((2, size), dtype=bool)
    flags[0, list(continues)], flags[1, list(open_)] = True, True
    return WordParts(*flags)


NO_PARTS = parts((), ())
SOME = parts((B, C), (A, B))  # b and c go on with a word that ends in a or b


def joined(words: WordParts, first: int, second: int) -> bool:
    """Tokens that the vocabulary does not have are parts of no word."""
    known = first < len(words.open) and second < len(words.continues)
    return known and bool(words.open[first] and words.continues[second])


def holds(tokens: Sequence[int], required: Required, words: WordParts = NO_PARTS, taken: frozenset[int] = frozenset()):  # type: ignore[no-untyped-def]
    """By trying everything: each term at a place of its own, where no word goes on into it or out of it."""
    if not required:
        return True
    for run in required[0]:
        for start in range(len(tokens) - len(run) + 1):
            end, places = start + len(run), frozenset(range(start, start + len(run)))
            if tuple(tokens[start:end]) != run or places & taken:
                continue
            before = start > 0 and joined(words, tokens[start - 1], tokens[start])
            behind = end < len(tokens) and joined(words, tokens[end - 1], tokens[end])
            if not before and not behind and holds(tokens, required[1:], words, taken | places):
                return True
    return False


runs = st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=3).map(tuple)
terms = st.lists(st.lists(runs, min_size=1, max_size=2).map(tuple), min_size=1, max_size=3).map(tuple)
