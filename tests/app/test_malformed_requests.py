"""A few of the malformed requests of `tests/fuzz/test_bytes.py`."""

from __future__ import annotations

from tests.app.malformed_requests import QUICK, send_malformed
from tests.app.socket_server import serving_sockets


def test_malformed_requests_are_refused_and_none_hangs() -> None:
    with serving_sockets(**QUICK) as server:
        statuses = send_malformed(server, 50, seed=0)
    assert statuses["400"] > 10
    assert statuses["200"] > 2
