"""Splits a page into passages to translate, and writes the page with their translations. The parser takes the tokens of
HTML; XML has a reader of its own (`xml_page`), which makes the same passages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

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
)
from app.text.layout_characters import has_letters
from app.text.protected_spans import without_protected
from app.text.tag_placement import AlignedSpan, PlacedElement, TagPlacement, aligned_words

_LEFT_ALONE = HIDDEN | VERBATIM
_LONGEST_GAP = 200  # characters of whitespace on either side of a tag that keeps its place within it


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


@dataclass(frozen=True, slots=True)
class TagRules:
    """What a client says about elements, by name. splitting: they end a text. non_splitting: they stand within one.
    ignored: their content stays as it is. outline: whether other elements may end a text."""

    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    outline: bool = True

    def within_text(self, name: str, by_outline: bool) -> bool:
        """Whether a tag stands within a text. by_outline: without a rule of the client."""
        return name not in self.splitting and (not self.outline or by_outline or name in self.non_splitting)


NO_RULES = TagRules()


class PageParser:
    """preformatted: white space stays as it is, as in a <pre>."""

    def __init__(self, tokens: Sequence[HtmlToken], rules: TagRules = NO_RULES, *, preformatted: bool = False) -> None:
        self._tokens, self._rules = tokens, rules
        self._parts: list[str | Passage] = []
        self._preformatted = int(preformatted)
        self._builder = PassageBuilder(preformatted=preformatted)
        self._line_ends: dict[int, list[tuple[int, int]]] = {}  # in a token, by its index: those that end a sentence

    def parts(self) -> list[str | Passage]:
        index = 0
        while index < len(self._tokens):
            index = self.take(index)
        self._end_passage()
        return self._parts

    def between_blocks(self, index: int) -> bool:
        """Whether the token before `index`, the last one taken, is the tag of a block after which plain HTML follows:
        the content of a <title> has no tags, and that of a <pre> keeps its spaces."""
        last = self._tokens[index - 1]
        return not self._builder.raw and last.tag in BLOCKS and last.tag != "title" and not self._preformatted

    def take(self, index: int) -> int:
        """Returns the index of the next token."""
        token = self._tokens[index]
        if self._builder.full:
            self._end_passage()
        if self._is_left_alone(token):
            return self._leave_alone(index)
        if self._within_text(index):
            return self._take_within_text(index)
        self._end_passage()
        self._parts.append(token.raw)
        if token.tag == "pre" and token.kind in ("start", "end"):
            self._preformatted = max(0, self._preformatted + (1 if token.kind == "start" else -1))
            self._builder = PassageBuilder(preformatted=self._preformatted > 0)
        return index + 1

    def _is_left_alone(self, token: HtmlToken) -> bool:
        named = token.tag in _LEFT_ALONE or token.tag in self._rules.ignored
        return token.kind == "start" and (named or token.untranslatable) and not self._is_empty(token)

    def _is_empty(self, token: HtmlToken) -> bool:
        """Whether a start tag is all of its element."""
        return token.tag in VOID

    def _within_text(self, index: int) -> bool:
        """Whether a token stands within a text; else it ends a passage."""
        token = self._tokens[index]
        if token.kind in ("start", "end"):
            return self._rules.within_text(token.tag, token.tag not in BLOCKS)
        return token.kind in ("text", "reference", "verbatim") or (token.kind == "comment" and token.raw.endswith(">"))

    def _take_within_text(self, index: int) -> int:
        token = self._tokens[index]
        if token.kind == "verbatim":
            self._builder.add_verbatim(token.raw, token.text)
        elif token.kind in ("text", "reference"):
            self._add_text(index)
        elif token.kind == "comment" or (token.kind == "start" and self._is_empty(token)):
            self._builder.add("mark", token.raw, parting=token.kind == "start" and token.tag != "wbr")
        else:
            if self._builder.depth >= MAX_INLINE_DEPTH:
                self._end_passage()
            (self._builder.open if token.kind == "start" else self._builder.close)(token)
        return index + 1

    def _add_text(self, index: int) -> None:
        """A passage ends at a line end that ends a sentence, and a text longer than a passage may be is cut after a
        word."""
        token = self._tokens[index]
        start, text = 0, token.text
        for end, behind in self._line_ends.get(index, ()):
            self._builder.add_text(replace(token, raw=text[start:end], text=text[start:end]))
            self._end_passage()
            self._parts.append(text[end:behind])
            start = behind
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
        # an element that never ends must stay last
        if not self._within_text(index) or (behind == len(self._tokens) and not closed):
            self._end_passage()
            self._parts.append(raw)
        elif tag in HIDDEN:
            self._builder.add("mark", raw, parting=tag not in ("script", "style"))
        else:  # a ruby's reading is no part of the sentence
            shown = takewhile(lambda token: token.tag not in ("rt", "rp"), element)
            self._builder.add_verbatim(raw, "".join(token.text for token in shown))
        return behind

    def _element_end(self, index: int) -> int:
        """The index after the element: after its end tag, or at the end of the enclosing block without one."""
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
    gap: the whitespace before and after the tag in the source. until: of a verbatim element, the word after those that
    it replaces. parting: it separates two words by itself."""

    place: int
    raw: str
    after_space: bool
    gap: tuple[str, str]
    until: int = -1
    parting: bool = False


