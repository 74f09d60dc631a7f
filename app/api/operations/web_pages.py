"""Pages for browsers: the page at / with its assets, and /docs and /redoc, all served from this machine alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_redoc_html, get_swagger_ui_html
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

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
        return _asset_response(request, found[_INDEX])

    async def asset(request: Request, path: str) -> Response:
        """Names are looked up and never opened, so that no path leads out of the folder."""
        if path not in found or path == _INDEX:
            raise HTTPException(404)
        return _asset_response(request, found[path])

    app.add_api_route("/", start, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/assets/{path:path}", asset, methods=["GET", "HEAD"], include_in_schema=False)


def assets() -> Mapping[str, Asset]:
    """Every file of the page by its path below `app/web`, with "/" between folders."""
    return dict(_read_assets(files("app") / "web", PurePosixPath()))


def _read_assets(folder: Traversable, below: PurePosixPath) -> Iterator[tuple[str, Asset]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        path = below / entry.name
        if entry.is_dir():
            yield from _read_assets(entry, path)
        elif path.suffix in _TYPES:
            body = entry.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            yield str(path), Asset(body, _TYPES[path.suffix], etag)


def _asset_response(request: Request, asset: Asset) -> Response:
    headers = {**_PAGE_HEADERS, "ETag": asset.etag}
    if _etag_matches(request.headers.get("if-none-match", ""), asset.etag):
        return Response(status_code=304, headers=headers)
    headers |= {"Content-Type": asset.media_type, "Content-Length": str(len(asset.body))}
    return Response(b"" if request.method == "HEAD" else asset.body, headers=headers)


def _etag_matches(header: str, etag: str) -> bool:
    """If-None-Match compares weakly: a proxy that compresses may have marked the tag with W/."""
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return etag in tags or tags == ["*"]


_ASSETS = "/docs-assets"
# The bundled pages would still fetch a logo and ask a validator elsewhere; the policy also covers what they may
# learn to fetch in a later version.
_DOCS_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; font-src 'self' data:; worker-src 'self' blob:; frame-ancestors 'none'"
)


def add_docs(app: FastAPI) -> None:
    """Serve both documentation pages and their assets."""
    app.mount(_ASSETS, StaticFiles(directory=str(files("fastapi_offline") / "static")), name="docs-assets")
    app.add_api_route("/docs", _swagger, include_in_schema=False)
    app.add_api_route("/redoc", _redoc, include_in_schema=False)


async def _swagger(request: Request) -> HTMLResponse:
    root = request.scope.get("root_path", "")
    return _with_policy(
        get_swagger_ui_html(
            openapi_url=f"{root}{request.app.openapi_url}",
            title=f"{request.app.title}: API",
            swagger_js_url=f"{root}{_ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{root}{_ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{root}{_ASSETS}/favicon.png",
            swagger_ui_parameters={"validatorUrl": None},
        )
    )


async def _redoc(request: Request) -> HTMLResponse:
    root = request.scope.get("root_path", "")
    return _with_policy(
        get_redoc_html(
            openapi_url=f"{root}{request.app.openapi_url}",
            title=f"{request.app.title}: API",
            redoc_js_url=f"{root}{_ASSETS}/redoc.standalone.js",
            redoc_favicon_url=f"{root}{_ASSETS}/favicon.png",
            with_google_fonts=False,
        )
    )


def _with_policy(page: HTMLResponse) -> HTMLResponse:
    page.headers["Content-Security-Policy"] = _DOCS_POLICY
    return page
