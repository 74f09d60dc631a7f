"""A lean HTTP/1.1 client: keep-alive connections and server-sent events, timed as the bytes arrive.

It shares the machine with the server it measures, so it does no more than that: httptools parses, and JSON is
read after the clock has stopped.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httptools

TIMEOUT_S = 120.0


@dataclass(slots=True)
class Answer:
    """Times are from `time.perf_counter`; status 0: the connection broke, and `body` has the reason."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    chunk_times: list[tuple[float, int]] = field(default_factory=list)  # when, and how long the body was then
    ended: float = 0.0

    @property
    def streamed(self) -> bool:
        return self.headers.get(b"content-type", b"").startswith(b"text/event-stream")

    @property
    def succeeded(self) -> bool:
        """Whether it is whole: 200, and for a stream the event `done`."""
        return self.status == 200 and (not self.streamed or any(name == "done" for _, name, _ in self.events()))

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[tuple[float, str, Any]]:
        """(when it was whole, event name, data) of each server-sent event."""
        results, start = [], 0
        text = self.body.replace(b"\r\n", b"\n") if b"\r" in self.body else self.body
        chunks = iter(self.chunk_times)
        when, reached = next(chunks, (self.ended, 0))
        while (end := text.find(b"\n\n", start)) >= 0:
            while reached < end + 2 and (chunk := next(chunks, None)):
                when, reached = chunk
            name, data = "message", []
            for line in text[start:end].decode().split("\n"):
                key, _, value = line.partition(":")
                if key == "event":
                    name = value.strip()
                elif key == "data":
                    data.append(value.removeprefix(" "))
            if data:
                results.append((when, name, json.loads("\n".join(data))))
            start = end + 2
        return results


class Connection(asyncio.Protocol):
    """One request at a time. used: it has had one before; answered: something came back for the present one."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.answer, self.done = Answer(), asyncio.get_running_loop().create_future()
        self.parser = httptools.HttpResponseParser(self)
        self.parts: list[bytes] = []
        self.length = 0
        self.open = self.used = self.answered = False

    def connection_made(self, transport: Any) -> None:
        self.transport, self.open = transport, True

    def data_received(self, data: bytes) -> None:
        self.answered = True
        self.parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if not self.done.done():
            self._finish(0, f"the connection ended: {exc}".encode())

    def on_header(self, name: bytes, value: bytes) -> None:
        self.answer.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self.parts.append(body)
        self.length += len(body)
        self.answer.chunk_times.append((time.perf_counter(), self.length))

    def on_message_complete(self) -> None:
        self.open = self.open and bool(self.parser.should_keep_alive())
        if not self.done.done():
            self._finish(self.parser.get_status_code(), b"".join(self.parts))

    def _finish(self, status: int, body: bytes) -> None:
        self.answer.status, self.answer.body, self.answer.ended = status, body, time.perf_counter()
        self.done.set_result(self.answer)

    def start(self, request: bytes) -> None:
        assert self.transport is not None
        self.answer, self.done = Answer(), asyncio.get_running_loop().create_future()
        self.parser = httptools.HttpResponseParser(self)
        self.parts, self.length = [], 0
        self.used, self.answered = True, False
        self.transport.write(request)

    def close(self) -> None:
        self.open = False
        if self.transport is not None:
            self.transport.abort()


class Client:
    """Keep-alive connections to one server, as many as are needed or `most`: a browser opens six. addresses: from which
    they come in turn, as those of many clients do."""

    def __init__(self, port: int, most: int | None = None, addresses: Sequence[str] = ("127.0.0.1",)) -> None:
        self.port, self.idle = port, list[Connection]()
        self.addresses = itertools.cycle(addresses)
        self.turn = asyncio.Semaphore(most or 1_000_000)

    async def connection(self) -> Connection:
        while self.idle:
            connection = self.idle.pop()
            if connection.open:
                return connection
        return await self._connect()

    async def _connect(self) -> Connection:
        _, made = await asyncio.get_running_loop().create_connection(
            Connection, "127.0.0.1", self.port, local_addr=(next(self.addresses), 0)
        )
        return made

    async def open(self, count: int) -> None:
        """Have so many connections ready, so that no request waits for its own."""
        self.idle += [await self._connect() for _ in range(count - len(self.idle))]

    async def ask(self, request: bytes) -> Answer:
        """An answer, whatever happens: status 0 where there was none. Where the server had closed a kept connection
        by the time that the request left, it is sent once more on another, as HTTP clients do."""
        async with self.turn:
            while True:
                try:
                    connection = await self.connection()
                except OSError as error:
                    return Answer(body=str(error).encode(), ended=time.perf_counter())
                kept = connection.used
                connection.start(request)
                try:
                    answer: Answer = await asyncio.wait_for(connection.done, TIMEOUT_S)
                except TimeoutError:
                    connection.close()
                    return Answer(body=b"no answer in time", ended=time.perf_counter())
                except asyncio.CancelledError:
                    connection.close()
                    raise
                if connection.open:
                    self.idle.append(connection)
                if answer.status or not kept or connection.answered:
                    return answer

    def close(self) -> None:
        """Closes the connection; pending requests are abandoned."""
        for connection in self.idle:
            connection.close()
        self.idle.clear()


def post(path: str, body: Any) -> bytes:
    """A whole request, made before the clock starts."""
    data = json.dumps(body, ensure_ascii=False).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    return head.encode() + b"\r\n\r\n" + data


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
