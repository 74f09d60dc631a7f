"""Where one request ends and the next begins, and that an `Upgrade` to another protocol changes nothing about it: how
many answers there are, and which, however the bytes are cut into packets."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import h11
import pytest
import uvicorn
from uvicorn.server import ServerState

from app.connection_limits import ConnectionLimiter, ConnectionLimits
from app.engine.metrics import Metrics
from app.settings import Settings
from tests.app.socket_server import SocketServer, serving_sockets
from tests.app.test_connection_writes import RecordingTransport

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
JSON = json.dumps({"q": "hallo", "source": "de", "target": "en"}).encode()
FORM = b"q=hallo&source=de&target=en"
NESTED = b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"  # 404, were it read as a request
LAST = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
GET = LAST.replace(b"Connection: close\r\n", b"")
HEAD = GET.replace(b"GET", b"HEAD", 1)
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
WEBSOCKET = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Version: 13\r\n"
)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
EXPECT = b"Expect: 100-continue\r\n"


def post(
    body: bytes, fields: bytes = b"", *, kind: bytes = b"application/json", line: bytes = b"POST /translate HTTP/1.1"
) -> bytes:
    head = b"%s\r\nHost: x\r\nContent-Type: %s\r\n" % (line, kind)
    return head + b"%sContent-Length: %d\r\n\r\n%s" % (fields, len(body), body)


def chunked(body: bytes, fields: bytes = b"", *, size: int = 10, trailers: bytes = b"") -> bytes:
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(
        [
            b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + fields + CHUNKED + b"\r\n",
            *(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks),
            b"0\r\n" + trailers + b"\r\n",
        ]
    )


def coded(*lines: bytes, version: bytes = b"1.1") -> bytes:
    """A chunked body under these fields."""
    return chunked(JSON).replace(CHUNKED, b"".join(line + b"\r\n" for line in lines)).replace(b"1.1", version, 1)


def upgraded(request: bytes, fields: bytes = H2C) -> bytes:
    return request.replace(b"Host: x\r\n", b"Host: x\r\n" + fields, 1)


# What is sent before LAST, and the status of each answer: its own 200 is the last of these unless the bytes before it
# ended the connection.
FRAMINGS: dict[str, tuple[bytes, list[int]]] = {
    # upgrades without a body
    "GET, h2c": (upgraded(GET), [200, 200]),
    "GET, websocket": (upgraded(GET, WEBSOCKET), [200, 200]),
    "GET, TLS": (upgraded(GET, b"Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n"), [200, 200]),
    "GET, an unknown protocol": (upgraded(GET, b"Connection: upgrade\r\nUpgrade: IRC/6.9, RTA/x11\r\n"), [200, 200]),
    "HEAD, h2c": (upgraded(HEAD), [200, 200]),
    "OPTIONS, TLS": (upgraded(GET.replace(b"GET", b"OPTIONS"), H2C), [405, 200]),
    "GET with a length of 0, h2c": (upgraded(GET, H2C + b"Content-Length: 0\r\n"), [200, 200]),
    "GET with a body that is a request, h2c": (
        upgraded(GET, H2C + b"Content-Length: %d\r\n" % len(NESTED)) + NESTED,
        [200, 200],
    ),
    "POST without a body, h2c": (upgraded(post(b"")), [400, 200]),
    # upgrades with a length
    "JSON, h2c": (upgraded(post(JSON)), [200, 200]),
    "form, h2c": (upgraded(post(FORM, kind=b"application/x-www-form-urlencoded")), [200, 200]),
    "JSON, websocket": (upgraded(post(JSON), WEBSOCKET), [200, 200]),
    "JSON, h2c behind the length": (post(JSON).replace(b"\r\n\r\n", b"\r\n" + H2C + b"\r\n", 1), [200, 200]),
    "JSON, h2c and Connection: close": (upgraded(post(JSON), b"Connection: close, upgrade\r\nUpgrade: h2c\r\n"), [200]),
    "JSON, names in capitals": (upgraded(post(JSON), b"CONNECTION: UPGRADE\r\nUPGRADE: H2C\r\n"), [200, 200]),
    "JSON, names in lower case": (upgraded(post(JSON), b"connection: upgrade\r\nupgrade: h2c\r\n"), [200, 200]),
    "JSON, spaces around values": (
        upgraded(post(JSON), b"Connection: \t upgrade \t\r\nUpgrade:  h2c \r\n"),
        [200, 200],
    ),
    "JSON, no spaces": (upgraded(post(JSON), b"Connection:upgrade\r\nUpgrade:h2c\r\n"), [200, 200]),
    "JSON, two Upgrade fields": (upgraded(post(JSON), H2C + b"Upgrade: websocket\r\n"), [200, 200]),
    "JSON, two Connection fields": (
        upgraded(post(JSON), b"Connection: keep-alive\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"),
        [200, 200],
    ),
    "JSON, an empty Upgrade": (upgraded(post(JSON), b"Connection: Upgrade\r\nUpgrade:\r\n"), [200, 200]),
    "JSON, Upgrade without Connection": (upgraded(post(JSON), b"Upgrade: h2c\r\n"), [200, 200]),
    "JSON, Connection without Upgrade": (upgraded(post(JSON), b"Connection: Upgrade\r\n"), [200, 200]),
    "JSON, h2c, over HTTP/1.0": (upgraded(post(JSON, line=b"POST /translate HTTP/1.0")), [200]),
    "JSON, h2c, 100-continue": (upgraded(post(JSON, EXPECT)), [100, 200, 200]),
    "PUT with a body, h2c": (upgraded(post(JSON, line=b"PUT /translate HTTP/1.1")), [405, 200]),
    "a body that is a request, h2c": (upgraded(post(NESTED)), [400, 200]),
    "a body that is a request with h2c, h2c": (upgraded(post(upgraded(NESTED))), [400, 200]),
    "a body that is HTTP/2, h2c": (upgraded(post(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")), [400, 200]),
    "a body that holds a line Upgrade": (post(b"\r\nUpgrade: h2c\r\n\r\n"), [400, 200]),
    # upgrades in chunks
    "chunks, h2c": (upgraded(chunked(JSON)), [200, 200]),
    "chunks of one byte, websocket": (upgraded(chunked(JSON, size=1), WEBSOCKET), [200, 200]),
    "chunks, h2c, 100-continue": (upgraded(chunked(JSON, EXPECT)), [100, 200, 200]),
    "chunks that are a request, h2c": (upgraded(chunked(NESTED, size=1000)), [400, 200]),
    "chunks with a trailer Upgrade": (chunked(JSON, trailers=H2C), [200, 200]),
    "chunks with a trailer Upgrade, h2c": (upgraded(chunked(JSON, trailers=H2C)), [200, 200]),
    "chunks with extensions, h2c": (upgraded(chunked(JSON)).replace(b"a\r\n{", b"a;upgrade=h2c\r\n{"), [200, 200]),
    # several requests
    "three, h2c each": (upgraded(post(JSON)) * 3, [200, 200, 200, 200]),
    "h2c, plain, websocket": (upgraded(post(JSON)) + GET + upgraded(chunked(JSON), WEBSOCKET), [200, 200, 200, 200]),
    "GET with h2c before a POST with h2c": (upgraded(GET) + upgraded(post(JSON)), [200, 200, 200]),
    "h2c before a request that is none": (upgraded(post(JSON)) + b"garbage\r\n\r\n", [200]),
    # other protocols
    "HTTP/2 without asking": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
    "a TLS greeting": (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(160), [400]),
    "CONNECT": (b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n", [501]),
    "CONNECT with h2c": (upgraded(b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n"), [501]),
    "CONNECT with a body": (post(NESTED, line=b"CONNECT /translate HTTP/1.1"), [501]),
    "CONNECT in chunks": (chunked(NESTED).replace(b"POST /translate", b"CONNECT x:80"), [501]),
    "a request behind CONNECT": (b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n" + NESTED, [501]),
    # lengths that two servers could read in two ways, with and without an upgrade
    "a length and chunks, h2c": (upgraded(chunked(JSON, b"Content-Length: 5\r\n")), [400]),
    "two lengths, h2c": (upgraded(post(JSON, H2C + b"Content-Length: 5\r\n")), [400]),
    "length +5, h2c": (upgraded(GET, H2C + b"Content-Length: +5\r\n"), [400]),
    "two hosts, h2c": (upgraded(post(JSON), H2C + b"Host: y\r\n"), [400]),
    "no host, h2c": (upgraded(post(JSON)).replace(b"Host: x\r\n", b""), [400]),
    "Upgrade with a space before the colon": (upgraded(post(JSON), b"Connection: Upgrade\r\nUpgrade : h2c\r\n"), [400]),
    "a folded Upgrade": (upgraded(post(JSON), b"Connection: Upgrade\r\nUpgrade: h2c,\r\n websocket\r\n"), [400]),
    "a line feed in Upgrade": (upgraded(post(JSON), b"Connection: Upgrade\r\nUpgrade: h2c\nX: y\r\n"), [400]),
    "HTTP/0.9": (b"GET /health\r\n\r\n", [505]),
    "HTTP/0.9 with fields": (post(JSON, line=b"POST /translateHTTP/1.1"), [505]),
    "HTTP/2.0": (post(JSON, line=b"POST /translate HTTP/2.0"), [505]),
    # transfer codings
    "CHUNKED": (coded(b"Transfer-Encoding: CHUNKED"), [200, 200]),
    "gzip, chunked": (coded(b"Transfer-Encoding: gzip, chunked"), [501]),
    "gzip, chunked, h2c": (upgraded(coded(b"Transfer-Encoding: gzip, chunked")), [501]),
    "gzip and chunked on two lines": (coded(b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"), [501]),
    "identity, chunked": (coded(b"Transfer-Encoding: identity,chunked"), [501]),
    "an unknown coding, chunked": (coded(b"Transfer-Encoding: br;q=1, Chunked"), [501]),
    "gzip alone": (coded(b"Transfer-Encoding: gzip"), [400]),
    "chunked, gzip": (coded(b"Transfer-Encoding: chunked, gzip"), [400]),
    "chunked, chunked": (coded(b"Transfer-Encoding: chunked, chunked"), [400]),
    "chunked twice": (coded(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), [400]),
    "chunked with a parameter": (coded(b"Transfer-Encoding: chunked;a=b"), [400]),
    "chunked behind a vertical tab": (coded(b"Transfer-Encoding: \x0bchunked"), [400]),
    "an empty coding": (coded(b"Transfer-Encoding:"), [400]),
    "chunked over HTTP/1.0": (coded(b"Transfer-Encoding: chunked", version=b"1.0"), [400]),
    "chunked and a length over HTTP/1.0": (
        coded(b"Transfer-Encoding: chunked", b"Content-Length: 5", version=b"1.0"),
        [400],
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[SocketServer]:
    with serving_sockets(request_log=False, rate_limit="") as running:
        yield running


def statuses(received: bytes) -> list[int]:
    found = []
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        found.append(int(lines[0].split(b" ")[1]))
        lengths = [int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")]
        if lengths and received[:9] != b"HTTP/1.1 ":  # the answer to a HEAD has none
            received = received[lengths[0] :]
    return found


@pytest.mark.parametrize("name", FRAMINGS)
def test_each_request_has_one_answer_and_what_is_no_request_has_none(server: SocketServer, name: str) -> None:
    sent, expected = FRAMINGS[name]
    assert statuses(server.exchange(sent + LAST)) == expected


class Heard(NamedTuple):
    """The requests that reached the app, the statuses that left the server, and whether it ended the connection."""

    requests: list[tuple[str, str, bytes]]
    statuses: list[int]
    closed: bool


class Listener:
    """A server without sockets, whose app notes what it is asked."""

    def __init__(self) -> None:
        self.limiter = ConnectionLimiter(Settings().section(ConnectionLimits), Metrics())
        http: Any = self.limiter.connection
        self.config = uvicorn.Config(self.app, http=http, ws="none", interface="asgi3", lifespan="off", log_config=None)
        self.config.load()
        self.requests: list[tuple[str, str, bytes]] = []

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        self.requests.append((scope["method"], scope["path"], body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def hear(self, *packets: bytes) -> Heard:
        """Each packet comes once all that the ones before it led to is done."""
        self.requests = []
        transport, state = RecordingTransport(), ServerState()
        connection = self.limiter.connection(self.config, state, {})
        connection.connection_made(transport)
        for packet in packets:
            if not transport.closed:
                connection.data_received(packet)
                for _ in range(40):  # more than four answers take; a request that is not whole never ends
                    if state.tasks:
                        await asyncio.sleep(0)
        heard = Heard(self.requests, statuses(b"".join(transport.written).replace(CONTINUE, b"")), transport.closed)
        transport.closed = True
        connection.connection_lost(None)
        await asyncio.sleep(0)
        return heard


@pytest.fixture(scope="module")
def listener() -> Listener:
    return Listener()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (n % 4 > 0)) for n, name in enumerate(FRAMINGS)]
)
def test_packets_may_be_cut_anywhere(listener: Listener, name: str) -> None:
    sent = FRAMINGS[name][0] + LAST

    async def run() -> None:
        whole = await listener.hear(sent)
        assert len(whole.statuses) == len([status for status in FRAMINGS[name][1] if status != 100])
        assert [status for status in whole.statuses if status not in (200, 400, 501, 505)] == []
        for packets in (
            *((sent[:at], sent[at:]) for at in range(1, len(sent), 1 + len(sent) // 500)),
            [bytes([byte]) for byte in sent],
        ):
            cut = await listener.hear(*packets)
            if len(cut.statuses) > len(whole.statuses):  # what is no request behind an answer that was waited for
                cut = cut._replace(statuses=cut.statuses[:-1])
                assert name == "h2c before a request that is none"
            assert cut == whole, packets

    asyncio.run(run())


FIELDS = [
    *(b"Content-Length: %d" % length for length in (0, 1, len(NESTED), len(NESTED), len(JSON), 5000)),
    *(b"Content-Length: " + value for value in (b"+5", b"5 5", b"5,5", b"0x5", b"", b"-1", b"1e1", b" 5 ")),
    *(b"Transfer-Encoding: " + value for value in (b"chunked", b"chunked", b"Chunked ", b"gzip, chunked", b"identity")),
    *(b"Transfer-Encoding: " + value for value in (b"chunked, chunked", b",chunked", b"xchunked", b"\x0bchunked", b"")),
    *(b"Connection: " + value for value in (b"close", b"keep-alive", b"Upgrade", b"upgrade, close", b"x", b"")),
    *(b"Upgrade: " + value for value in (b"h2c", b"h2c", b"websocket", b"TLS/1.0, HTTP/2.0", b"")),
    *(
        b"Expect: 100-continue",
        b"Host: y",
        b"Host:",
        b"X: y\r\n folded",
        b"X",
        b": y",
        b"X : y",
        b"X:\ty\t",
        b"X: \xff",
    ),
]
BODIES = [
    *(b"", b"a", NESTED, JSON, LAST),
    *(b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"5\r\nhallo\r\n0\r\n\r\n", b"0\r\nTransfer-Encoding: x\r\n\r\n"),
    *(b"%x\r\n%s\r\n0\r\n\r\n" % (len(NESTED), NESTED), b"%X;a=b\r\n%s\r\n000\r\n\r\n" % (len(NESTED), NESTED)),
    *(
        b"5\r\nhallo0\r\n\r\n",
        b"5 \r\nhallo\r\n0\r\n\r\n",
        b"5\nhallo\n0\n\n",
        b"-1\r\n\r\n",
        b"ffffffffffffffffff\r\n",
    ),
]


def made_up(random_: random.Random) -> bytes:
    """One to three requests, of which most are sound and framed as they say."""
    sent = b""
    for _ in range(random_.randint(1, 3)):
        body, fields = random_.choice(BODIES), random_.sample(FIELDS, random_.choice((0, 1, 1, 2, 2, 3)))
        if random_.random() < 0.5:
            fields = [field for field in fields if not field.startswith((b"Content-L", b"Transfer-E"))]
            if random_.random() < 0.5:
                fields.append(b"Content-Length: %d" % len(body))
            else:
                fields.append(b"Transfer-Encoding: chunked")
                body = random_.choice((b"", b"%x\r\n%s\r\n" % (len(body), body) if body else b"")) + b"0\r\n\r\n"
        if random_.random() < 0.5:
            fields += [b"Connection: Upgrade", random_.choice((b"Upgrade: h2c", b"upgrade: websocket"))]
        random_.shuffle(fields)
        line = random_.choice((b"POST", b"POST", b"PUT", b"GET", b"HEAD")) + b" /%d HTTP/1." % random_.randrange(9)
        line += random_.choice((b"1", b"1", b"1", b"1", b"0"))
        sent += b"\r\n".join([line, b"Host: x", *fields, b"", body])
    if random_.random() < 0.2:
        at = random_.randrange(len(sent))
        sent = (
            sent[:at]
            + random_.choice((b"", b"\r", b"\n", b" ", b"\0", b"0", b"\r\n"))
            + sent[at + random_.randrange(3) :]
        )
    # several spaces in a request line are read as one, as RFC 9112, 3 allows; h11 is stricter there
    return sent.replace(b"  HTTP/", b" HTTP/").replace(b"  /", b" /") + LAST


def by_h11(sent: bytes) -> list[tuple[str, str, bytes]]:
    """The whole requests that h11 reads there, each answered before the next."""
    requests, again = list[tuple[str, str, bytes]](), True
    while again:
        connection, again = h11.Connection(h11.SERVER), False
        connection.receive_data(sent.lstrip(b"\r\n"))  # empty lines before a request line say nothing (RFC 9112, 2.2)
        with contextlib.suppress(h11.RemoteProtocolError):
            while isinstance(event := connection.next_event(), h11.Request | h11.Data | h11.EndOfMessage):
                if isinstance(event, h11.Request):
                    method, path, body = event.method.decode(), event.target.decode(), b""
                elif isinstance(event, h11.Data):
                    body += event.data
                else:
                    requests.append((method, path, body))
                    connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                    connection.send(h11.EndOfMessage())
                    if again := connection.our_state is not h11.MUST_CLOSE:
                        sent, _ = connection.trailing_data
                    break
    return requests


def packets_of(random_: random.Random, sent: bytes) -> list[bytes]:
    places = sorted({0, len(sent), *(random_.randrange(len(sent)) for _ in range(random_.choice((0, 1, 3, 20))))})
    return [sent[begin:end] for begin, end in itertools.pairwise(places)]


def compare_with_h11(listener: Listener, seed: int, count: int) -> int:
    """How many of so many made-up connections had all their requests answered. Fails where this server reads another
    request than h11, or one that h11 does not; it may read fewer only by refusing the rest."""
    random_, answered = random.Random(seed), 0

    async def run() -> None:
        nonlocal answered
        for _ in range(count):
            sent = made_up(random_)
            expected = by_h11(sent)
            heard = await listener.hear(*packets_of(random_, sent))
            refusals = heard.statuses[len(heard.requests) :]
            assert heard.requests == expected[: len(heard.requests)], sent
            assert heard.statuses == [200] * len(heard.requests) + refusals, (sent, heard)
            assert refusals in ([], [400], [501], [505]), (sent, heard)
            if not refusals and len(heard.requests) == len(expected):
                answered += 1
            else:
                assert heard.closed, (sent, heard, expected)

    asyncio.run(run())
    return answered


def test_requests_begin_and_end_where_h11_says(listener: Listener) -> None:
    assert compare_with_h11(listener, seed=1, count=300) > 100
