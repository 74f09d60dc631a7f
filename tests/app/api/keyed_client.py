"""A service with keys and limits, and a clock of the test's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from app.access import key_file
from app.access.authorization import AccessControl
from app.access.key_file import KeyRing
from app.access.rate_limits import MemoryStore, parse_quotas, parse_rates
from tests.app.access.test_memory_store import Clock
from tests.app.api.client import Client

USE, ADMIN, OTHER = "plk_" + "u" * 43, "plk_" + "a" * 43, "plk_" + "o" * 43
TEXTS = {"q": "bier", "source": "de", "target": "en"}


def keys_file(folder: Path, **fields: Any) -> Path:
    """Keys of three names; fields: of the key "other"."""
    file = folder / "keys"
    objects = [
        {"name": "shop", "sha256": key_file.key_digest(USE).hex()},
        {"name": "operator", "sha256": key_file.key_digest(ADMIN).hex(), "scopes": ["admin"]},
        {"name": "other", "sha256": key_file.key_digest(OTHER).hex(), **fields},
    ]
    key_file.write_key_lines(file, objects)
    return file


def with_gate(
    client: Client, file: Path | None = None, *, rates: str = "", quotas: str = "", required: bool = True
) -> Clock:
    """Put the client's app behind a gate with a clock that stands still."""
    clock = Clock()
    gate = AccessControl(
        MemoryStore(clock, clock),
        KeyRing(file),
        keys_used=file is not None,
        key_required=required,
        rates=parse_rates(rates),
        quotas=parse_quotas(quotas),
    )
    client.app.state.services = replace(client.app.state.services, access=gate)
    return clock


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
