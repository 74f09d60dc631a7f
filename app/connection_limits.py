"""Limits before any request is routed: of connections, request lines, header fields and seconds. uvicorn's parser keeps
what it is fed until a header field is complete, and waits for the rest without end; this protocol counts what the
parser holds, and closes what takes too long. Bodies are limited by `app.api.request_body`. `Connection` is the only
place that knows uvicorn's inside, and `tests/app/test_uvicorn_seam.py` says what of it.

Beyond a limit the newest connection wins: the connection that has waited longest without a whole request gives way, so
that half-sent requests do not keep others out. A connection whose client may still be sending is closed in two steps
(lingering close, RFC 9112, 9.6): the answer and an end of stream first, and the rest once the client has read it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import random
import re
import socket
import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, cast

import httptools
import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from app.access.authorization import address_id
from app.api.errors import ErrorAnswer
from app.api.request_log import REQUEST_ID_HEADER
from app.engine.metrics import Metrics
from app.errors import EngineError

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: throw away what is not sent
_HOST = re.compile(rb"([A-Za-z0-9._~%!$&'()*+,;=-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?")  # RFC 3986, 3.2.2
log = logging.getLogger(__name__)

MAX_PIPELINED = 16  # requests of one connection that wait for the answer before theirs
MAX_LINGERING = 256  # connections that have their answer and are not closed yet; beyond that the oldest is closed
LINGERING_BYTES = 256 * 2**20  # that are read and thrown away while a connection lingers
RETRY_AFTER_S = 2
JOINED_BYTES = 64 * 1024  # of a body that is copied after its head
SPARE_DESCRIPTORS = 128  # of files, device processes, connections that linger


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The section of the settings that limits connections and what comes before a body."""

    max_connections: int
    max_connections_per_client: int
    max_url_bytes: int
    max_header_bytes: int
    max_headers: int
    header_timeout_s: float
    linger_s: float
    request_timeout_s: float  # here: of an answer of which nothing is read
    trusted_proxies: str
    request_log: bool


