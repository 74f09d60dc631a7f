"""A service with keys and limits, and a clock of the test's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from app.access import keys
from app.access.counts import LocalCounts
from app.access.gate import Gate
from app.access.keys import KeyRing
from app.access.rates import parse_quotas, parse_rates
from tests.app.access.test_counts import Clock
from tests.app.api.client import Client

USE, ADMIN, OTHER = "plk_" + "u" * 43, "plk_" + "a" * 43, "plk_" + "o" * 43
TEXTS = {"q": "bier", "source": "de", "target": "en"}


def keys_file(folder: Path, **fields: Any) -> Path:
    """Keys of three names; fields: of the key "other"."""
    file = folder / "keys"
    objects = [
        {"name": "shop", "sha256": keys.digest(USE).hex()},
        {"name": "operator", "sha256": keys.digest(ADMIN).hex(), "scopes": ["admin"]},
        {"name": "other", "sha256": keys.digest(OTHER).hex(), **fields},
    ]
    keys.write(file, objects)
    return file


def with_gate(
    client: Client, file: Path | None = None, *, rates: str = "", quotas: str = "", required: bool = True
) -> Clock:
    """Put the client's app behind a gate with a clock that stands still."""
    clock = Clock()
    gate = Gate(
        LocalCounts(clock),
        KeyRing(file),
        keys_used=file is not None,
        key_required=required,
        rates=parse_rates(rates),
        quotas=parse_quotas(quotas),
    )
    client.app.state.services = replace(client.app.state.services, gate=gate)
    return clock


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
