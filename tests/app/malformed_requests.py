"""Malformed requests made up from good ones, and what the server says to them."""

from __future__ import annotations

import contextlib
import json
import random
import re
import selectors
import socket
import time
from collections import Counter

from tests.app.socket_server import GET, SocketServer, read_to_end

AT_ONCE = 50
HANGING_S = 60
QUICK = {
    "header_timeout_s": 0.2,
    "keep_alive_timeout_s": 0.2,
    "body_timeout_s": 0.2,
    "linger_s": 0.4,
    "request_log": False,
}
NO_FAULTS = (501, 503, 505)  # of the server: a coding, method or version that it does not know, and "later"
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_TRANSLATION = json.dumps({"q": "hallo", "source": "de", "target": "en"}).encode()
_FORM = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhallo\r\n--b--\r\n'


def _post(path: bytes, body: bytes, kind: bytes = b"application/json") -> bytes:
    fields = b"Host: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind, len(body))
    return b"POST %s HTTP/1.1\r\n" % path + fields + body


def _chunked(path: bytes, body: bytes) -> bytes:
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n" % path
    return head + b"%x;a=b\r\n%s\r\n0\r\nX: y\r\n\r\n" % (len(body), body)


GOOD = (
    GET,
    GET.replace(b"/health", b"/languages?a=%C3%A4&b=c#d"),
    GET.replace(b"GET", b"OPTIONS"),
    GET.replace(b"GET", b"DELETE").replace(b"/health", b"/models/a%2Fb"),
    GET.replace(b"Host: x", b"Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nExpect: 100-continue"),
    GET.replace(b"1.1", b"1.0"),
    _post(b"/translate", _TRANSLATION),
    _post(b"/translate", _TRANSLATION).replace(b"Host: x", b"Host: x\r\nUpgrade: h2c\r\nConnection: Upgrade"),
    _post(b"/translate", b"q=hallo&source=de&target=en", b"application/x-www-form-urlencoded"),
    _post(b"/translate_file", _FORM, b"multipart/form-data; boundary=b"),
    _post(b"/v2/translate", b'{"text":["hallo"],"target_lang":"EN"}'),
    _post(b"/v1/completions", b'{"model":"x","prompt":"a","stream":true}'),
    _chunked(b"/translate", _TRANSLATION),
    _chunked(b"/generate", b'{"prompt":"a"}'),
)
LINE = b"""\
Content-Length: -1
Content-Length: 99999999999999999999
Transfer-Encoding: chunked
Host: [
X-Request-Id: \xff
Authorization: Bearer \xe4
Expect: 100-continue
Origin: null
Range: bytes=0-1,5-2
Accept-Encoding: gzip;q=x
Content-Type: multipart/form-data; boundary=""".split(b"\n")
WORDS = (
    b"HTTP/1.1 HTTP/0.9 HTTP/2.0 HTTP/1.10 GET CONNECT PRI * http:// // .. %00 ffffffffffffffff -1 0 1e9 0x10".split(
        b" "
    )
)
BYTES = [bytes([byte]) for byte in b"\0\r\n \t:/%?#[@\x80\xff"]
LONG = [b"9" * 400, b"a" * 20_000, b"A: b\r\n" * 200, b'{"' * 300, b"\xed\xa0\x80" * 100]
PIECES = (*LINE, *WORDS, *BYTES, *LONG, b"\r\n", b"\r\n\r\n", b"\n\n")


def malformed(random_: random.Random) -> bytes:
    """One to three good requests with one to five faults."""
    data = b"".join(random_.choice(GOOD) for _ in range(random_.choice((1, 1, 1, 2, 3))))
    for _ in range(random_.randint(1, 5)):
        at = random_.randrange(len(data) + 1)
        end = min(len(data), at + random_.choice((0, 0, 1, 2, 8, 40)))
        data = (
            data[:at]
            + random_.choice((random_.choice(PIECES), random_.randbytes(random_.randint(0, 4)), b""))
            + data[end:]
        )
    return data


def send_malformed(server: SocketServer, requests: int, seed: int) -> Counter[str]:
    """Sends so many, `AT_ONCE` beside each other, and counts the statuses. Fails on a fault of the server, on a
    connection that stays open for `HANGING_S`, and where the server then does not answer."""
    random_, statuses = random.Random(seed), Counter[str]()
    _exchange_together(server, [_post(b"/detect", b'{"q":"hallo"}')])  # loads the detector of languages
    for _ in range(0, requests, AT_ONCE):
        sent = [malformed(random_) for _ in range(AT_ONCE)]
        for data, received in zip(sent, _exchange_together(server, sent), strict=True):
            found = [int(status) for status in _STATUS.findall(received)]
            assert not [status for status in found if status >= 500 and status not in NO_FAULTS], (data, received)
            statuses.update(map(str, found or ["closed"]))
    with server.connect() as client:
        client.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert read_to_end(client).startswith(b"HTTP/1.1 200 ")
    return statuses


def _exchange_together(server: SocketServer, sent: list[bytes]) -> list[bytes]:
    """Writes each on a connection of its own, and reads until the server closes it."""
    received, end = [b""] * len(sent), time.monotonic() + HANGING_S
    with selectors.DefaultSelector() as selector:
        for index, data in enumerate(sent):
            client = server.connect()
            with contextlib.suppress(OSError):  # it may be refused while it is written
                client.sendall(data)
            selector.register(client, selectors.EVENT_READ, index)
        while waiting := list(selector.get_map().values()):
            assert time.monotonic() < end, [sent[key.data] for key in waiting]
            for key, _ in selector.select(1):
                client = key.fileobj
                assert isinstance(client, socket.socket)
                try:
                    part = client.recv(65536)
                except OSError:
                    part = b""
                received[key.data] += part
                if not part:
                    selector.unregister(client)
                    client.close()
    return received
