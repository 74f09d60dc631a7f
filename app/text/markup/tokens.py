"""A page cut into its tags and texts, each with its place: joined, they are the page to the letter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.text.markup.elements import kept_by_author

Kind = Literal["text", "reference", "start", "end", "comment", "doctype", "rest"]


@dataclass(frozen=True, slots=True)
class Token:
    """raw: as it stands in the page. text: what a text or a reference (`&amp;`) says. tag: of a start or end tag, in
    lower case. kept: the author wants the element left as it is. closed: written <tag/>."""

    kind: Kind
    raw: str
    text: str = ""
    tag: str = ""
    kept: bool = False
    closed: bool = False


def tokens(source: str) -> list[Token]:
    """Linear in the length of `source`, whatever stands in it. A tag that the page ends within is its "rest"."""
    # Here and not at the top: it is needed once somebody translates a page.
    from turbohtml import TokenType, tokenize

    kinds: dict[TokenType, Kind] = {
        TokenType.TEXT: "text",
        TokenType.CHARACTER_REFERENCE: "reference",
        TokenType.START_TAG: "start",
        TokenType.END_TAG: "end",
        TokenType.DOCTYPE: "doctype",
    }
    read = source.replace("\r", " ")  # places count \r\n as one; to a tag it is a space as well
    lines = [0, *(index + 1 for index, character in enumerate(read) if character == "\n")]
    found = list(tokenize(read, resolve_references=False, capture_source=True))
    places = [lines[each.line - 1] + each.col for each in found]
    end = places[-1] + len(found[-1].source or found[-1].data or "") if found else 0
    cut = []
    for each, start, stop in zip(found, places, [*places[1:], end][: len(found)], strict=True):
        kind, raw = kinds.get(each.type, "comment"), source[start:stop]
        text = raw if kind == "text" else (each.data or "") if kind == "reference" else ""
        tag = each.tag or ""
        kept = kind == "start" and kept_by_author(each.attrs or ())
        cut.append(Token(kind, raw, text, tag, kept, each.self_closing))
    if end < len(source):
        cut.append(Token("rest", source[end:]))
    return cut
