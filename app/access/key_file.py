"""The file of API keys: one JSON object in each line, which holds a key's SHA-256 and never the key.

    {"name": "web shop", "sha256": "…", "scopes": ["use"], "rate_limit": "60/minute", "quota": "500000/month"}

Keys are made here and have 256 random bits, so that a fast hash is enough: no key is found by trying, as passwords that
people choose are.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from app.access.rate_limits import Quota, Rate, parse_quotas, parse_rates

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


logger = logging.getLogger(__name__)

KEY_PREFIX = "plk_"  # so that people and scanners of secrets know what they have found
RELOAD_CHECK_S = 1.0
RESERVED_NAMES = (ANONYMOUS.name, "admin")  # the second: whoever has PARLANCE_ADMIN_KEY
_NO_DIGEST = hashlib.sha256(b"nobody's").digest()
_KEY_FIELDS = {"name", "sha256", "scopes", "rate_limit", "quota", "created"}


class KeysUnreadable(Exception):
    """The message is one sentence, without anything secret."""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """One line of the file."""

    digest: bytes
    caller: Caller


def new_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def key_digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def stored_key(key: str, caller: Caller) -> StoredKey:
    """For a key that stands in no file."""
    found = key_digest(key)
    return StoredKey(found, Caller(caller.name, found.hex()[:16], caller.scopes, caller.rates, caller.quotas))


class KeyRing:
    """The keys of a file, which is read again when it has changed, and those that are always there. A file that cannot
    be read keeps the keys that were read before, and is told of in the log."""

    def __init__(
        self, path: Path | None, always: Iterable[StoredKey] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._always, self._clock = path, tuple(always), clock
        self._seen: tuple[int, int, int] | None = None
        self._by_start: Mapping[bytes, list[StoredKey]] = {}
        self._looked_at_s = clock()
        if path is not None:
            self._seen = _file_state(path)
            self._set(read_keys(path))
        else:
            self._set([])

    def find(self, key: str) -> Caller | None:
        """Found by the start of its hash, which nobody can steer a key to, and then compared in constant time."""
        self._look()
        wanted = key_digest(key)
        found = None
        for each in self._by_start.get(wanted[:4]) or [StoredKey(_NO_DIGEST, Caller(""))]:
            if hmac.compare_digest(each.digest, wanted):
                found = each.caller
        return found

    def has_admin(self) -> bool:
        """Whether anybody may change what is loaded."""
        self._look()
        return any("admin" in each.caller.scopes for keys in self._by_start.values() for each in keys)

    def _look(self) -> None:
        now = self._clock()
        if self._path is None or now - self._looked_at_s < RELOAD_CHECK_S:
            return
        self._looked_at_s = now
        state = _file_state(self._path)
        if state == self._seen:
            return
        self._seen = state
        try:
            self._set(read_keys(self._path))
            logger.info("the keys file has been read again")
        except KeysUnreadable as error:
            logger.error("%s The keys of before go on.", error)

    def _set(self, keys: Iterable[StoredKey]) -> None:
        by_start: dict[bytes, list[StoredKey]] = {}
        for each in (*self._always, *keys):
            by_start.setdefault(each.digest[:4], []).append(each)
        self._by_start = by_start


def _file_state(path: Path) -> tuple[int, int, int] | None:
    """What changes whenever the file does; None without one."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_keys(path: Path) -> list[StoredKey]:
    """Every key of the file; `KeysUnreadable` says what is wrong with it."""
    return [_parsed_key(path, number, fields) for number, fields in read_key_lines(path)]


def read_key_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """The objects of the file and the numbers of their lines; names and hashes are there once."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise KeysUnreadable(f"The keys file {path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise KeysUnreadable(f"The keys file {path} is not UTF-8.") from None
    found: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise KeysUnreadable(f"Line {number} of the keys file {path} is no JSON object.")
        found.append((number, fields))
    for field in ("name", "sha256"):
        values = [str(fields.get(field)) for _, fields in found]
        if len(set(values)) < len(values):
            raise KeysUnreadable(f'Two lines of the keys file {path} have the same "{field}".')
    return found


def _parsed_key(path: Path, number: int, fields: dict[str, Any]) -> StoredKey:
    where = f"Line {number} of the keys file {path}"
    if unknown := sorted(set(fields) - _KEY_FIELDS):
        raise KeysUnreadable(f'{where} has a field "{unknown[0]}", which keys do not have.')
    name, scopes = fields.get("name"), fields.get("scopes", ["use"])
    if not isinstance(name, str) or not is_usable_name(name):
        raise KeysUnreadable(
            f'{where} needs a "name" of 1 to 64 printable characters, and not {" or ".join(RESERVED_NAMES)}.'
        )
    if not isinstance(scopes, list) or not scopes or not all(scope in SCOPES for scope in scopes):
        raise KeysUnreadable(f'{where} needs "scopes" of {" and ".join(SCOPES)}.')
    try:
        found = bytes.fromhex(fields.get("sha256", ""))
        if len(found) != 32:
            raise ValueError
    except (TypeError, ValueError):
        raise KeysUnreadable(f'{where} needs the key\'s "sha256" of 64 hexadecimal digits.') from None
    try:
        rates = parse_rates(fields["rate_limit"]) if "rate_limit" in fields else None
        quotas = parse_quotas(fields["quota"]) if "quota" in fields else None
    except (ValueError, AttributeError) as error:
        raise KeysUnreadable(f'{where} has a "rate_limit" or "quota" that cannot be used: {error}.') from None
    return StoredKey(found, Caller(name, found.hex()[:16], _implied_scopes(scopes), rates, quotas))


def _implied_scopes(scopes: Iterable[Scope]) -> frozenset[Scope]:
    """Who may change what is loaded may use it."""
    found = frozenset(scopes)
    return found | {"use"} if "admin" in found else found


def is_usable_name(name: str) -> bool:
    """It goes into logs, and what its key stores is kept under it: nobody is called as those without a key are."""
    return 0 < len(name) <= 64 and name.isprintable() and name.strip() == name and name not in RESERVED_NAMES


def write_key_lines(path: Path, objects: Iterable[Mapping[str, Any]]) -> None:
    """At once, so that no server reads half a file; a new one is readable for its owner alone."""
    text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    beside.chmod(mode)
    beside.replace(path)
