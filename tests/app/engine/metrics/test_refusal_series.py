"""Every way to be refused has a series at 0 from the start, so that rates see the first refusal too."""

from __future__ import annotations

import re

from prometheus_client import generate_latest

from app.engine.metrics import Metrics
from app.errors import error_kinds
from tests.app.api.client import described
from tests.readme import ROOT

GIVEN = re.compile(r'\breason="(\w+)"|\.reason = "(\w+)"|_overloaded\("(\w+)"|\bRefused\(\s*\d+,\s*"(\w+)"')


def test_every_refusal_reason_has_a_series_from_the_start() -> None:
    assert described()  # all errors of the app are imported
    text = generate_latest(Metrics().scrape()).decode()
    reasons = {reason for kind in error_kinds() for reason in kind.reasons}
    assert {"unknown_pair", "queue_age", "key_wrong", "headers_too_slow"} < reasons
    for reason in reasons:
        assert f'parlance:request_refused_total{{reason="{reason}"}} 0.0' in text


def test_every_reason_that_is_given_is_in_the_row_of_its_error() -> None:
    rows = {reason for kind in error_kinds() for reason in kind.reasons}
    given = dict[str, str]()
    for path in (ROOT / "app").rglob("*.py"):
        for found in GIVEN.findall(path.read_text(encoding="utf-8")):
            given["".join(found)] = str(path.relative_to(ROOT))
    assert len(given) > 15
    missing = {reason: path for reason, path in given.items() if reason not in rows}
    assert missing == {}, "add each to `reasons` in the row of its error (app/errors.py, or where its class is)"
