"""/docs and /redoc from this machine alone: no other origin is asked for anything, and browsers are told so."""

from __future__ import annotations

from importlib.resources import files

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_redoc_html, get_swagger_ui_html
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

_ASSETS = "/docs-assets"
# The bundled pages would still fetch a logo and ask a validator elsewhere; the policy also covers what they may
# learn to fetch in a later version.
_POLICY = (
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
    return _guarded(
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
    return _guarded(
        get_redoc_html(
            openapi_url=f"{root}{request.app.openapi_url}",
            title=f"{request.app.title}: API",
            redoc_js_url=f"{root}{_ASSETS}/redoc.standalone.js",
            redoc_favicon_url=f"{root}{_ASSETS}/favicon.png",
            with_google_fonts=False,
        )
    )


def _guarded(page: HTMLResponse) -> HTMLResponse:
    page.headers["Content-Security-Policy"] = _POLICY
    return page
