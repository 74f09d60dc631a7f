"""Emphasis and links within a sentence of plain text, as in Markdown, BBCode, AsciiDoc, wikis and chats: **bold**,
_italic_, ~~struck~~, [text](address), [b]text[/b], <address|text>; and the accelerator of a label: &File. The signs are
removed from the model's input. In the translation they are set around the words that are aligned with the emphasised
words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from app.text.html_passages import InlineElement
from app.text.layout_characters import is_unspaced_script
from app.text.protected_spans import protected_spans
from app.text.tag_placement import AlignedSpan, PlacedElement, TagPlacement, aligned_words

Span = tuple[int, int]

_SIGNS = re.compile(r"[*_~&]|\]\(|\]\[|\[/|\|\||==|''|://|(?:link|xref|mailto):|<<|\[\[|\":|>`_|</|&lt;/|\\[\"']")
_MAY_LINK = re.compile(r"\][(\[\]]|[:\w]\[|>>|\|[^|\n]{1,300}>|\[http|\":h|>`_|\[\[|\\[\"']")
_WORDS = r"[^\[\]\n]{1,300}"
_ADDRESS = r"https?://[^\s\[\]<>|]{1,300}"
_TARGET = r"(?:<[^<>\n]{1,500}>|[^\s()]{1,500}(?:\([^\s()]{0,80}\)[^\s()]{0,80})?)(?:\s\"[^\"\n]{0,200}\")?"
# The kinds of links: an example, and the patterns of the opening, the words and the closing.
_LINKS = (
    ("[Buch](address)", r"!?\[", _WORDS, rf"\]\({_TARGET}\)"),
    ("[das Buch][1]", r"(?!\[[a-z_.]+\]\[[a-z_.]+\])!?\[", _WORDS, r"\]\[[^\[\]\n]{0,80}\]"),  # not [place][city]
    ("https://example.com[Buch]", rf"(?:{_ADDRESS}|(?:link|xref|mailto):[^\s\[\]]{{1,300}})\[", _WORDS, r"\]"),
    ("<<id,Buch>>", r"<<[\w#-]{1,80},\s?", r"[^<>\n]{1,300}", ">>"),
    ("<https://example.com|Buch>", rf"<(?:{_ADDRESS}|mailto:[^\s|<>]{{1,300}})\|", r"[^|<>\n]{1,300}", ">"),
    (
        "[[Seite|Buch]]",
        r"(?<![^\s\w(\"'„“«*>…–—\u2e80-\uffee-])\[\[(?=:?[\w/]|[#.]\w)[^\[\]|\n]{1,200}\|",
        _WORDS,
        r"\]\]",
    ),
    ("[[address][Buch]]", r"\[\[[^\[\]\n]{1,300}\]\[", _WORDS, r"\]\]"),
    ("[https://example.com Buch]", rf"\[{_ADDRESS} ", _WORDS, r"\]"),
    ('"Buch":https://example.com', '"', r"[^\"\n]{1,300}", rf"\":{_ADDRESS}"),
    ('\\"Buch\\"', r"(?<!\\)\\\"", r"[^\"\n]{1,300}?", r"\\\""),
    ("\\'Buch\\'", r"(?<![\w\\])\\'", r"[^'\n]{1,300}?", r"\\'(?!\w)"),
    ("`Buch <address>`_", "`", r"[^`<>\n]{1,300}?", r"\s?<[^<>`\s]{1,300}>`__?"),
)
_LINK_PATTERNS = tuple(
    re.compile(f"(?P<opening>{opening})(?P<words>{words})(?P<closing>{closing})")
    for _, opening, words, closing in _LINKS
)
_BBCODE = re.compile(r"\[(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9]{0,11})(?:=[^\[\]\n]{1,300})?\]")
_TAGS = (
    ("[/", _BBCODE),
    ("</", re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z0-9][\w:.-]{0,60})(?:\s[^<>\n]{0,300})?(?<!/)>")),
    ("&lt;/", re.compile(r"&lt;(?P<end>/?)(?P<name>[A-Za-z0-9][\w:.-]{0,60})(?:\s[^&<>\n]{0,300})?(?<!/)&gt;")),
)
_BBCODE_NAMES = frozenset(("b", "i", "u", "s", "url", "email", "color", "size", "font", "spoiler", "sub", "sup"))
# A sign before the letter that is pressed with Alt, in a label that has one such sign; "R&B" and "user_id" have none.
_ACCELERATOR = re.compile(
    r"(?<!\S)(?:[A-ZÀ-Þ][a-zß-ÿ]{0,2}(?=[&_~][a-zß-ÿ]{2}))?"
    r"(?P<opening>[&_~])(?!\w{1,31};)(?P<words>[^\W\d_]+)(?P<closing>)(?=[.,;:!?…)\]]*(?:\s|\Z))"
)
_LONGEST_LABEL = 50
# From the longest sign to the shortest, so that the stars of ** are not taken for two signs *.
_EMPHASES = {
    sign: re.compile(
        rf"(?<![\w{sign[0]}\\])(?P<opening>{re.escape(sign)})(?=[^\s{sign[0]}])(?P<words>.{{1,500}}?)"
        rf"(?<=[^\s{sign[0]}\\])(?P<closing>{re.escape(sign)})(?![\w{sign[0]}])",
        re.DOTALL,
    )
    for sign in ("***", "**", "__", "~~", "||", "==", "'''", "''", "*", "_", "~")
}
_MASK = "\1"
_LINK_DEPTH = 2  # an image within a link
_UNCLOSED = ("**", "__", "~~", "||")


@dataclass(frozen=True, slots=True)
class Markup:
    """An emphasis, a link or an accelerator. words: the span of its words. opening, closing: the spans of the signs
    before and after the words; an accelerator has no closing sign. is_link: the signs have a name or address."""

    opening: Span
    words: Span
    closing: Span
    is_link: bool = False


def markup_of(text: str) -> list[Markup]:
    """The emphases and links of a sentence in order of their beginnings; an outer one precedes the ones inside it. One
    that would overlap another without enclosing it is left out."""
    if not _SIGNS.search(text):
        return []
    found = [own for closing, tag in _TAGS if closing in text for own in _pairs_of_tags(text, tag)]
    masked = _masked(text, [span for own in found for span in (own.opening, own.closing)])
    for _ in range(_LINK_DEPTH if _MAY_LINK.search(text) else 0):
        links = [_markup(match, is_link=True) for link in _LINK_PATTERNS for match in link.finditer(masked)]
        found += links
        masked = _masked(masked, [span for own in links for span in (own.opening, own.closing)])
        if not links:
            break
    masked = _masked(masked, ((span.start, span.end) for span in protected_spans(masked)))
    for emphasis in [emphasis for sign, emphasis in _EMPHASES.items() if sign in masked]:
        own = [_markup(match) for match in emphasis.finditer(masked)]
        found += own
        masked = _masked(masked, [span for each in own for span in (each.opening, each.closing)])
    if len(text) <= _LONGEST_LABEL and sum(map(masked.count, "&_~")) == 1:
        found += map(_markup, _ACCELERATOR.finditer(masked))
    found.sort(key=lambda markup: (markup.opening[0], -markup.closing[1]))
    kept: list[Markup] = []
    ends: list[int] = []
    for markup in found:
        while ends and ends[-1] <= markup.opening[0]:
            ends.pop()
        if not ends or markup.closing[1] <= ends[-1]:
            kept.append(markup)
            ends.append(markup.words[1])
    return kept


def _pairs_of_tags(text: str, pattern: re.Pattern[str]) -> Iterator[Markup]:
    opened: list[re.Match[str]] = []
    for tag in pattern.finditer(text):
        if not tag["end"]:
            opened.append(tag)
        elif any(own["name"].lower() == tag["name"].lower() for own in opened):
            while (first := opened.pop())["name"].lower() != tag["name"].lower():
                pass
            if first.end() < tag.start():
                yield Markup(first.span(), (first.end(), tag.start()), tag.span(), is_link=True)


def surrounding_signs(text: str) -> tuple[int, int]:
    """The lengths of the signs at both edges of a sentence that are no part of it: signs around the whole sentence, an
    opening sign whose closing sign is in a later sentence, and a closing sign whose opening sign is in an earlier
    sentence; 0 without such a sign."""
    if not text or (text[0].isalpha() and text[-1] not in "*_~|]"):
        return 0, 0
    outermost = next(iter(markup_of(text)), None)
    if outermost and (outermost.opening[0], outermost.closing[1]) == (0, len(text)):
        return outermost.opening[1], len(text) - outermost.closing[0]
    if (tag := _BBCODE.match(text)) and tag["name"].lower() in _BBCODE_NAMES and f"[/{tag['name']}]" not in text:
        return tag.end(), 0
    end = text.rfind("[/")
    if end >= 0 and (tag := _BBCODE.fullmatch(text, end)) and f"[{tag['name']}" not in text:
        return 0, len(text) - end
    begins = next((len(sign) for sign in _UNCLOSED if text.startswith(sign) and text.count(sign) % 2), 0)
    ends = next((len(sign) for sign in _UNCLOSED if text.endswith(sign) and text.count(sign) % 2), 0)
    return begins, 0 if begins else ends


def placed_signs(
    source: str,
    clean: str,
    markup: Sequence[Markup],
    in_clean: Callable[[int], int],
    translation: str,
    alignment: Sequence[AlignedSpan],
) -> Iterator[tuple[int, str]]:
    """Yields a position in `translation`, the translation of `clean`, and the sign to insert there, in order of the
    positions. source: the text of `markup`; `clean` is `source` without the signs. in_clean: maps a position in
    `source` to one in `clean`. An emphasis without aligned words is set around the word in its place; a link without
    any is written with its source's words."""
    elements = _elements(source, markup, in_clean)
    words = aligned_words(clean, translation, alignment, [])
    signs = _signs(TagPlacement(clean, words).placed(elements), clean, words, translation)
    yield from sorted(signs, key=itemgetter(0))


