"""Length-prefixed frames: a 4-byte big-endian length, then the body.

An asyncio protocol handles frames in the event-loop iteration in which they arrive; a stream reader would wake a task,
which waits behind all requests that arrived meanwhile."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

HEADER = struct.Struct(">I")
MAX_FRAME_BYTES = 1 << 30


def frame(body: bytes) -> bytes:
    """A length-prefixed frame. Raises ValueError if the body is too long."""
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"A frame of {len(body)} bytes is over the limit of {MAX_FRAME_BYTES}.")
    return HEADER.pack(len(body)) + body


class FrameSplitter:
    """Splits a byte stream, fed in chunks of any size, into frame bodies."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def bodies(self, data: bytes) -> Iterator[bytes]:
        """The bodies of the frames completed by `data`. Raises ValueError for a frame that is too long."""
        self._unread += data
        while len(self._unread) >= HEADER.size:
            (length,) = HEADER.unpack_from(self._unread)
            if length > MAX_FRAME_BYTES:
                raise ValueError(f"A frame announces {length} bytes, over the limit of {MAX_FRAME_BYTES}.")
            end = HEADER.size + length
            if len(self._unread) < end:
                return
            body = bytes(self._unread[HEADER.size : end])
            del self._unread[:end]
            yield body


class FrameProtocol(asyncio.Protocol):
    """Receives frames. on_body: called per frame; on_end: once, at the connection's end or a malformed frame."""

    def __init__(self, on_body: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_body, self._on_end = on_body, on_end
        self._transport: asyncio.BaseTransport | None = None
        self._splitter = FrameSplitter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        try:
            for body in self._splitter.bodies(data):
                self._on_body(body)
        except Exception:
            log.exception("a device process said what cannot be understood; it is ended")
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()
