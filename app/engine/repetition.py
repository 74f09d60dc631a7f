"""Whether a text goes round in circles at its end, as decoders do that have lost their way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

LONGEST = 30  # tokens of what comes again and again
TIMES, LEAST = 4, 12  # it comes so often at least, and fills so many tokens
BEHIND = 3  # tokens that may follow it where the text has ended: a full stop, a quotation mark
LONGEST_CHARACTERS = 200  # of what comes again and again in a source
HONEST = 2  # a text may repeat so many times as often as its source does


def goes_round(
    tokens: Sequence[int], decode: Callable[[Sequence[int]], str], source: str, *, finished: bool = False
) -> bool:
    """tokens: what was written, which `decode` reads. source: what it is about; where this repeats something about as
    often, so may the text. finished: the text has ended by itself, and may have an end behind what is repeated."""
    if len(tokens) - len(set(tokens)) < LEAST - LEAST // TIMES:  # what a run repeats
        return False
    for behind in range(1 + BEHIND if finished else 1):
        if run := tail(tokens[: len(tokens) - behind]):
            return times(decode(run)) > HONEST * times(source)
    return False


def tail(tokens: Sequence[int]) -> Sequence[int]:
    """The end that is one run of at most LONGEST tokens, TIMES times or more; () if there is none. The last time may be
    cut off."""
    last = len(tokens) - 1
    for period in range(1, min(LONGEST, len(tokens) // TIMES) + 1):
        if tokens[last] != tokens[last - period]:
            continue
        start = last - period
        while start >= 0 and tokens[start] == tokens[start + period]:
            start -= 1
        count = last - start
        if count >= max(TIMES * period, LEAST):
            return tokens[start + 1 :]
    return ()


def times(text: str) -> float:
    """How often the part of the text that is repeated most comes in a row, at any place; white space does not count.
    1 where nothing is repeated, 0 of nothing."""
    codes = np.frombuffer("".join(text.split()).casefold().encode("utf-32-le", "surrogatepass"), dtype="<u4")
    most = float(len(codes) > 0)
    for period in range(1, min(LONGEST_CHARACTERS, len(codes) // 2) + 1):
        if len(codes) / period <= most:
            break
        differ = np.flatnonzero(codes[period:] != codes[:-period])
        edges = np.concatenate(([-1], differ, [len(codes) - period]))
        most = max(most, (int(np.diff(edges).max()) - 1 + period) / period)
    return most
