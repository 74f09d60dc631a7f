"""The smallest body of each route, from the examples of its schema: tests of all routes need no table of their own."""

from __future__ import annotations

from typing import Any

from fastapi.exceptions import RequestValidationError

from app.api.families import all_routes
from app.api.request_body import Upload
from app.api.request_fields import RequestFields
from app.api.route import ApiRoute, validate

LETTER = Upload("a.txt", b"bier")


def smallest_body(model: type[RequestFields]) -> dict[str, Any]:
    """The fields that have to be there; where one of several has to be, of the first example what cannot be missed."""
    schema = model.model_json_schema()
    body = {name: schema["properties"][name]["examples"][0] for name in schema.get("required", ())}
    if model.takes_files:
        return body | {"file": LETTER}
    if body and takes(model, body):
        return body
    body = dict(next(iter(model.examples.values())))
    for name in list(body):
        fewer = {key: value for key, value in body.items() if key != name}
        if fewer and takes(model, fewer):
            body = fewer
    return body


def takes(model: type[RequestFields], body: dict[str, Any]) -> bool:
    try:
        validate(model, body)
    except RequestValidationError:
        return False
    return True


ROUTES = {route.path: route for route in all_routes() if isinstance(route, ApiRoute) and route.body_field}
BODIES = {path: smallest_body(route.body_model) for path, route in ROUTES.items()}
# what these need is no matter of their fields alone
BODIES |= {"/attention": {"source": "bier"}, "/score": {"text": "分开"}}
