"""The facts of `inspect-corpus` for people: lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from training.corpora.report import CorpusReport
from training.wording import counted

BAR = 24  # columns of the longest bar
SHOWN = 60  # characters of a text


def page_of_pairs(facts: Mapping[str, Any], report: CorpusReport, sides: Mapping[str, str]) -> Iterator[str]:
    """sides: "source" and "target", and what to call their first texts."""
    yield from report.lines(examples=True)
    yield from (f"first pair, {sides[side]}: {_shown(text)}" for side, text in facts["first"].items())
    for unit, sides in facts["lengths"].items():
        yield from _lengths(unit, sides)
    yield ""
    ratios = ", ".join(f"{name} {value:g}" for name, value in facts["characters_per_source_character"].items())
    yield f"target characters for each source character: {ratios}"
    yield from _repeated(facts["repeated"])
    yield f"sources with several targets: {facts['sources_with_several_targets']:,}"
    yield from _inventory(facts["inventory"])


def page_of_text(facts: Mapping[str, Any]) -> Iterator[str]:
    yield f"{facts['origin']}: {counted(facts['lines'], 'line')}, {facts['blank_lines']:,} of them blank"
    yield from _lengths("characters", facts["lengths"]["characters"])
    yield ""
    yield from _repeated(facts["repeated"])
    yield from _inventory(facts["inventory"])
    unseen = facts["only_at_the_end"]
    if unseen:
        yield f"only in the end that is held out for validation: {counted(len(unseen), 'character')}: {_shown(unseen)}"


def _lengths(unit: str, sides: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    for side, values in sides.items():
        known = {name: value for name, value in values.items() if name != "histogram"}
        yield f"{unit}, {side}: " + ", ".join(f"{name} {value:,g}" for name, value in known.items())
    most = max((bin_["count"] for values in sides.values() for bin_ in values["histogram"]), default=1) or 1
    rows = max(len(values["histogram"]) for values in sides.values())
    columns = [values["histogram"] for values in sides.values()]
    for row in range(rows):
        cells = [_bar(column[row]["count"] if row < len(column) else 0, most) for column in columns]
        start = next(column[row]["at_least"] for column in columns if row < len(column))
        yield f"  {start:>6,} –  " + "  ".join(cells).rstrip()


def _bar(count: int, most: int) -> str:
    """A filled length for the share of the largest bin; what is there at all shows."""
    filled = max(round(count / most * BAR), 1 if count else 0)
    return f"{count:>9,} {'█' * filled:<{BAR}}"


def _repeated(sides: Mapping[str, Any]) -> Iterator[str]:
    for side, found in sides.items():
        yield f"distinct, {side}: {found['distinct']:,}"
        for text in found["most"]:
            yield f"  {text['count']:>6,} times  {_shown(text['text'])}"


def _inventory(sides: Mapping[str, Any]) -> Iterator[str]:
    for side, found in sides.items():
        letters = ", ".join(f"{script} {count:,}" for script, count in list(found["scripts"].items())[:6]) or "none"
        yield ""
        yield f"characters, {side}: {found['characters']:,}, {found['distinct']:,} distinct; letters: {letters}"
        for odd in found["odd"]:
            yield f"  {odd['count']:>6,} times  {odd['character']} ({odd['kind']}), first in {odd['first']}"
        more = found["odd_count"] - len(found["odd"])
        if more:
            yield f"  {more:,} more odd characters"
        if found["rare_count"]:
            yield f"  {found['rare_count']:,} characters occur once or twice: {_shown(found['rare'])}"


def _shown(text: str) -> str:
    """On one line, whatever the text has."""
    return repr(text if len(text) <= SHOWN else text[: SHOWN - 1] + "…")
