"""JSON answers, encoded by msgspec, and texts: attention answers hold hundreds of thousands of numbers."""

from __future__ import annotations

import gzip
import hashlib
from typing import Any

import msgspec
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

WORTH_PACKING = 1400  # bytes: less fits into one packet as it is
PACKING_LEVEL = 6


class JsonAnswer(Response):
    """Compact JSON in UTF-8. Numbers that JSON cannot write (NaN, infinity) become null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


async def packed(request: Request, content: Any, media_type: str = "application/json") -> Response:
    """A large answer, gzipped where the client takes that, in a thread: a megabyte would hold up everyone for tens of
    milliseconds. Its ETag names the content; content: what is written as JSON, or a text."""
    accepted = "gzip" in request.headers.get("accept-encoding", "").lower()

    def work() -> tuple[bytes, str, bool]:
        body = content.encode() if isinstance(content, str) else msgspec.json.encode(content)
        tag = hashlib.sha256(body).hexdigest()[:32]
        if not accepted or len(body) < WORTH_PACKING:
            return body, tag, False
        return gzip.compress(body, PACKING_LEVEL, mtime=0), tag, True

    body, tag, is_packed = await run_in_threadpool(work)
    headers = {"ETag": f'W/"{tag}"', "Vary": "Accept-Encoding"}
    if is_packed:
        headers["Content-Encoding"] = "gzip"
    return Response(body, media_type=media_type, headers=headers)
