"""The list of other projects' tests that fail against this server; `make test-clients` runs the suites."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest

from tests.clients import suites
from tests.clients.suites import PAGE, SUITES, check, table

LISTED = {
    "tests": 5,
    "failures": [{"tests": ["a.*"], "count": 2, "reason": ""}, {"tests": ["b[1]"], "count": 1, "reason": ""}],
}
OUTCOMES = {"a.1": "no", "a.2": "no", "b[1]": "no", "b1": None, "c": None}


@pytest.fixture
def listed() -> Iterator[None]:
    with mock.patch.dict(suites.SUITES, {"some": LISTED}):
        yield


def test_reasons_stand_in_the_documentation() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), "python -m tests.clients.suites renews the table"
    assert all(group["reason"] for suite in SUITES.values() for group in suite["failures"])


@pytest.mark.usefixtures("listed")
def test_listed_failures_are_counted() -> None:
    assert check("some", OUTCOMES) == "some: 2 of 5 tests pass"


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"c": "no"}, "1 tests fail that suites.toml does not list:\nc: no"),
        ({"a.2": None}, "1 tests fail, and suites.toml says 2"),
        ({"b[1]": None}, "lists tests that pass"),
        ({"d": None}, "6 tests, and suites.toml says 5"),
    ],
)
def test_suite_that_differs_from_its_list_fails(changed: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(AssertionError) as error:
        check("some", {**OUTCOMES, **changed})
    assert sentence in str(error.value)
