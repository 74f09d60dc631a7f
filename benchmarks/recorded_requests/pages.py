"""Requests for the page, the lists of models and languages, and what HTTP itself allows and forbids."""

from __future__ import annotations

import json

from benchmarks.recorded_requests.request import BEER, Requests


def pages(r: Requests) -> None:
    for path in ("/health", "/health/live", "/health/ready", "/models", "/languages", "/frontend/settings"):
        r.get(path)
        r.add("HEAD", path)
        r.add("OPTIONS", path)
        r.post(path, {})
    for name in ("demo-de-en", "lyrics-zh", "nothing", "..%2Fsecret", "a%20b"):
        r.get(f"/models/{name}/curves")
    for path in ("/openapi.json", "/docs", "/redoc", "/", "/page.js", "/style/page.css", "/icon.svg", "/favicon.ico"):
        r.get(path)
        r.get(path, headers={"Accept-Encoding": "gzip"})
    r.add("HEAD", "/")
    r.get("/nothing")
    r.get("/models/")
    r.get("/translate/")
    for action in ("load", "reload", "unload"):
        r.post(f"/models/demo-de-en/{action}")
    r.get("/v1/models")
    r.get("/v1/models/lyrics-zh")
    r.get("/v1/models/demo-de-en")
    r.get("/v1/models/nothing")


def http(r: Requests) -> None:
    """What HTTP itself allows and forbids."""
    body = json.dumps({"q": BEER, "source": "de", "target": "en"}, ensure_ascii=False).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    r.raw("plain", head + length + body)
    r.raw("chunked", head + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
    r.raw("expect", head + b"Expect: 100-continue\r\n" + length + body)
    r.raw("expect other", head + b"Expect: something\r\n" + length + body)
    r.raw("bad length", head + b"Content-Length: x\r\n\r\n" + body)
    r.raw("huge length", head + b"Content-Length: 3000000\r\n\r\n")
    r.raw("no host", b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    r.raw("HTTP/1.0", b"GET /health HTTP/1.0\r\n\r\n")
    r.raw("no HTTP", b"hello\r\n\r\n")
    r.raw("gzip body", head + b"Content-Encoding: gzip\r\n" + length + body)
    r.get("/health", headers={"X-Request-Id": "mine-1"})
    r.get("/health", headers={"X-Request-Id": "not mine\t1"})
    r.post("/translate", {"q": BEER, "source": "de", "target": "xx"}, headers={"X-Request-Id": "mine-2"})
    r.get("/health", headers={"Origin": "https://example.org"})
    r.add("OPTIONS", "/translate", headers={"Origin": "https://example.org", "Access-Control-Request-Method": "POST"})
    r.post("/translate", {"q": BEER, "source": "de", "target": "en"}, headers={"Accept-Encoding": "gzip"})
    r.get("/openapi.json", headers={"Accept-Encoding": "gzip, br"})
    r.post(
        "/translate", {"q": BEER, "source": "de", "target": "en", "api_key": "x"}, headers={"Authorization": "Bearer x"}
    )
    r.get("/metrics?name[]=x")
    r.get("/health?" + "a" * 3000)
    r.get("/" + "a" * 3000)
