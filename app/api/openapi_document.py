"""What FastAPI cannot derive for /openapi.json: the keys that a route takes and how it refuses them, the examples of
requests, and an example for each answer. The rest is in the routes and schemas themselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.routing import iter_route_contexts
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app.access.authorization import KeyMissing, KeyWrong
from app.api.access_control import OPEN_PATHS, RATE_LIMIT_HEADERS
from app.api.errors import LIMITED, documented, status_of
from app.api.route import ApiRoute

KEY = "ApiKey"  # the scheme that every route takes
_REFUSED = {
    400: "The key is missing, or the request cannot be answered as it is.",
    401: "The key is missing or unknown.",
    403: "The key is missing, or unknown.",
}
_LARGEST = 2**63 - 1
_FASTAPIS_DESCRIPTION = "Successful Response"

DOCUMENT_PATH = "/openapi.json"
LIBRETRANSLATES_DOCUMENT_PATH = "/spec"

Document = dict[str, Any]


def add_document(app: FastAPI) -> None:
    """The route of the document, which is made when it is first asked for, in a thread: FastAPI's own route makes it on
    the event loop, in a second."""
    written: dict[str, bytes] = {}  # by the path before ours, which a proxy may have
    writing = asyncio.Lock()

    def write(root_path: str) -> bytes:
        document = app.openapi()
        servers = document.get("servers", [])
        if root_path and root_path not in [server.get("url") for server in servers]:
            document = {**document, "servers": [{"url": root_path}, *servers]}
        return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    async def document(request: Request) -> Response:
        root_path = request.scope.get("root_path", "").rstrip("/")
        async with writing:
            if root_path not in written:
                written[root_path] = await run_in_threadpool(write, root_path)
        return Response(written[root_path], media_type="application/json")

    for path in (DOCUMENT_PATH, LIBRETRANSLATES_DOCUMENT_PATH):
        app.add_route(path, document, include_in_schema=False)


def build_routes(app: FastAPI) -> None:
    """Builds what FastAPI makes of the routes. Otherwise the first request that reaches a router waits for it, and with
    it every other request: 0.3 s altogether."""
    for _ in iter_route_contexts(app.routes):
        pass


def complete_document(app: FastAPI, routes: Iterable[object], *, keys_used: bool, key_required: bool) -> None:
    """Make `app.openapi` complete. routes: those that the document shows. key_required: no route but the open ones is
    answered without a key, so that the document does not offer to leave it out."""
    by_name = {route.name: route for route in routes if isinstance(route, ApiRoute) and route.include_in_schema}
    describe = app.openapi

    def openapi() -> Document:
        if app.openapi_schema is None:
            document = describe()
            document["components"]["securitySchemes"] = {KEY: _key_scheme(keys_used=keys_used)}
            _round_integer_bounds(document)
            for path, operations in document["paths"].items():
                for operation in operations.values():
                    route = by_name[operation["operationId"]]
                    _add_security(operation, route, is_open=path in OPEN_PATHS, key_required=key_required)
                    _add_request_examples(operation, route)
                    for response in operation["responses"].values():
                        _describe_answer(response, document["components"]["schemas"])
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _round_integer_bounds(part: object) -> None:
    """Turns the bounds of integers into integers. FastAPI writes all bounds as floats, and 2**63 - 1 is no float."""
    if isinstance(part, dict):
        if part.get("type") == "integer":
            for bound in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
                if isinstance(part.get(bound), float):
                    part[bound] = min(int(part[bound]), _LARGEST)
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            _round_integer_bounds(each)


def _key_scheme(*, keys_used: bool) -> Document:
    asks = "This server asks for a key" if keys_used else "This server has no keys file and asks for no key"
    return {
        "type": "http",
        "scheme": "bearer",
        "description": f"{asks}. Loading, reloading and unloading models takes a key of the scope admin, or the one of"
        " PARLANCE_ADMIN_KEY. The header `X-Api-Key: KEY` does as well, and so do the places in which the clients of"
        " other protocols send their keys (docs/protocols.md).",
    }


def _add_security(operation: Document, route: ApiRoute, *, is_open: bool, key_required: bool) -> None:
    if is_open:
        operation["security"] = []
        return
    operation["security"] = [{KEY: []}] if route.for_admins or key_required else [{KEY: []}, {}]
    responses = operation["responses"]
    for kind in (KeyMissing, KeyWrong):
        status = status_of(kind, route.statuses)
        responses.setdefault(str(status), _error_response(route, status, _REFUSED[status]))
    responses.setdefault("429", _error_response(route, 429, LIMITED))
    if str(KeyMissing.status) in responses:
        text = {"description": 'Bearer realm="parlance"', "schema": {"type": "string"}}
        responses[str(KeyMissing.status)]["headers"] = {"WWW-Authenticate": text}
    seconds = {"description": "Seconds until such a request fits.", "schema": {"type": "integer"}}
    rate = {"description": "See docs/serving.md; only where rates are set.", "schema": {"type": "string"}}
    responses["429"]["headers"] = {"Retry-After": seconds, **dict.fromkeys(RATE_LIMIT_HEADERS, rate)}
    operation["responses"] = dict(sorted(responses.items()))


def _error_response(route: ApiRoute, status: int, description: str) -> Document:
    schema = route.family_error
    (response, *_) = documented(schema, **{f"s{status}": description}).values()
    content: Any = response["content"]
    reference = {"$ref": f"#/components/schemas/{schema.__name__}"}
    return {
        "description": description,
        "content": {"application/json": {"schema": reference, **content["application/json"]}},
    }


def _add_request_examples(operation: Document, route: ApiRoute) -> None:
    """Adds the examples of parameters and bodies; "Try it out" of Swagger UI sends the first one. The example of a
    parameter is copied out of its schema, where Swagger UI does not read it."""
    for parameter in operation.get("parameters", ()):
        if examples := parameter["schema"].get("examples"):
            parameter.setdefault("example", examples[0])
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is not None:
        examples = route.body_model.examples
        content["examples"] = {
            summary.lower().replace(" ", "_"): {"summary": summary, "value": value}
            for summary, value in examples.items()
        }


def _describe_answer(response: Document, schemas: Mapping[str, Document]) -> None:
    if response["description"] == _FASTAPIS_DESCRIPTION:
        reference = response.get("content", {}).get("application/json", {}).get("schema", {}).get("$ref", "")
        described = schemas.get(reference.rsplit("/", 1)[1]) if reference else None
        response["description"] = described["description"] if described else "The answer."
    for media_type, content in response.get("content", {}).items():
        if not media_type.endswith("json") or "examples" in content:
            continue
        if "example" not in content:
            content["example"] = _example_of(content["schema"], schemas)
        content["example"] = _with_nulls(content["example"], content["schema"], schemas)


def _example_of(schema: Document, schemas: Mapping[str, Document]) -> object:
    """The first example of each field that is always there."""
    if reference := schema.get("$ref"):
        return _example_of(schemas[reference.rsplit("/", 1)[1]], schemas)
    if schema.get("examples"):
        return schema["examples"][0]
    if schema.get("type") == "array":
        return [_example_of(schema["items"], schemas)]
    required = schema.get("required", ())
    fields = schema.get("properties", {}).items()
    return {name: _example_of(field, schemas) for name, field in fields if name in required or "default" in field}


def _with_nulls(example: object, schema: Document, schemas: Mapping[str, Document]) -> object:
    """The example with null for each required field that it lacks: FastAPI leaves nulls out of examples."""
    if reference := schema.get("$ref"):
        return _with_nulls(example, schemas[reference.rsplit("/", 1)[1]], schemas)
    if isinstance(example, list):
        return [_with_nulls(item, schema.get("items", {}), schemas) for item in example]
    if not isinstance(example, dict):
        return example
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    filled = {
        name: _with_nulls(value, fields.get(name, others if isinstance(others, dict) else {}), schemas)
        for name, value in example.items()
    }
    return dict.fromkeys(schema.get("required", ())) | filled
