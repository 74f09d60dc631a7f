"""Splits an HTML page into passages to translate, and writes the page with their translations."""

from __future__ import annotations

import re
import xml.parsers.expat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.errors import InvalidRequest
from app.text.html_passages import (
    BLOCKS,
    ENDED_BY,
    HIDDEN,
    HTML_SPACES,
    MAX_INLINE_DEPTH,
    MAX_PASSAGE_CHARACTERS,
    VERBATIM,
    VOID,
    HtmlToken,
    InlineElement,
    Passage,
    PassageBuilder,
    tokenize_page,
)
from app.text.layout_characters import has_letters
from app.text.protected_spans import without_protected
from app.text.tag_placement import AlignedSpan, PlacedElement, TagPlacement, aligned_words

MAX_TAGS = 1_000_000  # of a page in a file, each of which takes a kilobyte
_LEFT_ALONE = HIDDEN | VERBATIM
_TRANSLATE_NO = ' translate="no"'


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """A parsed page. parts: in order, the markup that is kept (str) and the passages that are translated."""

    parts: tuple[str | Passage, ...]

    @property
    def texts(self) -> list[str]:
        return [part.text for part in self.parts if isinstance(part, Passage)]

    def pieces(self, translations: Sequence[tuple[str, Sequence[AlignedSpan] | None]]) -> list[str]:
        """The translated page, part by part. translations: of `texts`, in order, with word alignments."""
        remaining = iter(translations)
        return [part if isinstance(part, str) else passage_html(part, *next(remaining)) for part in self.parts]


def parse_page(source: str) -> HtmlPage:
    """Parses a page or a fragment; malformed HTML is no error."""
    return HtmlPage(tuple(_PageParser(tokenize_page(source)).parts()))


def page_sections(source: str, characters: int) -> Iterator[str]:
    """The page in parts of at least so many characters, cut behind tags of blocks where a part reads alone as it does
    within the page; a page without such tags is one part."""
    if len(source) <= characters:
        yield source
        return
    if (tags := source.count("<")) > MAX_TAGS:
        raise InvalidRequest(f"The page has {tags:,} tags; it may have {MAX_TAGS:,}. Send it in parts.")
    tokens = tokenize_page(source)
    parser = _PageParser(tokens)
    index = start = end = 0
    while index < len(tokens):
        first, index = index, parser.take(index)
        end += sum(len(token.raw) for token in tokens[first:index])
        if end - start >= characters and parser.between_blocks(index):
            yield source[start:end]
            start = end
    if start < len(source):
        yield source[start:]


class _PageParser:
    def __init__(self, tokens: Sequence[HtmlToken]) -> None:
        self._tokens = tokens
        self._parts: list[str | Passage] = []
        self._preformatted = 0
        self._builder = PassageBuilder()

    def parts(self) -> list[str | Passage]:
        index = 0
        while index < len(self._tokens):
            index = self.take(index)
        self._end_passage()
        return self._parts

    def between_blocks(self, index: int) -> bool:
        """Whether the token before `index`, the last one taken, is the tag of a block behind which plain HTML follows:
        the content of a <title> has no tags, and that of a <pre> keeps its spaces."""
        last = self._tokens[index - 1]
        return not self._builder.raw and last.tag in BLOCKS and last.tag != "title" and not self._preformatted

    def take(self, index: int) -> int:
        """Returns the index of the next token."""
        token = self._tokens[index]
        if self._builder.full:
            self._end_passage()
        if token.kind in ("text", "reference"):
            self._add_text(token)
        elif (token.kind == "comment" and token.raw.endswith(">")) or (
            token.kind == "start" and token.tag in VOID and token.tag not in BLOCKS
        ):
            self._builder.add("mark", token.raw)
        elif token.kind == "start" and token.tag not in VOID and (token.untranslatable or token.tag in _LEFT_ALONE):
            return self._leave_alone(index)
        elif token.kind in ("start", "end") and token.tag not in BLOCKS:
            if self._builder.depth >= MAX_INLINE_DEPTH:
                self._end_passage()
            (self._builder.open if token.kind == "start" else self._builder.close)(token)
        else:
            if token.tag == "pre":
                self._preformatted = max(0, self._preformatted + (1 if token.kind == "start" else -1))
            self._end_passage()
            self._parts.append(token.raw)
        return index + 1

    def _add_text(self, token: HtmlToken) -> None:
        """A text longer than a passage may be is cut behind a word."""
        text = token.text if token.kind == "text" else ""
        start = 0
        while len(text) - start > MAX_PASSAGE_CHARACTERS:
            end = (text.rfind(" ", start, start + MAX_PASSAGE_CHARACTERS) + 1) or start + MAX_PASSAGE_CHARACTERS
            self._builder.add_text(replace(token, raw=text[start:end], text=text[start:end]))
            self._end_passage()
            start = end
        self._builder.add_text(replace(token, raw=text[start:], text=text[start:]) if start else token)

    def _leave_alone(self, index: int) -> int:
        """Takes a whole element and keeps its content."""
        tag, behind = self._tokens[index].tag, self._element_end(index)
        element = self._tokens[index:behind]
        raw = "".join(token.raw for token in element)
        closed = element[-1].kind == "end" or len(element) == 1
        if tag in BLOCKS or (behind == len(self._tokens) and not closed):  # an element that never ends must stay last
            self._end_passage()
            self._parts.append(raw)
        elif tag in HIDDEN:
            self._builder.add("mark", raw)
        else:
            self._builder.add_verbatim(raw, "".join(token.text for token in element))
        return behind

    def _element_end(self, index: int) -> int:
        """The index behind the element: behind its end tag, or at the end of the enclosing block without one."""
        element, blocks, same = self._tokens[index].tag, 0, 0
        foreign = element in ("svg", "math")
        if foreign and self._tokens[index].closed:
            return index + 1
        for behind in range(index + 1, len(self._tokens)):
            token = self._tokens[behind]
            if token.kind not in ("start", "end") or token.tag in VOID:
                continue
            started = token.kind == "start"
            if started and not same and not blocks and not foreign and token.tag in ENDED_BY.get(element, ()):
                return behind
            if token.tag == element:
                same += 0 if foreign and token.closed else 1 if started else -1
                if same < 0:
                    return behind + 1
            elif token.tag in BLOCKS and not foreign:
                blocks += 1 if started else -1
                if blocks < 0:
                    return behind
        return len(self._tokens)

    def _end_passage(self) -> None:
        passage = self._builder.built()
        if passage is not None:
            self._parts.append(passage)
        elif self._builder.raw:
            self._parts.append("".join(self._builder.raw))
        self._builder = PassageBuilder(preformatted=self._preformatted > 0)


