"""Web pages, in the encoding that they say they are in."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

from app.documents.plain import decoded
from app.engine.errors import InvalidRequest
from app.translation.job import TextFormat

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_LOOKED_AT = 1024  # bytes in which a page has to name its encoding
_NO_CHARSETS = ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape")


class WebPage:
    format: TextFormat = "html"

    def __init__(self, content: bytes) -> None:
        said = (
            None if content.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else _said(content)
        )
        if said is None:
            self._mark, self._encoding, text = decoded(content)
        else:
            self._mark, self._encoding = b"", said
            try:
                text = content.decode(said)
            except UnicodeError as failure:
                raise InvalidRequest(f"The page says that it is in {said} and is not; save it as UTF-8.") from failure
        self.texts = [text] if text.strip() else []
        self._blank = text

    def written(self, translations: Sequence[str]) -> bytes:
        """What the encoding has no letter for is written as a character reference."""
        text = translations[0] if self.texts else self._blank
        return self._mark + text.encode(self._encoding, "xmlcharrefreplace")


def read(content: bytes) -> WebPage:
    return WebPage(content)


def _said(content: bytes) -> str | None:
    """As browsers take it: ISO 8859-1 and ASCII are Windows-1252, and nobody who writes a tag in ASCII is in UTF-16."""
    found = _CHARSET.search(content[:_LOOKED_AT])
    if found is None:
        return None
    label = found[1].decode("ascii").lower()
    if label in ("iso-8859-1", "iso8859-1", "latin1", "latin-1", "us-ascii", "ascii", "windows-1252"):
        return "cp1252"
    try:
        name = codecs.lookup(label).name
        if name in _NO_CHARSETS:
            raise LookupError(name)
        b"x".decode(name)  # what is no text encoding says so
        "\u4f60".encode(name, "xmlcharrefreplace")
    except (LookupError, UnicodeError) as failure:
        raise InvalidRequest(f"The page's encoding {label!r} is not known here; save it as UTF-8.") from failure
    return "utf-8" if name.startswith(("utf-16", "utf-32", "utf-7")) else name
