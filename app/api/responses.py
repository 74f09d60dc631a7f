"""JSON answers end with a line feed, as LibreTranslate's do: a shell's prompt stands on a line of its own after curl.
Large answers are built and compressed in a thread."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable

import msgspec
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from zlib_ng import zlib_ng

MIN_COMPRESSED_BYTES = 1400  # a smaller body fits into one packet
COMPRESSION_LEVEL = 5  # of zlib-ng: as small as zlib's 6, in a fifth of the time (benchmarks/LOG.md)
GZIP_WINDOW_BITS = 16 + 15  # its header, and the largest window
_QUALITY_ZERO = re.compile(r"q\s*=\s*0(\.0*)?")  # RFC 9110, 12.4.2


class JsonAnswer(JSONResponse):
    """The answer of a route that FastAPI serves."""

    def render(self, content: object) -> bytes:
        return super().render(content) + b"\n"


async def large_response(
    request: Request,
    build: Callable[[], object],
    media_type: str = "application/json",
    timing: Callable[[float], dict[str, float]] | None = None,
) -> Response:
    """An answer that is built, written and gzipped in a thread: a megabyte would block the event loop for tens of
    milliseconds. build: returns a text, or what is written as JSON. timing: makes the last field, `timing_ms`. The ETag
    leaves `timing_ms` out and is weak. There is no 304, which is for GET and HEAD (RFC 9110, 13.1.2)."""
    accepted = accepts_gzip(request.headers.get("accept-encoding", ""))

    def work() -> Response:
        began = time.perf_counter()
        content = build()
        body = content.encode() if isinstance(content, str) else msgspec.json.encode(content)
        headers = {"ETag": f'W/"{hashlib.sha256(body).hexdigest()[:32]}"', "Vary": "Accept-Encoding"}
        if timing is not None:
            timing_ms = msgspec.json.encode(timing(time.perf_counter() - began))
            body = b'%b,"timing_ms":%b}' % (body[:-1], timing_ms)
        if not isinstance(content, str):
            body += b"\n"
        if accepted and len(body) >= MIN_COMPRESSED_BYTES:
            body, headers["Content-Encoding"] = compress(body), "gzip"
        return Response(body, media_type=media_type, headers=headers)

    return await run_in_threadpool(work)


def compress(body: bytes) -> bytes:
    return zlib_ng.compress(body, COMPRESSION_LEVEL, GZIP_WINDOW_BITS)


def accepts_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding header names gzip and does not refuse it."""
    for entry in accepted.lower().split(","):
        coding, *parameters = [part.strip() for part in entry.split(";")]
        if coding == "gzip":
            return not any(_QUALITY_ZERO.fullmatch(parameter) for parameter in parameters)
    return False
