"""The keys file: one JSON object per line, with the key's SHA-256 and never the key.

    {"name": "web shop", "sha256": "…", "scopes": ["use"], "rate_limit": "60/minute", "quota": "500000/month"}

Keys are generated here from 256 random bits, so a fast hash is enough: unlike passwords, they cannot be guessed."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from app.access.rate_limits import Quota, Rate, parse_quotas, parse_rates

logger = logging.getLogger(__name__)

Scope = Literal["use", "admin"]
SCOPES: tuple[Scope, ...] = ("use", "admin")
KEY_PREFIX = "plk_"  # lets people and secret scanners recognise a key
RELOAD_CHECK_S = 1.0
_KEY_FIELDS = {"name", "sha256", "scopes", "rate_limit", "quota", "created"}


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of a key, or anonymous. digest: the key's SHA-256 or b"". rates, quotas: None: the server's."""

    name: str
    digest: bytes = field(default=b"", repr=False)
    scopes: frozenset[Scope] = frozenset({"use"})
    rates: tuple[Rate, ...] | None = None
    quotas: tuple[Quota, ...] | None = None

    @property
    def key_id(self) -> str:
        """The start of the key's hash, the id that usage is counted under; "" without a key."""
        return self.digest.hex()[:16]


ANONYMOUS = Caller("anonymous")
_NOBODY = Caller("", hashlib.sha256(b"nobody's").digest())
RESERVED_NAMES = (ANONYMOUS.name, "admin")  # "admin": the caller with PARLANCE_ADMIN_KEY


class KeysUnreadable(Exception):
    """The message is one sentence without secrets."""


def new_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def key_digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


class KeyRing:
    """The keys of `always` and of a file, reloaded on change; a failed reload is logged and keeps the old keys."""

    def __init__(
        self, path: Path | None, always: Iterable[Caller] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._always, self._clock = path, tuple(always), clock
        self._checked_at_s = clock()
        self._state = None if path is None else _file_state(path)
        self._set_keys([] if path is None else read_keys(path))

    def find(self, key: str) -> Caller | None:
        """Looks the key up by the start of its hash, which a client cannot choose, and compares in constant time."""
        self._reload_if_changed()
        digest = key_digest(key)
        caller = None
        for known in self._callers_by_start.get(digest[:4]) or [_NOBODY]:
            if hmac.compare_digest(known.digest, digest):
                caller = known
        return caller

    def has_admin(self) -> bool:
        self._reload_if_changed()
        return any("admin" in caller.scopes for callers in self._callers_by_start.values() for caller in callers)

    def _reload_if_changed(self) -> None:
        now = self._clock()
        if self._path is None or now - self._checked_at_s < RELOAD_CHECK_S:
            return
        self._checked_at_s = now
        state = _file_state(self._path)
        if state == self._state:
            return
        self._state = state
        try:
            self._set_keys(read_keys(self._path))
            logger.info("the keys file has been read again")
        except KeysUnreadable as error:
            logger.error("%s The keys of before go on.", error)

    def _set_keys(self, callers: Iterable[Caller]) -> None:
        by_start = defaultdict[bytes, list[Caller]](list)
        for caller in (*self._always, *callers):
            by_start[caller.digest[:4]].append(caller)
        self._callers_by_start = by_start


def _file_state(path: Path) -> tuple[int, int, int] | None:
    """A fingerprint that changes whenever the file does; None if the file does not exist."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


def read_keys(path: Path) -> list[Caller]:
    """All keys of the file. Raises `KeysUnreadable` with the problem in one sentence."""
    return [_parsed_key(path, number, fields) for number, fields in read_key_lines(path)]


def read_key_lines(path: Path) -> list[tuple[int, dict[str, object]]]:
    """Line numbers and objects of the file; names and hashes are unique. Raises `KeysUnreadable`."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise KeysUnreadable(f"The keys file {path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise KeysUnreadable(f"The keys file {path} is not UTF-8.") from None
    lines: list[tuple[int, dict[str, object]]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise KeysUnreadable(f"Line {number} of the keys file {path} is no JSON object.")
        lines.append((number, fields))
    for name in ("name", "sha256"):
        values = [str(fields.get(name)) for _, fields in lines]
        if len(set(values)) < len(values):
            raise KeysUnreadable(f'Two lines of the keys file {path} have the same "{name}".')
    return lines


def _parsed_key(path: Path, number: int, fields: Mapping[str, object]) -> Caller:
    where = f"Line {number} of the keys file {path}"
    if unknown := sorted(set(fields) - _KEY_FIELDS):
        raise KeysUnreadable(f'{where} has a field "{unknown[0]}", which keys do not have.')
    name, scopes = fields.get("name"), fields.get("scopes", ["use"])
    if not isinstance(name, str) or not is_usable_name(name):
        names = " or ".join(RESERVED_NAMES)
        raise KeysUnreadable(f'{where} needs a "name" of 1 to 64 printable characters, and not {names}.')
    if not isinstance(scopes, list) or not scopes or not all(scope in SCOPES for scope in scopes):
        raise KeysUnreadable(f'{where} needs "scopes" of {" and ".join(SCOPES)}.')
    if "admin" in scopes:  # includes the right to use the server
        scopes = [*scopes, "use"]
    try:
        digest = bytes.fromhex(_text(fields.get("sha256")))
        if len(digest) != 32:
            raise ValueError
    except ValueError:
        raise KeysUnreadable(f'{where} needs the key\'s "sha256" of 64 hexadecimal digits.') from None
    try:
        rates = parse_rates(_text(fields["rate_limit"])) if "rate_limit" in fields else None
        quotas = parse_quotas(_text(fields["quota"])) if "quota" in fields else None
    except ValueError as error:
        raise KeysUnreadable(f'{where} has a "rate_limit" or "quota" that cannot be used: {error}.') from None
    return Caller(name, digest, frozenset(scopes), rates, quotas)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("it is not a text")
    return value


def is_usable_name(name: str) -> bool:
    """Whether a key may have this name: names appear in logs and own stored data, so reserved names are refused."""
    return 0 < len(name) <= 64 and name.isprintable() and name.strip() == name and name not in RESERVED_NAMES


def write_key_lines(path: Path, objects: Iterable[Mapping[str, object]]) -> None:
    """Replaces the file atomically, so that no server reads half of it; a new file is readable by its owner only."""
    text = "".join(json.dumps(fields, ensure_ascii=False) + "\n" for fields in objects)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    beside.chmod(mode)
    beside.replace(path)
