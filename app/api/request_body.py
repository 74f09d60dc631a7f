"""From the bytes of a request to its fields: JSON, URL-encoded forms, and forms of several parts (RFC 7578)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.engine.errors import InvalidRequest

logging.getLogger("python_multipart").setLevel(logging.ERROR)  # what is wrong with a body stands in our answer
_TAKES = "send it as RFC 7578 says, as curl -F does."


class Upload:
    """A file of a form. filename: as the client has it, "" where it says none; nothing of it becomes a path. No
    dataclass: the framework would document it as an object of two fields."""

    __slots__ = ("content", "filename")

    def __init__(self, filename: str, content: bytes) -> None:
        self.filename = filename
        self.content = content


@dataclass(slots=True)
class Part:
    """filename None: a field, and not a file."""

    name: str = ""
    filename: str | None = None
    content: bytes = b""


@dataclass(slots=True)
class _PartCollector:
    """What the library tells of a body, part by part; its slices are valid during the call alone."""

    max_parts: int
    parts: list[Part] = field(default_factory=list)
    header: bytearray = field(default_factory=bytearray)
    value: bytearray = field(default_factory=bytearray)
    data: bytearray = field(default_factory=bytearray)
    ended: bool = False

    def on_part_begin(self) -> None:
        if len(self.parts) == self.max_parts:
            raise InvalidRequest(f"The form has more than {self.max_parts} fields; send fewer.")
        self.parts.append(Part())
        self.data = bytearray()

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self.header += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self.value += data[start:end]

    def on_header_end(self) -> None:
        if bytes(self.header).lower() == b"content-disposition":
            _, options = parse_options_header(bytes(self.value))
            self.parts[-1].name = options.get(b"name", b"").decode("utf-8", "replace")
            if b"filename" in options:
                self.parts[-1].filename = options[b"filename"].decode("utf-8", "replace")
        self.header.clear()
        self.value.clear()

    def on_headers_finished(self) -> None:
        if not self.parts[-1].name:
            raise InvalidRequest(f"A part of the form has no name; {_TAKES}")

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self.data += data[start:end]

    def on_part_end(self) -> None:
        self.parts[-1].content = bytes(self.data)

    def on_end(self) -> None:
        self.ended = True


def form_parts(content_type: str, body: bytes, max_parts: int) -> list[Part]:
    """The parts of `body` in their order, or `InvalidRequest`. content_type: the header, which has the boundary."""
    _, options = parse_options_header(content_type)
    if not (boundary := options.get(b"boundary")):
        raise InvalidRequest(f"The header Content-Type names no boundary between the parts of the form; {_TAKES}")
    collected = _PartCollector(max_parts)
    calls: Any = {name: getattr(collected, name) for name in dir(collected) if name.startswith("on_")}
    try:
        parser = MultipartParser(boundary, calls)
        parser.write(body)
        parser.finalize()
    except FormParserError:
        raise InvalidRequest(f"The body is not a form of the boundary that its header names; {_TAKES}") from None
    if not collected.ended:
        raise InvalidRequest(f"The form ends before its last boundary; {_TAKES}")
    return collected.parts


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
