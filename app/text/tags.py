"""What a text's tags say about it, before any of it is taken apart."""

from __future__ import annotations

import re
import xml.parsers.expat
from collections.abc import Sequence

from app.engine.errors import InvalidRequest

_KEPT = ' translate="no"'


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


def marked(text: str, ignored: Sequence[str]) -> str:
    """With HTML's own translate="no" in every start tag of these names, whose content then stays as it is. Those that
    end within themselves (<x/>) have no content."""
    return _start_of(ignored).sub(rf"<\1{_KEPT}", text) if ignored else text


def unmarked(text: str, ignored: Sequence[str]) -> str:
    """Without what `marked` has put in; tags come back to the letter, so that it finds all of it."""
    return re.sub(rf"<({_either(ignored)}){_KEPT}", r"<\1", text) if ignored else text


def _start_of(names: Sequence[str]) -> re.Pattern[str]:
    return re.compile(rf"<({_either(names)})(?=[\s>])(?![^<>]*/>)")


def _either(names: Sequence[str]) -> str:
    return "|".join(re.escape(name) for name in names)
