"""Malformed requests, byte by byte, against the server of `python -m app`: each is refused or its connection is
closed, none hangs, and a good request behind them is answered as before.

FUZZ_REQUESTS=10000 (default), FUZZ_SEED=0. `tests/app/test_malformed_requests.py` sends a few in the fast tests."""

from __future__ import annotations

import os

import pytest

from tests.app.malformed_requests import QUICK, send_malformed
from tests.app.socket_server import serving_sockets

pytestmark = pytest.mark.fuzz


def test_malformed_requests() -> None:
    with serving_sockets(**QUICK) as server:
        statuses = send_malformed(
            server, int(os.environ.get("FUZZ_REQUESTS", "10000")), int(os.environ.get("FUZZ_SEED", "0"))
        )
    print(dict(sorted(statuses.items())))
    assert len(statuses) > 5