class _PlacedTag(NamedTuple):
    """A tag before word `place` of the translation. after_space: whether it follows the whitespace before that word.
    until: the word behind the ones that a verbatim element replaces. spaced: whether the element has whitespace before
    and behind it in the source."""

    place: int
    raw: str
    after_space: bool
    until: int = 0
    spaced: tuple[bool, bool] = (False, False)


def passage_html(passage: Passage, translation: str, alignment: Sequence[AlignedSpan] | None) -> str:
    """The escaped translation, with the passage's tags and surrounding whitespace."""
    if not passage.inline:
        return passage.before + _escaped(passage, translation) + passage.behind
    words = aligned_words(passage.text, translation, alignment, list(_verbatim_elements(passage.inline, passage.text)))
    tags = list(_placed_tags(TagPlacement(passage.text, words).placed(passage.inline), passage.text))
    out: list[str] = []
    next_tag = replaced_until = 0
    for place in range(len(words) + 1):
        here = next_tag
        while next_tag < len(tags) and tags[next_tag].place == place:
            next_tag += 1
        if place >= replaced_until:
            start = words[place - 1].end if place else 0
            end = words[place].start if place < len(words) else len(translation)
            space = _escaped(passage, translation[start:end])
            out += _gap_html(space, tags[here:next_tag], within=0 < place < len(words))
            replaced_until = max((tag.until for tag in tags[here:next_tag]), default=0)
        if place < len(words) and place >= replaced_until:
            out.append(_escaped(passage, translation[words[place].start : words[place].end]))
    return passage.before + "".join(out) + passage.behind


def _escaped(passage: Passage, text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    text = text if passage.bare_greater_than else text.replace(">", "&gt;")
    return text.replace("\xa0", "&nbsp;") if passage.no_break_reference else text


def _verbatim_elements(inline: Sequence[InlineElement], text: str) -> Iterator[InlineElement]:
    """The elements whose text a translation repeats unchanged: code, and links around an address or a number."""
    for element in inline:
        within = list(_verbatim_elements(element.within, text))
        shown = text[element.start : element.end]
        if element.part == "verbatim":
            yield element
        elif any(inner.part == "verbatim" for inner in within):  # as one word with these, the rest would be lost
            yield from within
        elif shown.strip() and not has_letters(without_protected(shown)):
            yield element
        else:
            yield from within


def _placed_tags(placed: Sequence[PlacedElement], text: str) -> Iterator[_PlacedTag]:
    for element in placed:
        inline = element.inline
        after_space = inline.start == 0 or text[inline.start - 1].isspace()
        if inline.part == "verbatim":
            yield _PlacedTag(element.first, inline.opening, True, element.behind, inline.spaced(text))
        elif inline.part == "mark":
            yield _PlacedTag(element.first, inline.opening, after_space)
        else:
            empty = inline.start == inline.end
            yield _PlacedTag(element.first, inline.opening, after_space if empty else not text[inline.start].isspace())
            yield from _placed_tags(element.within, text)
            yield _PlacedTag(element.behind, inline.closing, inline.end > 0 and text[inline.end - 1].isspace())


def _gap_html(space: str, tags: Sequence[_PlacedTag], *, within: bool) -> Iterator[str]:
    """The whitespace between two words, with the tags that belong before and behind it. Between words without
    whitespace a tag loses its trailing whitespace, which would separate them."""
    raws = [tag.raw.rstrip(HTML_SPACES) if within and not space else tag.raw for tag in tags]
    first_after = next((i for i, tag in enumerate(tags) if tag.after_space), len(tags))
    yield from raws[:first_after]
    yield space
    for tag, raw in zip(tags[first_after:], raws[first_after:], strict=True):
        if tag.until > tag.place or not any(tag.spaced):
            yield raw
        else:  # an element without words in the translation
            yield (" " if tag.spaced[0] and not space else "") + raw + (" " if tag.spaced[1] else "")


def check_well_formed(text: str, field: str) -> None:
    """`InvalidRequest` unless `text` is well-formed XML content; without a document type it declares no entities."""
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
    """Adds translate="no" to every start tag of these names; self-closing tags (<x/>) have no content to protect."""
    names = "|".join(map(re.escape, ignored))
    return re.sub(rf"<({names})(?=[\s>])(?![^<>]*/>)", rf"<\1{_TRANSLATE_NO}", text) if ignored else text


def without_ignored_marks(text: str, ignored: Sequence[str]) -> str:
    """Removes the attributes of `with_ignored_tags`, so that tags are restored exactly."""
    return re.sub(rf"<({'|'.join(map(re.escape, ignored))}){_TRANSLATE_NO}", r"<\1", text) if ignored else text
