"""Whether a text goes round in circles, as decoders do that have lost their way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

LONGEST = 30  # tokens of what comes again and again
TIMES, LEAST = 4, 12  # it comes so often at least, and fills so many tokens
LONGEST_CHARACTERS = 200  # of what comes again and again in a source
HONEST = 2  # a text may repeat so many times as often as its source does

Tokens = Sequence[int]


def goes_round(tokens: Tokens, decode: Callable[[Tokens], str], source: str, *, at_end: bool = False) -> bool:
    """tokens: what was written, which `decode` reads. source: what it is about; where this repeats something about as
    often, so may the text. at_end: only what the text ends with counts."""
    if len(tokens) - len(set(tokens)) < LEAST - LEAST // TIMES:  # what a run repeats
        return False
    run = tail(tokens) if at_end else circle(tokens)
    return bool(run) and times(decode(run)) > HONEST * times(source)


def circle(tokens: Tokens) -> Tokens:
    """A run of at most LONGEST tokens, TIMES times or more, at any place; () if there is none. The last time may be cut
    off."""
    for period in range(1, min(LONGEST, len(tokens) // TIMES) + 1):
        alike = max((TIMES - 1) * period, LEAST - period)  # so many in a row are what they were a period before
        for place in range(period + alike - 1, len(tokens), alike):  # one of these is among them
            start, end = place, place + 1
            while start >= period and tokens[start] == tokens[start - period]:
                start -= 1
            while start < place and end < len(tokens) and tokens[end] == tokens[end - period]:
                end += 1
            if end - start - 1 >= alike:
                return tokens[start + 1 - period : end]
    return ()


def tail(tokens: Tokens) -> Tokens:
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
