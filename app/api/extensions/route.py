"""A route that an extension calls: JSON, with the key in a header or as ?token=."""

from __future__ import annotations

from app.api.errors import documented
from app.api.route import JsonRoute

OF_TEXTS = {
    "s400": "The request cannot be answered as it is: a field is wrong, a text too long, a language not there.",
    "s413": "The body is too large.",
    "s415": "The body is not JSON.",
    "s429": "The queue is full; Retry-After says when to try again.",
    "s503": "No device can translate right now; Retry-After says when to try again.",
    "s504": "The translation took too long.",
}
REFUSED = documented(**OF_TEXTS)


class ExtensionRoute(JsonRoute):
    """Errors are ours: these extensions show the body of an error as it is."""

    invalid_status = 400
    too_long_status = 400
    key_fields: tuple[str, ...] = ("token",)
