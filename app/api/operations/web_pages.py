"""Pages for browsers: the page at / with its assets, and /docs and /redoc, all served from this machine alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

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


def add_page(app: FastAPI) -> None:
    by_path = assets()
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


def assets() -> dict[str, Response]:
    """Every file of the page, ready to be sent, by its path below `app/web`, with "/" between folders."""
    folder = Path(__file__).parents[2] / "web"
    by_path = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in _TYPES:
            body = path.read_bytes()
            headers = {**_PAGE_HEADERS, "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"'}
            by_path[path.relative_to(folder).as_posix()] = Response(body, 200, headers, _TYPES[path.suffix])
    return by_path


def _unless_known(request: Request, asset: Response) -> Response:
    """304 where the client has it: If-None-Match compares weakly, as a proxy that compresses may have added W/."""
    etag = asset.headers["etag"]
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if etag in known or known == ["*"]:
        return Response(status_code=304, headers={**_PAGE_HEADERS, "ETag": etag})
    return asset


_ASSETS = "/docs-assets"
# The bundled pages would still fetch a logo and ask a validator elsewhere; the policy also covers what they may
# learn to fetch in a later version.
_DOCS_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; font-src 'self' data:; worker-src 'self' blob:; frame-ancestors 'none'"
)


_DOCS: dict[str, tuple[Callable[..., HTMLResponse], dict[str, str], dict[str, object]]] = {  # with assets and options
    "/docs": (
        get_swagger_ui_html,
        {"swagger_js": "swagger-ui-bundle.js", "swagger_css": "swagger-ui.css", "swagger_favicon": "favicon.png"},
        {"swagger_ui_parameters": {"validatorUrl": None}},
    ),
    "/redoc": (
        get_redoc_html,
        {"redoc_js": "redoc.standalone.js", "redoc_favicon": "favicon.png"},
        {"with_google_fonts": False},
    ),
}


def add_docs(app: FastAPI) -> None:
    app.mount(_ASSETS, StaticFiles(directory=str(files("fastapi_offline") / "static")), name="docs-assets")
    for path in _DOCS:
        app.add_api_route(path, _docs_page, include_in_schema=False)


async def _docs_page(request: Request) -> HTMLResponse:
    write, names, options = _DOCS[request.scope["route"].path]
    root, app = request.scope.get("root_path", ""), request.app
    assets = {f"{part}_url": f"{root}{_ASSETS}/{name}" for part, name in names.items()}
    page = write(openapi_url=f"{root}{app.openapi_url}", title=f"{app.title}: API", **assets, **options)
    page.headers["Content-Security-Policy"] = _DOCS_POLICY
    return page
