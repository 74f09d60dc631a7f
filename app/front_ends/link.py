"""One end of the socket between a front-end process and the engine process."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

from app.engine.protocol.messages import FrameSplitter
from app.front_ends.codec import FromFrontEnd, ToFrontEnd, encode_value, frame

log = logging.getLogger(__name__)

Received = TypeVar("Received")
Sent = TypeVar("Sent", bound=ToFrontEnd | FromFrontEnd)


class Link(asyncio.Protocol, Generic[Received, Sent]):
    """Messages of one event-loop iteration leave in one frame, so that a step of the engine that brings text for a
    hundred streams is one write. decode: the body of a frame -> its messages. on_message: called with each message, in
    the iteration in which it arrives; on_end: once, when the other process is gone or cannot be understood."""

    def __init__(
        self,
        decode: Callable[[bytes], Sequence[Received]],
        on_message: Callable[[Received], None],
        on_end: Callable[[], None],
    ) -> None:
        self._decode, self._on_message, self._on_end = decode, on_message, on_end
        self._transport: asyncio.Transport | None = None
        self._splitter = FrameSplitter()
        self._leaving: list[bytes] = []
        self._room = asyncio.Event()
        self._room.set()

    async def connect(self, connection: socket.socket) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self, sock=connection)

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def has_room(self) -> bool:
        """Whether the other process reads what is sent."""
        return self._room.is_set()

    def send(self, message: Sent) -> None:
        """Writes without waiting; dropped when the other process is gone. Raises whatever msgspec does for a value that
        cannot be sent, such as an integer of more than 64 bits."""
        encoded = encode_value(message)
        if not self._leaving:
            asyncio.get_running_loop().call_soon(self.flush)
        self._leaving.append(encoded)

    def flush(self) -> None:
        """Writes now, before whatever else is ready."""
        messages, self._leaving = self._leaving, []
        if messages and self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(messages))

    async def room(self) -> None:
        """Waits while the other process does not read."""
        await self._room.wait()

    def close(self) -> None:
        """Ends the connection once everything is written."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._splitter.bodies(data):
                for message in self._decode(body):
                    self._on_message(message)
        except Exception:
            log.exception("a process of this service said what cannot be understood; its connection is ended")
            self.abort()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._room.set()
        self._on_end()
