"""What a text's tags say about it, before any of it is taken apart."""

from __future__ import annotations

import xml.parsers.expat

from app.engine.errors import InvalidRequest


def check_well_formed(text: str, field: str) -> None:
    """`InvalidRequest` where `text` is not what may stand inside an XML element. Entities of its own it cannot bring:
    those need a document type, which stands before the first element."""
    parser = xml.parsers.expat.ParserCreate()
    try:
        parser.Parse(f"<_>{text}</_>", True)
    except xml.parsers.expat.ExpatError as error:
        reason = xml.parsers.expat.ErrorString(error.code)
        raise InvalidRequest(
            f'"{field}" has a text that is not well-formed XML ({reason}, line {error.lineno}); close its tags and'
            ' write & as &amp;, or send "tag_handling": "html".',
            field=field,
        ) from None
