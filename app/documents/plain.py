"""Plain text: UTF-8, or UTF-16 with a byte order mark, and written again as it came."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from app.engine.errors import InvalidRequest
from app.translation.job import TextFormat

_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class PlainText:
    format: TextFormat = "text"

    def __init__(self, content: bytes) -> None:
        self._mark, self._encoding, text = decoded(content)
        self.texts = [text] if text.strip() else []
        self._blank = text

    def written(self, translations: Sequence[str]) -> bytes:
        text = translations[0] if self.texts else self._blank
        return self._mark + text.encode(self._encoding, "replace")


def read(content: bytes) -> PlainText:
    return PlainText(content)


def decoded(content: bytes) -> tuple[bytes, str, str]:
    """The byte order mark, the encoding, the text."""
    mark = next((mark for mark in _MARKS if content.startswith(mark)), b"")
    encoding = _MARKS.get(mark, "utf-8")
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as failure:
        raise InvalidRequest(
            "The file is neither in UTF-8 nor in UTF-16 with a byte order mark; save it as UTF-8."
        ) from failure
    return mark, encoding, text
