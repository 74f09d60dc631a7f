"""A passage's translation as HTML: its text escaped, its inline tags in it, the whitespace around it as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.text.markup.passage import Inline, Passage
from app.text.markup.placing import Placed, Placing
from app.text.markup.words import Word, words


class _Tag(NamedTuple):
    """To be written before word `place`; apart: behind the whitespace that stands there. instead: up to which word it
    stands in place of the words."""

    place: int
    raw: str
    apart: bool
    instead: int = 0
    spaced: tuple[bool, bool] = (False, False)


def written(passage: Passage, translation: str, alignment: Sequence[Word] | None) -> str:
    escape = _Escape(passage.bare_greater_than, passage.no_break_reference)
    if not passage.inline:
        return passage.before + escape(translation) + passage.behind
    found = words(passage.text, translation, alignment, list(_verbatim(passage.inline)))
    tags = list(_tags(Placing(passage.text, found).placed(passage.inline), passage.text))
    return passage.before + _joined(translation, found, tags, escape) + passage.behind


@dataclass(frozen=True, slots=True)
class _Escape:
    bare_greater_than: bool
    no_break_reference: bool

    def __call__(self, text: str) -> str:
        text = text.replace("&", "&amp;").replace("<", "&lt;")
        text = text if self.bare_greater_than else text.replace(">", "&gt;")
        return text.replace("\xa0", "&nbsp;") if self.no_break_reference else text


def _verbatim(inline: Sequence[Inline]) -> Iterator[Inline]:
    for each in inline:
        if each.part == "verbatim":
            yield each
        yield from _verbatim(each.within)


def _tags(placed: Sequence[Placed], text: str) -> Iterator[_Tag]:
    """In the order in which they are written."""
    for each in placed:
        inline = each.inline
        behind_space = not text[: inline.start] or text[: inline.start][-1].isspace()
        if inline.part == "verbatim":
            yield _Tag(each.first, inline.opening, True, each.behind, inline.spaced)
        elif inline.part == "mark":
            yield _Tag(each.first, inline.opening, behind_space)
        else:
            empty = inline.start == inline.end
            yield _Tag(each.first, inline.opening, behind_space if empty else not text[inline.start].isspace())
            yield from _tags(each.within, text)
            yield _Tag(each.behind, inline.closing, inline.end > 0 and text[inline.end - 1].isspace())


def _joined(text: str, found: Sequence[Word], tags: Sequence[_Tag], escape: _Escape) -> str:
    out: list[str] = []
    tag, skipped_to = 0, 0
    for place in range(len(found) + 1):
        here = tag
        while tag < len(tags) and tags[tag].place == place:
            tag += 1
        if place >= skipped_to:
            start = found[place - 1].end if place else 0
            end = found[place].start if place < len(found) else len(text)
            out += _gap(escape(text[start:end]), tags[here:tag])
            skipped_to = max((each.instead for each in tags[here:tag]), default=0)
        if place < len(found) and place >= skipped_to:
            out.append(escape(text[found[place].start : found[place].end]))
    return "".join(out)


def _gap(space: str, tags: Sequence[_Tag]) -> Iterator[str]:
    """The whitespace between two words stands behind the tags that stood before whitespace in the source."""
    first_apart = next((i for i, each in enumerate(tags) if each.apart), len(tags))
    yield from (each.raw for each in tags[:first_apart])
    yield space
    for each in tags[first_apart:]:
        if each.instead > each.place or not any(each.spaced):
            yield each.raw
        else:  # an element that the translation has no words for
            yield (" " if each.spaced[0] and not space else "") + each.raw + (" " if each.spaced[1] else "")
