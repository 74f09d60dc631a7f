"""HTML around its texts: the passages of a page that are to be translated, and the same page with the translations in
them.
"""

from __future__ import annotations

import re
import xml.parsers.expat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.engine.errors import InvalidRequest
from app.text.html_passages import (
    BLOCKS,
    HIDDEN,
    HTML_SPACES,
    MAX_INLINE_DEPTH,
    VERBATIM,
    VOID,
    HtmlToken,
    InlineElement,
    Passage,
    PassageBuilder,
    ends_element,
    tokenize_page,
)
from app.text.tag_placement import AlignedSpan, PlacedElement, TagPlacement, aligned_words

_TRANSLATE_NO = ' translate="no"'


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


def with_ignored_tags(text: str, ignored: Sequence[str]) -> str:
    """With HTML's own translate="no" in every start tag of these names, whose content then stays as it is. Those that
    end within themselves (<x/>) have no content."""
    return _start_tag(ignored).sub(rf"<\1{_TRANSLATE_NO}", text) if ignored else text


def without_ignored_marks(text: str, ignored: Sequence[str]) -> str:
    """Without what `marked` has put in; tags come back to the letter, so that it finds all of it."""
    return re.sub(rf"<({_any_of(ignored)}){_TRANSLATE_NO}", r"<\1", text) if ignored else text


def _start_tag(names: Sequence[str]) -> re.Pattern[str]:
    return re.compile(rf"<({_any_of(names)})(?=[\s>])(?![^<>]*/>)")


def _any_of(names: Sequence[str]) -> str:
    return "|".join(re.escape(name) for name in names)


class _PlacedTag(NamedTuple):
    """To be written before word `place`; apart: behind the whitespace that stands there. instead: up to which word it
    stands in place of the words."""

    place: int
    raw: str
    apart: bool
    instead: int = 0
    spaced: tuple[bool, bool] = (False, False)


def passage_html(passage: Passage, translation: str, alignment: Sequence[AlignedSpan] | None) -> str:
    escape = _Escape(passage.bare_greater_than, passage.no_break_reference)
    if not passage.inline:
        return passage.before + escape(translation) + passage.behind
    found = aligned_words(passage.text, translation, alignment, list(_verbatim_elements(passage.inline)))
    tags = list(_placed_tags(TagPlacement(passage.text, found).placed(passage.inline), passage.text))
    return passage.before + _joined_html(translation, found, tags, escape) + passage.behind


@dataclass(frozen=True, slots=True)
class _Escape:
    bare_greater_than: bool
    no_break_reference: bool

    def __call__(self, text: str) -> str:
        text = text.replace("&", "&amp;").replace("<", "&lt;")
        text = text if self.bare_greater_than else text.replace(">", "&gt;")
        return text.replace("\xa0", "&nbsp;") if self.no_break_reference else text


def _verbatim_elements(inline: Sequence[InlineElement]) -> Iterator[InlineElement]:
    for each in inline:
        if each.part == "verbatim":
            yield each
        yield from _verbatim_elements(each.within)


def _placed_tags(placed: Sequence[PlacedElement], text: str) -> Iterator[_PlacedTag]:
    """In the order in which they are written."""
    for each in placed:
        inline = each.inline
        behind_space = not text[: inline.start] or text[: inline.start][-1].isspace()
        if inline.part == "verbatim":
            yield _PlacedTag(each.first, inline.opening, True, each.behind, inline.spaced)
        elif inline.part == "mark":
            yield _PlacedTag(each.first, inline.opening, behind_space)
        else:
            empty = inline.start == inline.end
            yield _PlacedTag(each.first, inline.opening, behind_space if empty else not text[inline.start].isspace())
            yield from _placed_tags(each.within, text)
            yield _PlacedTag(each.behind, inline.closing, inline.end > 0 and text[inline.end - 1].isspace())


def _joined_html(text: str, found: Sequence[AlignedSpan], tags: Sequence[_PlacedTag], escape: _Escape) -> str:
    out: list[str] = []
    tag, skipped_to = 0, 0
    for place in range(len(found) + 1):
        here = tag
        while tag < len(tags) and tags[tag].place == place:
            tag += 1
        if place >= skipped_to:
            start = found[place - 1].end if place else 0
            end = found[place].start if place < len(found) else len(text)
            out += _gap_html(escape(text[start:end]), tags[here:tag], within=0 < place < len(found))
            skipped_to = max((each.instead for each in tags[here:tag]), default=0)
        if place < len(found) and place >= skipped_to:
            out.append(escape(text[found[place].start : found[place].end]))
    return "".join(out)


