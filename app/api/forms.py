"""How the OpenAPI document tells that a route takes forms beside JSON.

Under a name of our own, and not as further contents of the body: generators of clients make a method that takes one of
several types, and where all are the same type it sends nothing that could be read (openapi-python-client 0.29).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
ALSO_TAKES = "x-also-takes"


def also_takes(schema: str, encodings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """For `openapi_extra`. schema: of the JSON, whose fields the forms have; encodings: by media type, how fields are
    written that are no plain texts, as OpenAPI's Encoding Objects."""
    forms: dict[str, Any] = {kind: {"schema": {"$ref": f"#/components/schemas/{schema}"}} for kind in encodings}
    for kind, encoding in encodings.items():
        if encoding:
            forms[kind]["encoding"] = encoding
    return {"requestBody": {ALSO_TAKES: forms}}
