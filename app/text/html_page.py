"""Reads an HTML page: all of it, or in sections."""

from __future__ import annotations

from collections.abc import Iterator

from app.errors import InvalidRequest
from app.text.html_passages import tokenize_page
from app.text.page_parser import NO_RULES, HtmlPage, PageParser, TagRules
from app.text.xml_page import is_xml, parse_xml

__all__ = ["HtmlPage", "page_sections", "parse_page"]

MAX_TAGS = 1_000_000  # of a page in a file, each of which takes a kilobyte


def parse_page(source: str, rules: TagRules = NO_RULES) -> HtmlPage:
    """Parses a page or a fragment; malformed HTML is no error. XML is read as XML."""
    if is_xml(source):
        return parse_xml(source, rules)
    return HtmlPage(tuple(PageParser(tokenize_page(source), rules).parts()))


def page_sections(source: str, characters: int) -> Iterator[str]:
    """The page in parts of at least so many characters, cut after tags of blocks where a part reads alone as it does
    within the page; a page without such tags is one part."""
    if len(source) <= characters:
        yield source
        return
    if (tags := source.count("<")) > MAX_TAGS:
        raise InvalidRequest(f"The page has {tags:,} tags; it may have {MAX_TAGS:,}. Send it in parts.")
    tokens = tokenize_page(source)
    parser = PageParser(tokens)
    index = start = end = 0
    while index < len(tokens):
        first, index = index, parser.take(index)
        end += sum(len(token.raw) for token in tokens[first:index])
        if end - start >= characters and parser.between_blocks(index):
            yield source[start:end]
            start = end
    if start < len(source):
        yield source[start:]
