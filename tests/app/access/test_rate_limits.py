"""Notations, and a window's arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as some

from app.access.rate_limits import (
    Quota,
    Rate,
    Window,
    parse_quotas,
    parse_rates,
    period_ends_in_s,
    period_label,
)

NOON = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC).timestamp()  # the start of a minute, an hour and half a day


def test_notations_are_parsed() -> None:
    assert parse_rates("60/minute;1000/hour") == (Rate(60, "minute"), Rate(1000, "hour"))
    assert parse_rates(" 5 / second ") == (Rate(5, "second"),)
    assert [rate.window_s for rate in parse_rates("1/second;1/minute;1/hour;1/day")] == [1, 60, 3600, 86_400]
    assert parse_quotas("500000/month;50000/day") == (Quota(500_000, "month"), Quota(50_000, "day"))
    assert parse_rates("none") == parse_rates("") == parse_quotas("none") == ()


@pytest.mark.parametrize("text", ["60", "60/fortnight", "0/minute", "-1/minute", "1.5/minute", "٣/minute", "1/minute;"])
def test_invalid_notation_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="it takes a number from 1 per second, minute, hour or day, such"):
        parse_rates(text)


def test_two_limits_of_one_unit_raise_value_error() -> None:
    with pytest.raises(ValueError, match="it has two limits per minute"):
        parse_rates("60/minute;70/minute")
    with pytest.raises(ValueError, match="per day or month"):
        parse_quotas("60/minute")


def test_previous_span_fades_over_the_window() -> None:
    minute = Rate(10, "minute")
    assert [Window(minute, 10, 0, NOON + seconds).used for seconds in (0, 3, 6, 30, 59.9)] == [10, 9, 9, 5, 0]
    assert Window(minute, 10, 4, NOON + 30).used == 9


@pytest.mark.parametrize(
    ("previous", "current", "into", "cost", "wait_s"),
    [
        (0, 5, 10, 1, 0),
        (0, 10, 10, 1, 51),  # to the next minute, where 10 fade at once below 10
        (0, 10, 10, 10, 105),  # until one of them is left to fade: 50 + 60 * 0.9, and a moment
        (10, 0, 0, 1, 1),
        (10, 0, 0, 5, 25),
        (10, 5, 0, 5, 55),  # all but the last of the 10 have to fade
    ],
)
def test_wait_until_the_cost_fits(previous: int, current: int, into: float, cost: int, wait_s: int) -> None:
    assert Window(Rate(10, "minute"), previous, current, NOON + into).wait_s(cost) == wait_s


@given(some.integers(1, 50), some.integers(0, 50), some.integers(0, 50), some.floats(0, 59.99), some.integers(1, 50))
def test_waiting_for_wait_s_is_enough(limit: int, previous: int, current: int, into: float, cost: int) -> None:
    previous, current, cost = min(previous, limit), min(current, limit), min(cost, limit)
    rate = Rate(limit, "minute")
    wait_s = Window(rate, previous, current, NOON + into).wait_s(cost)
    assert 0 <= wait_s <= 121
    then = NOON + into + wait_s
    spans = int(then // 60) - int(NOON // 60)
    previous, current = [(previous, current), (current, 0), (0, 0), (0, 0)][spans]
    assert Window(rate, previous, current, then).wait_s(cost) == 0


def test_periods_follow_the_calendar() -> None:
    assert (period_label("month", NOON), period_label("day", NOON)) == ("2026-11", "2026-11-22")
    assert period_ends_in_s("day", NOON) == 43_200
    assert period_ends_in_s("month", NOON) == 43_200 + 8 * 86_400
    december = datetime(2026, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC).timestamp()
    assert (period_ends_in_s("month", december), period_ends_in_s("day", december)) == (1, 1)
    leap = datetime(2028, 2, 1, tzinfo=UTC).timestamp()
    assert period_ends_in_s("month", leap) == 29 * 86_400