def _gap_html(space: str, tags: Sequence[_PlacedTag], *, within: bool) -> Iterator[str]:
    """The whitespace between two words stands behind the tags that stood before whitespace in the source. What a tag
    has of its own (see `Draft`) is left out where the words within a passage follow each other without any."""
    first_apart = next((i for i, each in enumerate(tags) if each.apart), len(tags))
    yield from (each.raw.rstrip(HTML_SPACES) if within and not space else each.raw for each in tags[:first_apart])
    yield space
    for each in tags[first_apart:]:
        raw = each.raw.rstrip(HTML_SPACES) if within and not space else each.raw
        if each.instead > each.place or not any(each.spaced):
            yield raw
        else:  # an element that the translation has no words for
            yield (" " if each.spaced[0] and not space else "") + raw + (" " if each.spaced[1] else "")


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """parts: joined in order they are the page."""

    parts: tuple[str | Passage, ...]

    @property
    def texts(self) -> list[str]:
        """What is to be translated, in order."""
        return [part.text for part in self.parts if isinstance(part, Passage)]

    def pieces(self, translations: Sequence[tuple[str, Sequence[AlignedSpan] | None]]) -> list[str]:
        """The page again, part by part; translations: one for each of `texts`, with the words' alignment."""
        left = iter(translations)
        return [part if isinstance(part, str) else passage_html(part, *next(left)) for part in self.parts]


def parse_page(source: str) -> HtmlPage:
    """A page or a fragment of one; nothing that stands in it is an error."""
    return _PageParser(tokenize_page(source)).page()


class _PageParser:
    def __init__(self, cut: Sequence[HtmlToken]) -> None:
        self._tokens = cut
        self._parts: list[str | Passage] = []
        self._preformatted = 0
        self._draft = PassageBuilder()

    def page(self) -> HtmlPage:
        index = 0
        while index < len(self._tokens):
            index = self._take(index)
        self._end()
        return HtmlPage(tuple(self._parts))

    def _take(self, index: int) -> int:
        """Returns the index of the next token to take."""
        token = self._tokens[index]
        if token.kind in ("text", "reference"):
            self._draft.add_text(token)
        elif token.kind == "start":
            return self._start(index)
        elif token.kind == "end" and token.tag not in BLOCKS:
            if self._draft.depth >= MAX_INLINE_DEPTH:
                self._end()
            self._draft.close(token)
        elif token.kind == "comment" and token.raw.endswith(">"):
            self._draft.add_mark(token.raw)
        else:
            self._separate(token)
        return index + 1

    def _start(self, index: int) -> int:
        token = self._tokens[index]
        block = token.tag in BLOCKS
        if (token.kept or token.tag in HIDDEN or token.tag in VERBATIM) and token.tag not in VOID:
            return self._left_alone(index, block)
        if block:
            self._separate(token)
        elif token.tag in VOID:
            self._draft.add_mark(token.raw)
        else:
            if self._draft.depth >= MAX_INLINE_DEPTH:
                self._end()
            self._draft.open(token)
        return index + 1

    def _left_alone(self, index: int, block: bool) -> int:
        token = self._tokens[index]
        behind = _element_end(self._tokens, index)
        inside = self._tokens[index:behind]
        raw = "".join(each.raw for each in inside)
        closed = inside[-1].kind == "end" or len(inside) == 1
        if block or (behind == len(self._tokens) and not closed):  # what never ends has to stay behind all else
            self._end()
            self._parts.append(raw)
        elif token.tag in HIDDEN:
            self._draft.add_mark(raw)
        else:
            self._draft.add_verbatim(raw, "".join(each.text for each in inside))
        return behind

    def _separate(self, token: HtmlToken) -> None:
        if token.tag == "pre":
            self._preformatted = max(0, self._preformatted + (1 if token.kind == "start" else -1))
        self._end()
        self._parts.append(token.raw)

    def _end(self) -> None:
        passage = self._draft.ended()
        if passage is not None:
            self._parts.append(passage)
        elif self._draft.raw:
            self._parts.append("".join(self._draft.raw))
        self._draft = PassageBuilder(preformatted=self._preformatted > 0)


def _element_end(cut: Sequence[HtmlToken], index: int) -> int:
    """Behind the element that begins at `index`: its end tag, or where the block around it ends without one."""
    element, blocks, same = cut[index].tag, 0, 0
    foreign = element in ("svg", "math")
    if foreign and cut[index].closed:
        return index + 1
    for behind in range(index + 1, len(cut)):
        token = cut[behind]
        if token.kind not in ("start", "end") or token.tag in VOID:
            continue
        if token.tag == element:
            if token.kind == "start" and not same and not blocks and ends_element(token.tag, element):
                return behind
            same += 0 if foreign and token.closed else 1 if token.kind == "start" else -1
            if same < 0:
                return behind + 1
        elif token.tag in BLOCKS and not foreign:
            if token.kind == "start" and not blocks and not same and ends_element(token.tag, element):
                return behind
            blocks += 1 if token.kind == "start" else -1
            if blocks < 0:
                return behind
    return len(cut)
