"""Detection of repetition loops, into which decoders fall."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

MAX_PERIOD = 30  # tokens of what comes again and again
MIN_REPEATS, MIN_TOKENS = 4, 12  # it comes so often at least, and fills so many tokens
MAX_PERIOD_CHARACTERS = 200  # of what comes again and again in a source
MAX_RATIO_TO_SOURCE = 2  # a text may repeat so many times as often as its source does

Tokens = Sequence[int]


def is_repetitive(tokens: Tokens, decode: Callable[[Tokens], str], source: str, *, at_end: bool = False) -> bool:
    """tokens: what was written, which `decode` reads. source: what it is about; where this repeats something about as
    often, so may the text. at_end: only what the text ends with counts."""
    if len(tokens) - len(set(tokens)) < MIN_TOKENS - MIN_TOKENS // MIN_REPEATS:  # what a run repeats
        return False
    run = repeated_suffix(tokens) if at_end else repeated_run(tokens)
    return bool(run) and most_repeats(decode(run)) > MAX_RATIO_TO_SOURCE * most_repeats(source)


def repeated_run(tokens: Tokens) -> Tokens:
    """A run of at most LONGEST tokens, TIMES times or more, at any place; () if there is none. The last time may be cut
    off."""
    for period in range(1, min(MAX_PERIOD, len(tokens) // MIN_REPEATS) + 1):
        alike = max(
            (MIN_REPEATS - 1) * period, MIN_TOKENS - period
        )  # so many in a row are what they were a period before
        for place in range(period + alike - 1, len(tokens), alike):  # one of these is among them
            start, end = place, place + 1
            while start >= period and tokens[start] == tokens[start - period]:
                start -= 1
            while start < place and end < len(tokens) and tokens[end] == tokens[end - period]:
                end += 1
            if end - start - 1 >= alike:
                return tokens[start + 1 - period : end]
    return ()


def repeated_suffix(tokens: Tokens) -> Tokens:
    """The end that is one run of at most LONGEST tokens, TIMES times or more; () if there is none. The last time may be
    cut off."""
    last = len(tokens) - 1
    for period in range(1, min(MAX_PERIOD, len(tokens) // MIN_REPEATS) + 1):
        if tokens[last] != tokens[last - period]:
            continue
        start = last - period
        while start >= 0 and tokens[start] == tokens[start + period]:
            start -= 1
        count = last - start
        if count >= max(MIN_REPEATS * period, MIN_TOKENS):
            return tokens[start + 1 :]
    return ()


def most_repeats(text: str) -> float:
    """How often the part of the text that is repeated most comes in a row, at any place; white space does not count.
    1 where nothing is repeated, 0 of nothing."""
    codes = np.frombuffer("".join(text.split()).casefold().encode("utf-32-le", "surrogatepass"), dtype="<u4")
    most = float(len(codes) > 0)
    for period in range(1, min(MAX_PERIOD_CHARACTERS, len(codes) // 2) + 1):
        if len(codes) / period <= most:
            break
        differ = np.flatnonzero(codes[period:] != codes[:-period])
        edges = np.concatenate(([-1], differ, [len(codes) - period]))
        most = max(most, (int(np.diff(edges).max()) - 1 + period) / period)
    return most
