"""Who asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.access.rates import Quota, Rate

Scope = Literal["use", "admin"]
SCOPES: tuple[Scope, ...] = ("use", "admin")


@dataclass(frozen=True, slots=True)
class Caller:
    """name: as the operator called the key, for logs. key_id: the beginning of the key's hash, under which it is
    counted; "" without a key. rates, quotas: its own; None: the server's."""

    name: str
    key_id: str = ""
    scopes: frozenset[Scope] = frozenset({"use"})
    rates: tuple[Rate, ...] | None = None
    quotas: tuple[Quota, ...] | None = None


ANONYMOUS = Caller("anonymous")
