"""Which combinations of a test's parameters the fast suite runs, of a test with the marker `every_value`: so many that
each value of each parameter is among them, or with `every_value(together=2)` each two values of two parameters.
`make test-slow` runs the others, which have the marker `other_values`, too."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import pytest

ALL_VALUES = "not slow or other_values"
"""The marker expression with which a run over other kernels has all combinations."""


def slow_but(values: Iterable[Any], *quick: Any) -> list[Any]:
    """Parameters, of which all but `quick` are slow: they take the same way through the code. ValueError for a quick
    one that is none of the values."""
    values = list(values)
    if unknown := [value for value in quick if value not in values]:
        raise ValueError(f"not among the values: {unknown}")
    return [pytest.param(value, marks=[pytest.mark.slow] * (value not in quick)) for value in values]


def covering(combinations: Sequence[Mapping[str, object]], together: int = 1) -> list[int]:
    """The places of combinations in which every value of every parameter occurs, or with `together` of 2 every two
    values of two parameters: greedily the one with the most that are not covered yet, of equal ones the first."""
    chosen, covered = list[int](), list[set[Hashable]]()
    for combination in combinations:
        values = [_value(name, combination[name]) for name in sorted(combination)]
        covered.append({*itertools.combinations(values, min(together, len(values)))})
    missing = set[Hashable]().union(*covered)
    while missing:
        chosen.append(max(range(len(covered)), key=lambda place: len(covered[place] & missing)))
        missing -= covered[chosen[-1]]
    return sorted(chosen)


def mark_others_slow(items: Sequence[pytest.Item]) -> None:
    """Marks what `covering` leaves out as slow and as `other_values`. Slow ones cover nothing."""
    tests = defaultdict[tuple[object, str, int], list[pytest.Function]](list)
    for item in items:
        marker = item.get_closest_marker("every_value")
        if marker and isinstance(item, pytest.Function) and not item.get_closest_marker("slow"):
            tests[item.parent, item.originalname, marker.kwargs.get("together", 1)].append(item)
    for (_, _, together), functions in tests.items():
        fast = covering([function.callspec.params for function in functions], together)
        for place, function in enumerate(functions):
            if place not in fast:
                function.add_marker("slow")
                function.add_marker("other_values")


def _value(name: str, value: object) -> Hashable:
    try:
        hash(value)
    except TypeError:  # such as a list, or a tuple of lists
        return name, type(value), id(value)
    return name, type(value), value
