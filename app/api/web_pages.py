"""Pages for browsers: the page at / with its assets, and /docs, all served from this machine alone."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from app.api.openapi_document import DOCUMENT_PATH

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# What a text of a user could ever do in the page is said here a second time: nothing.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    " font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # kept, and asked for again by its ETag: a new version is there at once
}
_INDEX = "index.html"
_WEB = Path(__file__).parents[1] / "web"
_DOCS_SCRIPT = _WEB / "docs" / "docs.js"  # of /docs and not of the page


def add_page(app: FastAPI) -> None:
    by_path = dict(assets())
    index = by_path.pop(_INDEX)

    async def start(request: Request) -> Response:
        return _unless_known(request, index)

    async def asset(request: Request, path: str) -> Response:
        """Names are looked up and never opened, so that no path leads out of the folder."""
        if path not in by_path:
            raise HTTPException(404)
        return _unless_known(request, by_path[path])

    app.add_api_route("/", start, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/assets/{path:path}", asset, methods=["GET", "HEAD"], include_in_schema=False)


@cache
def assets() -> Mapping[str, Response]:
    """Every file of the page, ready to be sent, by its path below `app/web`, with "/" between folders; read once."""
    paths = (path for path in sorted(_WEB.rglob("*")) if path.suffix in _TYPES and path != _DOCS_SCRIPT)
    return {path.relative_to(_WEB).as_posix(): _asset(path) for path in paths}


def _asset(path: Path) -> Response:
    body = path.read_bytes()
    headers = {**_PAGE_HEADERS, "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"'}
    return Response(body, 200, headers, _TYPES[path.suffix])


def _unless_known(request: Request, asset: Response) -> Response:
    """304 where the client has it: If-None-Match compares weakly, as a proxy that compresses may have added W/."""
    etag = asset.headers["etag"]
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if etag in known or known == ["*"]:
        return Response(status_code=304, headers={**_PAGE_HEADERS, "ETag": etag})
    return asset


_ASSETS = "/docs-assets"
# Swagger UI writes styles into its elements; its scripts are files of this server.
_DOCS_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_DOCS_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: API</title>
<link rel="icon" href="{root}/assets/icon.svg">
<link rel="stylesheet" href="{root}{assets}/swagger-ui.css">
<div id="docs" data-openapi="{root}{openapi}"></div>
<script src="{root}{assets}/swagger-ui-bundle.js"></script>
<script src="{root}/docs/docs.js"></script>
</html>
"""


def add_docs(app: FastAPI) -> None:
    """/docs, and /redoc as an old address of it."""
    app.mount(_ASSETS, StaticFiles(directory=str(files("fastapi_offline") / "static")), name="docs-assets")

    async def docs(request: Request) -> Response:
        parts = {"title": app.title, "root": html.escape(request.scope.get("root_path", "")), "assets": _ASSETS}
        headers = {**_PAGE_HEADERS, "Content-Security-Policy": _DOCS_POLICY}
        return HTMLResponse(_DOCS_PAGE.format(**parts, openapi=DOCUMENT_PATH), headers=headers)

    script_file = _asset(_DOCS_SCRIPT)

    async def script(request: Request) -> Response:
        return _unless_known(request, script_file)

    async def redoc(request: Request) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '')}/docs")

    app.add_api_route("/docs", docs, include_in_schema=False)
    app.add_api_route("/docs/docs.js", script, include_in_schema=False)
    app.add_api_route("/redoc", redoc, include_in_schema=False)
