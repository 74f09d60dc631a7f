"""Corpus statistics for `inspect-corpus`: lengths, characters, repetitions; as values and as a page of text."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.config.run_config import LyricsConfig
from training.data.cleaning import repeated_pairs
from training.data.sentence_pairs import CorpusReport, Pairs, shortened
from training.data.stored_corpus import hashes
from training.errors import pluralize

Statistics = dict[str, Any]
"""What `--json` prints."""
SHARES = {"least": 0.0, "1 %": 0.01, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "99 %": 0.99, "most": 1.0}
BINS = 12  # of a histogram, at most; the last one is open


def lengths(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, np.int64)


def quantiles(values: NDArray[np.int64] | NDArray[np.float64]) -> dict[str, float]:
    """{"median": …}; each quantile is one of the values (the nearest below). {} without values."""
    if not len(values):
        return {}
    shares = np.quantile(values, list(SHARES.values()), method="lower")
    return {name: round(value, 3) for name, value in zip(SHARES, shares.tolist(), strict=True)}


def bin_width(all_values: Sequence[NDArray[np.int64]]) -> int:
    """1, 2 or 5 times a power of ten, so that the closed bins hold all values but the longest 1 %."""
    longest = max((float(np.quantile(values, 0.99)) for values in all_values if len(values)), default=1.0)
    least = max(1.0, (longest + 1) / (BINS - 1))
    power = int(10 ** math.floor(math.log10(least)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)


def histogram(values: NDArray[np.int64], width: int) -> list[dict[str, int]]:
    """Each bin counts the values from its `at_least` up to the next bin's."""
    places = np.minimum(values // width, BINS - 1)
    counts = np.bincount(places, minlength=1)
    return [{"at_least": place * width, "count": int(count)} for place, count in enumerate(counts)]


RARE_COUNT = 2  # maximum count of a rare character
RARE_SHOWN = 40
ODD_SHOWN = 12
ODD_CATEGORIES = {"Cc": "control", "Cf": "invisible", "Co": "private use", "Cn": "unassigned"}
ODD_CATEGORIES |= {"Zs": "unusual space", "Zl": "line separator", "Zp": "paragraph separator"}


def count_characters(texts: Iterable[str]) -> Counter[str]:
    totals = np.zeros(0x110000, np.int64)
    remaining = iter(texts)
    while some := list(islice(remaining, 10_000)):
        points = np.frombuffer("".join(some).encode("utf-32-le"), np.uint32)
        counts = np.bincount(points)
        totals[: len(counts)] += counts
    return Counter({chr(point): int(totals[point]) for point in np.flatnonzero(totals)})


def oddity(character: str) -> str | None:
    """The reason that a character is odd; None for an ordinary one."""
    if character in " \n\u3000":  # the last is the Chinese and Japanese space
        return None
    return "not decodable" if character == "\ufffd" else ODD_CATEGORIES.get(unicodedata.category(character))


def scripts(counts: Counter[str]) -> dict[str, int]:
    """Letters per script, most frequent first; Unicode character names begin with the script."""
    letters: Counter[str] = Counter()
    for character, number in counts.items():
        if character.isalpha():
            letters[unicodedata.name(character, "UNNAMED").split(" ")[0].split("-")[0].lower()] += number
    return dict(letters.most_common())


def inventory(counts: Counter[str], first: Callable[[str], str]) -> Statistics:
    """Character statistics. first: returns the first place of a character. rare: some that occur once or twice."""
    odd = sorted(((number, character) for character, number in counts.items() if oddity(character)), reverse=True)
    rare = [character for character, number in counts.items() if number <= RARE_COUNT and not oddity(character)]
    names = {c: f"U+{ord(c):04X} {unicodedata.name(c, '')}".rstrip() for _, c in odd}  # U+00AD SOFT HYPHEN
    return {
        "characters": counts.total(),
        "distinct": len(counts),
        "scripts": scripts(counts),
        "odd": [
            {"character": names[c], "kind": oddity(c), "count": number, "first": first(c)}
            for number, c in odd[:ODD_SHOWN]
        ],
        "odd_count": len(odd),
        "rare": "".join(sorted(rare)[:RARE_SHOWN]),
        "rare_count": len(rare),
    }


MOST_REPEATED = 5


def pair_statistics(pairs: Pairs) -> Statistics:
    """Statistics of cleaned pairs."""
    sides = {"source": pairs.sources, "target": pairs.targets}
    length_statistics = {
        "words": _length_statistics(sides, lambda text: len(text.split())),
        "characters": _length_statistics(sides, len),
    }

    def first_place(texts: Sequence[str]) -> Callable[[str], str]:
        return lambda character: pairs.place(next(i for i, text in enumerate(texts) if character in text))

    ratios = lengths(map(len, pairs.targets)) / lengths(map(len, pairs.sources))
    sources = hashes(pairs.sources, len(pairs))[~repeated_pairs(pairs)]
    return {
        "report": pairs.reported().as_json(),
        "first": {side: texts[0] for side, texts in sides.items()},
        "lengths": length_statistics,
        "characters_per_source_character": quantiles(ratios),
        "repeated": {side: _repetitions(texts) for side, texts in sides.items()},
        "sources_with_several_targets": int((np.unique(sources, return_counts=True)[1] > 1).sum()),
        "inventory": {side: inventory(count_characters(texts), first_place(texts)) for side, texts in sides.items()},
    }


def text_statistics(text: str, origin: str) -> Statistics:
    """Statistics of the whole text; `only_at_the_end`: characters of the held-out share that the rest lacks."""
    lines = text.removesuffix("\n").split("\n")
    sung = [line.strip() for line in lines if line.strip()]  # non-blank lines
    cut = len(text) - int(len(text) * LyricsConfig(recipe="").valid_fraction)
    unseen = Counter(text[cut:]).keys() - Counter(text[:cut]).keys()

    def first(character: str) -> str:
        return f"line {text.count(chr(10), 0, text.index(character)) + 1}"

    return {
        "origin": origin,
        "lines": len(lines),
        "blank_lines": len(lines) - len(sung),
        "lengths": {"characters": _length_statistics({"lines": sung}, len)},
        "repeated": {"lines": _repetitions(sung)},
        "inventory": {"text": inventory(count_characters([text]), first)},
        "only_at_the_end": "".join(sorted(unseen)),
    }


def _length_statistics(sides: Mapping[str, Sequence[str]], measure: Callable[[str], int]) -> Statistics:
    """Quantiles and a histogram of each side, with a common bin width."""
    values = {side: lengths(map(measure, texts)) for side, texts in sides.items()}
    width = bin_width(list(values.values()))
    return {
        side: {"mean": round(float(np.mean(v)), 2) if len(v) else 0.0, **quantiles(v), "histogram": histogram(v, width)}
        for side, v in values.items()
    }


def _repetitions(texts: Sequence[str]) -> Statistics:
    """Texts count as equal by 64 bits of their hash."""
    _, firsts, counts = np.unique(hashes(texts, len(texts)), return_index=True, return_counts=True)
    order = np.lexsort((firsts, -counts))[:MOST_REPEATED]
    most = [{"text": texts[int(firsts[i])], "count": int(counts[i])} for i in order if counts[i] > 1]
    return {"distinct": len(counts), "most": most}


BAR = 24  # width of the longest bar


def page_of_pairs(facts: Statistics, report: CorpusReport, sides: Mapping[str, str]) -> Iterator[str]:
    """The page of `pair_statistics`. sides: "source" and "target" -> label."""
    yield from report.lines(examples=True)
    yield from (f"first pair, {sides[side]}: {shortened(text)!r}" for side, text in facts["first"].items())
    for unit, statistics in facts["lengths"].items():
        yield from _length_lines(unit, statistics)
    ratios = ", ".join(f"{name} {value:g}" for name, value in facts["characters_per_source_character"].items())
    yield f"\ntarget characters for each source character: {ratios}"
    yield from _repetition_lines(facts["repeated"])
    yield f"sources with several targets: {facts['sources_with_several_targets']:,}"
    yield from _inventory_lines(facts["inventory"])


def page_of_text(facts: Statistics) -> Iterator[str]:
    yield f"{facts['origin']}: {pluralize(facts['lines'], 'line')}, {facts['blank_lines']:,} of them blank"
    yield from _length_lines("characters", facts["lengths"]["characters"])
    yield ""
    yield from _repetition_lines(facts["repeated"])
    yield from _inventory_lines(facts["inventory"])
    if unseen := facts["only_at_the_end"]:
        characters = pluralize(len(unseen), "character")
        yield f"only in the end that is held out for validation: {characters}: {shortened(unseen)!r}"


def _length_lines(unit: str, sides: Statistics) -> Iterator[str]:
    yield ""
    for side, values in sides.items():
        known = {name: value for name, value in values.items() if name != "histogram"}
        yield f"{unit}, {side}: " + ", ".join(f"{name} {value:,g}" for name, value in known.items())
    columns = [values["histogram"] for values in sides.values()]
    most = max((bin_["count"] for column in columns for bin_ in column), default=1) or 1
    for bins in zip_longest(*columns):
        counts = [bin_["count"] if bin_ else 0 for bin_ in bins]
        filled = [max(round(count / most * BAR), 1 if count else 0) for count in counts]  # a single value shows, too
        cells = [f"{count:>9,} {'█' * width:<{BAR}}" for count, width in zip(counts, filled, strict=True)]
        start = next(bin_["at_least"] for bin_ in bins if bin_)
        yield f"  {start:>6,} –  " + "  ".join(cells).rstrip()


def _repetition_lines(sides: Statistics) -> Iterator[str]:
    for side, repetitions in sides.items():
        yield f"distinct, {side}: {repetitions['distinct']:,}"
        for text in repetitions["most"]:
            yield f"  {text['count']:>6,} times  {shortened(text['text'])!r}"


def _inventory_lines(sides: Statistics) -> Iterator[str]:
    for side, facts in sides.items():
        letters = ", ".join(f"{script} {count:,}" for script, count in list(facts["scripts"].items())[:6]) or "none"
        yield ""
        yield f"characters, {side}: {facts['characters']:,}, {facts['distinct']:,} distinct; letters: {letters}"
        for odd in facts["odd"]:
            yield f"  {odd['count']:>6,} times  {odd['character']} ({odd['kind']}), first in {odd['first']}"
        if more := facts["odd_count"] - len(facts["odd"]):
            yield f"  {more:,} more odd characters"
        if facts["rare_count"]:
            yield f"  {facts['rare_count']:,} characters occur once or twice: {shortened(facts['rare'])!r}"