def _elements(source: str, markup: Sequence[Markup], in_clean: Callable[[int], int]) -> list[InlineElement]:
    top: list[InlineElement] = []
    open_elements: list[tuple[int, InlineElement]] = []
    for own in markup:
        start, end = (in_clean(at) for at in own.words)
        element = InlineElement("element", source[slice(*own.opening)], start, end, source[slice(*own.closing)])
        while open_elements and open_elements[-1][0] <= own.opening[0]:
            open_elements.pop()
        (open_elements[-1][1].within if open_elements else top).append(element)
        open_elements.append((own.closing[1], element))
    return top


def _signs(
    placed: Iterable[PlacedElement], clean: str, words: Sequence[AlignedSpan], translation: str
) -> Iterator[tuple[int, str]]:
    for element in placed:
        inline = element.inline
        is_link = inline.closing not in ("", inline.opening)
        first, last = min(element.first, len(words) - 1), max(element.first, element.behind - 1)
        covered = translation[words[first].start : words[last].end] if element.first < element.behind else ""
        if words and (any(map(str.isalnum, covered)) or not is_link):
            yield words[first].start, inline.opening
            yield from _signs(element.within, clean, words, translation)
            yield words[min(last, len(words) - 1)].end, inline.closing
        elif is_link:
            written = inline.opening + clean[inline.start : inline.end] + inline.closing
            at = words[element.first].start if element.first < len(words) else len(translation)
            before, after = translation[:at][-1:], translation[at : at + 1]
            begins_word = not before or before.isspace() or is_unspaced_script(before)
            ends_word = not after or not begins_word or is_unspaced_script(after)
            yield at, f"{'' if begins_word else ' '}{written}{'' if ends_word else ' '}"


def _markup(match: re.Match[str], *, is_link: bool = False) -> Markup:
    return Markup(match.span("opening"), match.span("words"), match.span("closing"), is_link)


def _masked(text: str, spans: Iterable[Span]) -> str:
    characters = list(text)
    for start, end in spans:
        characters[start:end] = _MASK * (end - start)
    return "".join(characters)