def passage_html(passage: Passage, translation: str, alignment: Sequence[AlignedSpan] | None) -> str:
    """The escaped translation, with the passage's tags and surrounding whitespace."""
    if not passage.inline:
        return passage.before + _escaped(passage, translation, 0, len(translation)) + passage.behind
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
            out += _gap_html(passage, translation[start:end], tags[here:next_tag], within=0 < place < len(words))
            replaced_until = max((tag.until for tag in tags[here:next_tag]), default=0)
        if place < len(words) and place >= replaced_until:
            out.append(_escaped(passage, translation, words[place].start, words[place].end))
    return passage.before + "".join(out) + passage.behind


def _escaped(passage: Passage, translation: str, start: int, end: int) -> str:
    """A part of the translation; signs that the source has unescaped stay so where they can begin no tag."""
    text = translation[start:end].replace("&", "&amp;")
    if "<" in text:
        bare, behind = re.escape(passage.bare_less_than), translation[end : end + 1].replace("<", "")
        text = re.sub(f"<(?![{bare}])" if bare else "<", "&lt;", text + behind).removesuffix(behind)
    text = text.replace("]]>", "]]&gt;") if passage.bare_greater_than else text.replace(">", "&gt;")
    return text.replace("\xa0", passage.no_break_reference) if passage.no_break_reference else text


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
        start, end = _gap_around(text, inline.start), _gap_around(text, inline.end)
        after_space = inline.start == 0 or start[0] != ""
        if inline.part == "verbatim":
            yield _PlacedTag(element.first, inline.opening, True, (start[0], end[1]), element.behind)
        elif inline.part == "mark":
            yield _PlacedTag(element.first, inline.opening, after_space, start, parting=inline.parting)
        else:
            before_word = after_space if inline.start == inline.end else start[1] == ""
            yield _PlacedTag(element.first, inline.opening, before_word, start)
            yield from _placed_tags(element.within, text)
            yield _PlacedTag(element.behind, inline.closing, end[0] != "", end)


def _gap_around(text: str, at: int) -> tuple[str, str]:
    """The whitespace before and after a place in the text."""
    before, behind = text[max(0, at - _LONGEST_GAP) : at], text[at : at + _LONGEST_GAP]
    return before[len(before.rstrip()) :], behind[: len(behind) - len(behind.lstrip())]


def _gap_html(passage: Passage, space: str, tags: Sequence[_PlacedTag], *, within: bool) -> Iterator[str]:
    """The whitespace between two words, with the tags that belong before, within and after it. Between words without
    whitespace a tag loses its trailing whitespace, which would separate them; a tag that separates words by itself has
    none."""
    if within and space == " " and any(tag.parting for tag in tags):
        space = ""
    at = 0
    for tag in tags:
        raw = tag.raw.rstrip(HTML_SPACES) if within and not space else tag.raw
        place = len(space) if tag.after_space else 0
        if tag.until <= tag.place and (
            "".join(tag.gap) == space or ("\n" in tag.gap[1] and space.endswith(tag.gap[1]))
        ):
            place = len(space) - len(tag.gap[1])
        yield _escaped(passage, space, at, place)
        at = max(at, place)
        if tag.until == tag.place:  # a verbatim element without words in the translation
            raw = " " * (tag.gap[0] != "" and not space[:at]) + raw + " " * (tag.gap[1] != "" and not space[at:])
        yield raw
    yield _escaped(passage, space, at, len(space))
