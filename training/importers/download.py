"""Downloads files whose servers may break off, drip, lie or be hostile.

What has come is kept in a part of the file, which the next attempt continues, also one of another process. No more is
written than the size that was declared before. A timeout of a socket bounds the wait for the next byte alone, and a
server that sends one byte a second never meets it: so transfers run in threads of their own, and the caller gives up on
those that bring too little, wherever they hang (the name, the connection, TLS, headers, body)."""

from __future__ import annotations

import hashlib
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from httpx2 import Response

RETRIES = 5  # without a byte between them
RETRY_AFTER_S = 1.0
LEAST_BYTES_PER_S = 500  # a model of 300 MB would take a week
POLL_S = 0.25
LEAVE_S = 1.0  # for the other transfers to notice that one has failed
BUSY = (408, 429, 500, 502, 503, 504)
BLOCK = 1 << 20
SHA256_DIGITS = 64
UNPACKED = {"Accept-Encoding": "identity"}  # sizes and ranges are those of the file itself


class Stalled(ConnectionError):
    """Too few bytes came in time."""


class BrokenOff(ConnectionError):
    """A transfer ended early."""


class Stopped(Exception):
    """Ends a transfer in its thread."""


class Watch:
    """Counts the bytes of transfers. window_s: in which at least `least_bytes` have to come; without `least_bytes`
    everything has to end in it."""

    def __init__(self, window_s: float, least_bytes: float | None = None) -> None:
        self._window_s, self._least = window_s, least_bytes
        self._lock = threading.Lock()
        self._bytes, self._since = 0, time.monotonic()
        self.stop = threading.Event()

    def received(self, size: int) -> None:
        """Raises `Stopped` in a transfer that nobody waits for any more."""
        if self.stop.is_set():
            raise Stopped
        with self._lock:
            self._bytes += size

    def restart(self) -> None:
        """The window begins anew, as for a transfer that waits for another process on this machine."""
        with self._lock:
            self._bytes, self._since = 0, time.monotonic()

    def check(self) -> None:
        """Raises `Stalled`."""
        passed_s = time.monotonic() - self._since
        if passed_s < self._window_s:
            return
        if self._least is None:
            raise Stalled(f"no whole answer in {self._window_s:g} seconds")
        if self._bytes < self._least:
            raise Stalled(f"{self._bytes:,} bytes in {passed_s:.2g} seconds")
        self.restart()


def run_watched(transfers: Sequence[Callable[[], None]], watch: Watch, at_once: int = 1) -> None:
    """Runs the transfers, and raises the first error of one, or `Stalled`. The threads of those that hang are left
    behind; they end with their next byte, which is not written, or with the process."""
    waiting, ended = queue.SimpleQueue[Callable[[], None]](), queue.SimpleQueue[BaseException | None]()
    for transfer in transfers:
        waiting.put(transfer)

    def work() -> None:
        while not watch.stop.is_set():
            try:
                waiting.get_nowait()()
            except queue.Empty:
                return
            except BaseException as error:
                ended.put(error)
                return
            ended.put(None)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(at_once, len(transfers)))]
    for thread in threads:
        thread.start()
    left = len(transfers)
    try:
        while left:
            try:
                error = ended.get(timeout=POLL_S)
            except queue.Empty:
                watch.check()
                continue
            if error is not None:
                raise error
            left -= 1
            if left:
                watch.check()
    finally:
        watch.stop.set()
        end_s = time.monotonic() + LEAVE_S
        for thread in threads:
            thread.join(max(end_s - time.monotonic(), 0))


def watch_of(window_s: float) -> Watch:
    """The watch of downloads that have to bring `LEAST_BYTES_PER_S`."""
    return Watch(window_s, window_s * LEAST_BYTES_PER_S)


@dataclass(frozen=True, slots=True)
class Part:
    """A file that is being downloaded. name: for messages. path: of what has come. opened: a successful response to a
    request with these headers, its body not read yet. size: declared before the download, by a caller that verifies the
    content after it."""

    name: str
    path: Path
    opened: Callable[[Mapping[str, str]], AbstractContextManager[Response]]
    size: int

    @property
    def bytes(self) -> int:
        return self.path.stat().st_size


def complete(part: Part, watch: Watch, advance: Callable[[int], None]) -> None:
    """Fetches what the part lacks; raises the last error. advance: gets the bytes that are there and then those that
    arrive, negative where the server begins anew."""
    part.path.parent.mkdir(parents=True, exist_ok=True)
    part.path.touch()
    if part.bytes > part.size:
        os.truncate(part.path, 0)
    advance(part.bytes)
    failures = 0
    while True:
        before = part.bytes
        try:
            return _continue(part, before, watch, advance)
        except Exception as error:
            failures = 1 if part.bytes > before else failures + 1
            if failures > RETRIES or not broke_off(error):
                raise
        watch.received(0)
        time.sleep(RETRY_AFTER_S)


def _continue(part: Part, there: int, watch: Watch, advance: Callable[[int], None]) -> None:
    if there == part.size:
        return
    headers = {**UNPACKED, **({"Range": f"bytes={there}-"} if there else {})}
    with part.opened(headers) as response, part.path.open("ab", buffering=0) as file:
        if there and response.status_code != 206:  # a server that knows no ranges, or whose file is another one
            file.truncate(0)
            advance(-there)
            there = 0
        for block in response.iter_raw():
            watch.received(len(block))
            there += len(block)
            if there > part.size:
                raise ValueError(f"it sends more than the {part.size:,} bytes that it gives for {part.name}")
            file.write(block)
            advance(len(block))
    if there < part.size:
        raise BrokenOff(f"{there:,} of {part.size:,} bytes came")


def broke_off(error: Exception) -> bool:
    """Whether a transfer ended early, and may go on."""
    from httpx2 import HTTPError, TransportError, UnsupportedProtocol

    if isinstance(error, Stalled | UnsupportedProtocol):
        return False
    status = getattr(getattr(error, "response", None), "status_code", None) if isinstance(error, HTTPError) else None
    return status in BUSY or isinstance(error, TransportError | ConnectionError)


def has_digest(path: Path, digest: str, advance: Callable[[int], None]) -> bool:
    """digest: SHA-256 in 64 hexadecimal digits, or git's SHA-1 of a blob in 40."""
    if len(digest) == SHA256_DIGITS:
        made = hashlib.sha256()
    else:
        made = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            made.update(block)
            advance(len(block))
    return made.hexdigest() == digest
