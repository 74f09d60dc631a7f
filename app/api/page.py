"""The page at `/` and its assets: the files of `app/web`, read once at the start, and no other file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# What a text of a user could ever do in the page is said here a second time: nothing.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    " font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_GUARDS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # kept, and asked for again by its ETag: a new version is there at once
}
_START = "index.html"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, ready to be sent."""

    body: bytes
    media_type: str
    etag: str


def add_page(app: FastAPI) -> None:
    """Serve the page and what it loads."""
    found = assets()

    async def start(request: Request) -> Response:
        return _answer(request, found[_START])

    async def asset(request: Request, path: str) -> Response:
        """Names are looked up and never opened, so that no path leads out of the folder."""
        if path not in found or path == _START:
            raise HTTPException(404)
        return _answer(request, found[path])

    app.add_api_route("/", start, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/assets/{path:path}", asset, methods=["GET", "HEAD"], include_in_schema=False)


def assets() -> Mapping[str, Asset]:
    """Every file of the page by its path below `app/web`, with "/" between folders."""
    return dict(_found(files("app") / "web", PurePosixPath()))


def _found(folder: Traversable, below: PurePosixPath) -> Iterator[tuple[str, Asset]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        path = below / entry.name
        if entry.is_dir():
            yield from _found(entry, path)
        elif path.suffix in _TYPES:
            body = entry.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            yield str(path), Asset(body, _TYPES[path.suffix], etag)


def _answer(request: Request, asset: Asset) -> Response:
    headers = {**_GUARDS, "ETag": asset.etag}
    if _known(request.headers.get("if-none-match", ""), asset.etag):
        return Response(status_code=304, headers=headers)
    headers |= {"Content-Type": asset.media_type, "Content-Length": str(len(asset.body))}
    return Response(b"" if request.method == "HEAD" else asset.body, headers=headers)


def _known(header: str, etag: str) -> bool:
    """If-None-Match compares weakly: a proxy that compresses may have marked the tag with W/."""
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return etag in tags or tags == ["*"]