class Refused(
    EngineError,
    reasons=(
        *("malformed_request", "url_too_long", "headers_too_large", "headers_too_slow", "not_implemented"),
        *("too_many_connections", "connection_gave_way"),
    ),
):
    """What is answered to a connection without a request that could be routed."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message, reason=reason)
        self.status = status


class ConnectionLimiter:
    """All connections of a server. `connection` is uvicorn's `http` protocol class."""

    def __init__(self, limits: ConnectionLimits, metrics: Metrics) -> None:
        self.limits, self.metrics = limits, metrics
        self.waiting: dict[Connection, None] = {}  # without a whole request; the longest-waiting first
        self.lingering: dict[Connection, None] = {}  # the oldest first
        self._open: set[Connection] = set()  # lingering ones too
        self._ticking = False  # the one timer runs
        self._count = 0  # lingering ones left out
        self._by_client: dict[str, dict[Connection, None]] = {}
        self._tick_s = min(1.0, limits.header_timeout_s / 4, limits.linger_s / 4, limits.request_timeout_s / 4)
        proxies = [ipaddress.ip_network(text) for text in limits.trusted_proxies.split(",") if text]

        @lru_cache(maxsize=4096)
        def client_of(host: str) -> str:
            """Under which id connections are counted; "" for a trusted proxy, which has those of many clients."""
            try:
                address = ipaddress.ip_address(host)
            except ValueError:  # of a Unix socket
                return ""
            return "" if any(address in network for network in proxies) else address_id(host)

        self._client_of = client_of

    def connection(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> Connection:
        return Connection(self, config, server_state, app_state, _loop)

    def admit(self, connection: Connection) -> bool:
        """Whether there is room for a new connection, if need be in the place of one that waits for its request."""
        if not self._ticking:
            self._ticking = True
            connection.loop.call_later(self._tick_s, self._expire, connection.loop)
        self._open.add(connection)
        host = connection.client[0] if connection.client else ""
        connection.counted_for = self._client_of(host)
        mates = self._by_client.setdefault(connection.counted_for, {})
        leaving = None
        if connection.counted_for and len(mates) >= self.limits.max_connections_per_client:
            leaving = next((mate for mate in mates if mate in self.waiting), None)
            full = leaving is None
        else:
            full = self._count >= self.limits.max_connections
            if full and self.waiting:
                leaving, full = next(iter(self.waiting)), False
        if leaving is not None:
            leaving.give_way()
        if full:
            return False
        # after `leave`, which drops the dictionary of a client without connections
        self._by_client.setdefault(connection.counted_for, {})[connection] = None
        self._count += 1
        self.waiting[connection] = None
        return True

    def leave(self, connection: Connection) -> None:
        """Counts the connection no more; again and again is the same as once."""
        self.waiting.pop(connection, None)
        mates = self._by_client.get(connection.counted_for, {})
        if connection in mates:
            del mates[connection]
            self._count -= 1
        if not mates:
            self._by_client.pop(connection.counted_for, None)

    def linger(self, connection: Connection) -> None:
        self.leave(connection)
        self.lingering[connection] = None
        if len(self.lingering) > MAX_LINGERING:
            next(iter(self.lingering)).abort()

    def forget(self, connection: Connection) -> None:
        self.leave(connection)
        self.lingering.pop(connection, None)
        self._open.discard(connection)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """One timer for all: it costs a comparison per connection and tick, and nothing per request."""
        now = loop.time()
        for connection in [each for each in self._open if each.deadline < now or each.write_deadline < now]:
            connection.expire(now)
        self._ticking = bool(self._open)
        if self._ticking:
            loop.call_later(self._tick_s, self._expire, loop)


class Connection(HttpToolsProtocol):
    """uvicorn's protocol of one connection, within the limits of an `ConnectionLimiter`."""

    def __init__(
        self,
        limiter: ConnectionLimiter,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        super().__init__(config, server_state, app_state, loop)
        self.ws_protocol_class = None  # the app has no WebSockets; their protocol would take the connection out of here
        self.limiter, self.limits = limiter, limiter.limits
        self.counted_for = ""
        self.deadline = math.inf  # by the clock of the loop: when `expire` is due
        self.write_deadline = math.inf  # the same, for a client that has taken nothing of its answer until then
        self._unsent_bytes = 0  # when `write_deadline` was set
        self._raw: asyncio.Transport | None = None
        self._running: RequestResponseCycle | None = None  # the request that the app has, or had last
        self._closing = self._discarding = False
        self._refusal: Refused | None = None  # what a callback of the parser stopped for
        self._begun: RequestResponseCycle | None = None  # the request that the last head was of
        self._head = b""  # that waits for the first of its body
        self._in_body = False  # between the end of the headers and that of the message
        self._progress = False  # the parser has completed something of what it was fed
        self._held_bytes = 0  # fed to the parser since it last completed something
        self._discarded_bytes = 0
        self._fields = self._field_bytes = self._hosts = 0  # of this message, trailers included
        self._codings: list[bytes] = []  # the values of Transfer-Encoding

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._raw = transport
        facade = SimpleNamespace(  # what uvicorn writes to and calls `close` on
            write=self._write,
            close=self._close,
            is_closing=lambda: self._closing or transport.is_closing(),
            pause_reading=transport.pause_reading,
            resume_reading=transport.resume_reading,
            get_extra_info=transport.get_extra_info,
        )
        super().connection_made(cast(asyncio.Transport, facade))
        self.deadline = self.loop.time() + self.limits.header_timeout_s
        if not self.limiter.admit(self):
            self._refuse(
                Refused(
                    503, "too_many_connections", "This server has too many connections; try again in a few seconds."
                )
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self.limiter.forget(self)
        self._closing = True
        if self._running is not None:  # uvicorn tells the newest request alone, which may be waiting for this one
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def give_way(self) -> None:
        """To a newer connection: no request of this one is in work."""
        self.limiter.metrics.refused(Refused(503, "connection_gave_way", ""))
        self.abort()

    def abort(self) -> None:
        self.limiter.forget(self)
        self._closing = True
        if self._raw is not None:
            self._raw.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self._closing:
            self.write_deadline = math.inf

    def _await_reader(self) -> None:
        """What waits to be sent holds the connection for `request_timeout_s`, and again for as long as some of it goes:
        a slow reader is served to the end, and one that reads nothing is left."""
        assert self._raw is not None
        self._unsent_bytes = self._raw.get_write_buffer_size()
        self.write_deadline = self.loop.time() + self.limits.request_timeout_s

    def expire(self, now: float) -> None:
        if self.deadline >= now:
            assert self._raw is not None
            if self._raw.get_write_buffer_size() < self._unsent_bytes:
                self._await_reader()
            else:
                # With a reset: the kernel would go on holding megabytes for a client that takes nothing.
                self._raw.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                self.abort()
        elif self._closing:
            self.abort()
        elif self._held_bytes or self._field_bytes:
            seconds = self.limits.header_timeout_s
            self._refuse(
                Refused(408, "headers_too_slow", f"The headers of this request took longer than {seconds:g} seconds.")
            )
        else:  # an answer to nothing would be taken for that to the next request
            self._close()

    # Bytes

    def _write(self, data: bytes) -> None:
        """uvicorn writes the head of an answer and its body one after the other. The head of a body with a length waits
        for the first of it, so that a short answer is one system call and one packet."""
        assert self._raw is not None
        cycle = self._running
        if cycle is not None and cycle.response_started and cycle is not self._begun:  # this is its head
            self._begun = cycle
            if cycle.expected_content_length and not cycle.chunked_encoding and cycle.scope["method"] != "HEAD":
                self._head = data
                return
        if self._head:
            head, self._head = self._head, b""
            if len(data) <= JOINED_BYTES:
                data = head + data
            else:  # no `writelines`: asyncio of Python 3.12.0 to 3.12.8 and 3.13.0 to 3.13.1 pauses no writer after it
                self._raw.write(head)
        self._raw.write(data)

    def data_received(self, data: bytes) -> None:
        if self._discarding:
            self._discarded_bytes += len(data)
            if self._discarded_bytes > LINGERING_BYTES:
                self.abort()
            return
        if self.deadline == math.inf and not self._in_body and (self.cycle is None or self.cycle.response_complete):
            self.deadline = self.loop.time() + self.limits.header_timeout_s
        self._unset_keepalive_if_required()
        self._progress = False
        try:
            self._feed(data)
        except Refused as refusal:
            self._refuse(refusal)
            return
        self._held_bytes = 0 if self._progress else self._held_bytes + len(data)
        if self._held_bytes > self.limits.max_header_bytes + self.limits.max_url_bytes:
            self._refuse(self._headers_too_large())

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)  # the old one reads nothing after `Connection: close`
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
            except httptools.HttpParserError:
                raise self._refusal or Refused(
                    400, "malformed_request", "This is no HTTP request that can be read; send it as RFC 9112 says."
                ) from None
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        """The head that has just been parsed, for the parser to read again. No other protocol is offered, and a request
        goes on as if it had not asked for one (RFC 9110, 7.8). httptools cannot be told so: after a head that asks for
        an upgrade, it ends the request without its body."""
        fields = [name + b": " + value + b"\r\n" for name, value in self.headers if name != b"upgrade"]
        line = b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        return b"".join([line, *fields, b"\r\n"])

    # Callbacks of the parser: it stops where one of them raises.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._fields = self._field_bytes = self._hosts = 0
        self._codings = []

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self.limits.max_url_bytes:
            limit = self.limits.max_url_bytes
            self._stop(
                Refused(414, "url_too_long", f"This server takes addresses of {limit:,} bytes; send texts in a body.")
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        self._field_bytes += len(name) + len(value) + 4  # with ": " and the end of the line
        if self._fields > self.limits.max_headers or self._field_bytes > self.limits.max_header_bytes:
            self._stop(self._headers_too_large())
        if self._in_body:
            return  # a trailer must not pass for a header, which a proxy in front may have checked (RFC 9110, 6.5.1)
        super().on_header(name, value)
        name = self.headers[-1][0]
        if name == b"host":
            self._hosts += 1 if _HOST.fullmatch(value) else 2  # a wrong one is no better than two
        elif name == b"transfer-encoding":
            self._codings.append(value)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                self._stop(Refused(501, "not_implemented", "This server is no proxy and takes no CONNECT; use POST."))
            return  # `_feed` has it parsed again
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):  # 0.9: of a request line without any
            self._stop(Refused(505, "not_implemented", "This server speaks HTTP/1.1 and HTTP/1.0; use one of them."))
        if self._codings:
            self._check_codings(version)
        if self._hosts > 1 or (not self._hosts and version == "1.1"):
            sentence = "A request has one header Host, a name or an address (RFC 9112, 3.2)."
            self._stop(Refused(400, "malformed_request", sentence))
        if len(self.pipeline) >= MAX_PIPELINED:
            self._stop(Refused(503, "too_many_connections", "Wait for answers before you send further requests."))
        super().on_headers_complete()
        self._in_body = self._progress = True
        self.deadline = math.inf
        self.limiter.waiting.pop(self, None)

    def _check_codings(self, version: str) -> None:
        """Where the end of a body is uncertain, another server may see a second request in it (RFC 9112, 6.1, 6.3)."""
        *others, last = [coding.strip(b" \t").lower() for value in self._codings for coding in value.split(b",")]
        if last != b"chunked" or b"chunked" in others or version == "1.0":
            sentence = "The end of this body is uncertain: Transfer-Encoding is `chunked`, in HTTP/1.1, or left out."
            self._stop(Refused(400, "malformed_request", sentence))
        if others:
            sentence = "This server takes bodies as they are: of Transfer-Encoding it knows `chunked` alone."
            self._stop(Refused(501, "not_implemented", sentence))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # uvicorn's type of apps is private
        self._running = cycle
        if cycle.scope["http_version"] == "1.0":
            app = _without_chunks(cycle, app)
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # only its head has been read
        self._in_body, self._progress = False, True
        self._field_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self._in_body and not self.pipeline:  # answered early: what is left of the body is no request
            self._close()
        super().on_response_complete()
        if not self._closing and self.cycle.response_complete:
            self.limiter.waiting[self] = None

    # Refusals

    def _stop(self, refusal: Refused) -> None:
        self._refusal = refusal
        raise refusal

    def _headers_too_large(self) -> Refused:
        limits = self.limits
        return Refused(
            431,
            "headers_too_large",
            f"This server takes {limits.max_headers:,} header fields of {limits.max_header_bytes:,} bytes together;"
            " send fewer or shorter ones.",
        )

    def _refuse(self, refusal: Refused) -> None:
        """Reads no more of this connection, and answers if that is possible."""
        self.limiter.metrics.refused(refusal)
        self._discarding = True
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not self._in_body:  # the answers to earlier requests come first, and nothing after them
                cycle.keep_alive = False
                return
            if cycle.response_started or self.pipeline:
                self.abort()
                return
            cycle.disconnected = True  # the app's answer to half a request
            cycle.message_event.set()
        request_id = f"{random.getrandbits(128):032x}"
        if self.limits.request_log:
            log.info("refused before routing: %d %s, %s", refusal.status, refusal.reason, request_id)
        body = ErrorAnswer(error=refusal.message, code=refusal.reason, field=None, request_id=request_id)
        content = msgspec.json.encode(body)
        fields = {
            b"content-type": b"application/json",
            b"content-length": str(len(content)).encode(),
            b"connection": b"close",
            REQUEST_ID_HEADER.lower().encode(): request_id.encode(),
        }
        if refusal.status == 503:
            fields[b"retry-after"] = str(RETRY_AFTER_S).encode()
        lines = [
            name + b": " + value + b"\r\n" for name, value in [*self.server_state.default_headers, *fields.items()]
        ]
        status = f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\n".encode()
        self.transport.write(b"".join([status, *lines, b"\r\n", content]))
        self._close()

    def _close(self) -> None:
        """Closes once what was written is read: at once, or after a linger where the client may still be sending."""
        if self._closing or self._raw is None:
            return
        self._closing = True
        if self._head:  # the answer's body has failed, and its head still waits here
            self._write(b"")
        if (self._in_body or self._discarding) and self._raw.can_write_eof() and not self._raw.is_closing():
            self._discarding = True
            self.deadline = self.loop.time() + self.limits.linger_s
            self.flow.resume_reading()
            self._raw.write_eof()
            self.limiter.linger(self)
        else:
            self.deadline = math.inf
            self._await_reader()
            self.limiter.leave(self)
            self._raw.close()


def _without_chunks(cycle: RequestResponseCycle, app: ASGIApp) -> ASGIApp:
    """HTTP/1.0 has no chunks (RFC 9112, 6.1): an answer without a length, as a stream is, ends with its connection."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        async def send_plainly(message: Any) -> None:
            if message["type"] == "http.response.start":
                if all(name.lower() != b"content-length" for name, _ in message.get("headers", ())):
                    cycle.chunked_encoding = False
            elif cycle.chunked_encoding is False and not cycle.expected_content_length:
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await app(scope, receive, send_plainly)

    return answer


def guard_running_server(limits: ConnectionLimits, metrics: Metrics) -> bool:
    """Puts the connections of the uvicorn server that is starting this app within the limits; False where there is
    none. Such a server waits for the start of its app before it listens, and takes its protocol class from its
    configuration for each connection: nothing is accepted without the limits."""
    for task in asyncio.all_tasks():
        awaited: Any = task.get_coro()
        while awaited is not None:
            frame = getattr(awaited, "cr_frame", None)
            server = frame.f_locals.get("self") if frame is not None else None
            if isinstance(server, uvicorn.Server) and not server.started and not getattr(server.config, "http2", False):
                limiter = ConnectionLimiter(fit_descriptors(limits), metrics)
                server.config.http_protocol_class = cast(type[asyncio.Protocol], limiter.connection)
                return True
            awaited = getattr(awaited, "cr_await", None)
    return False


def fit_descriptors(limits: ConnectionLimits) -> ConnectionLimits:
    """Raises the process's limit of open files to what the connections need, or else lowers the number of these."""
    if resource is None:
        return limits
    wanted = limits.max_connections + MAX_LINGERING + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return limits
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    except (OSError, ValueError):
        raised = soft
    if raised >= wanted:
        return limits
    fitting = max(raised - MAX_LINGERING - SPARE_DESCRIPTORS, raised // 2)
    log.warning("The limit of open files (ulimit -n) is %d: %d connections at most.", raised, fitting)
    return replace(limits, max_connections=fitting)
