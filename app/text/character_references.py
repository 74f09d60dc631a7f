r"""Character references (&amp;, &eacute;, &#8212;) and escapes (\", \u00df) in plain text: the model reads the
characters that they stand for. And separators (dashes, &, ©) between the parts of a sentence: a translation that lacks
one may have lost a part."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator

_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,31}\d{0,2});")
_ESCAPE = re.compile(r"(?<!\\)\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\"']))")
LONGEST_REFERENCE = 35  # characters
_MARKUP = frozenset("<>")  # part of a tag, which is copied as it is
_SEPARATOR = re.compile(r"(?<=\s)(?:[—–&]|--)(?=\s)|[©®™]")
_ROUND_BRACKETS = re.compile(r"[()（）]")
# A translation may write a word for it.
_AND = re.compile(
    r"\b(?:and|und|et|y|e|i|en|och|og|ja|és|a|ve|и|і|και|ed|și|şi|ir|un|in|dan|và)\b|[，、和与與と·&]|와|과|및|و",
    re.IGNORECASE,
)


def references(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and character of each reference to one character. References to < and > are left out, and so is a
    reference to an & that would begin another reference (&amp;lt;): these are copied unread."""
    for match in _REFERENCE.finditer(text) if "&" in text else ():
        character = html.unescape(match[0])
        escapes = character == "&" and _REFERENCE.match("&" + text[match.end() : match.end() + LONGEST_REFERENCE])
        if len(character) == 1 and character not in _MARKUP and not escapes:
            yield *match.span(), character
    quotes = escaped_quotes(text)
    for match in _ESCAPE.finditer(text) if "\\" in text else ():
        if match[3] and match[3] not in quotes:
            continue
        code = match[1] or match[2]
        yield *match.span(), chr(int(code, 16)) if code else match[3]


def reference_spans(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each reference in the text, including references that translation copies unread."""
    return (match.span() for match in _REFERENCE.finditer(text)) if "&" in text else iter(())


def first_bare(character: str, text: str, start: int = 0) -> int:
    """The first position of `character` from `start` on, -1 without one; an & that begins a reference does not
    count."""
    at = text.find(character, start)
    while character == "&" and at >= 0 and _REFERENCE.match(text, at):
        at = text.find(character, at + 1)
    return at


def written_characters(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and character of each reference, and of each bare occurrence of a character that the text elsewhere
    writes as a reference, in order."""
    spans = list(references(text))
    inside = {at for start, end, _ in spans for at in range(start, end)}
    for character in {character for _, _, character in spans}:
        at = first_bare(character, text)
        while at >= 0:
            if at not in inside:
                spans.append((at, at + 1, character))
            at = first_bare(character, text, at + 1)
    yield from sorted(spans)


def escaped_quotes(text: str) -> str:
    """The quotes that a text writes with a backslash wherever it has them, as strings of programs do."""
    escaped = {match[3] for match in _ESCAPE.finditer(text) if match[3]} if "\\" in text else set()
    return "".join(quote for quote in sorted(escaped) if text.count(quote) == text.count("\\" + quote))


def separators(text: str) -> list[tuple[int, int, str]]:
    """Start, end and character of each dash (also --) and & between spaces and of each ©, ® and ™, bare or as a
    reference."""
    spans = [(start, end, character) for start, end, character in references(text) if character in "—–&©®™"]
    inside = {at for start, end, _ in spans for at in range(start, end)}
    spans += [(*match.span(), match[0]) for match in _SEPARATOR.finditer(text) if match.start() not in inside]
    return sorted(spans)


def lost_separators(source: str, translation: str) -> list[tuple[int, int, str]]:
    """The separators of `source` whose character is rarer in `translation`, and its round brackets if the translation
    has fewer. A dash is not lost if the translation has other punctuation for it (comma, colon), nor & if the
    translation has a word for it."""
    brackets = list(_ROUND_BRACKETS.finditer(source))
    fewer = len(brackets) > len(_ROUND_BRACKETS.findall(translation))
    lost = [(*bracket.span(), bracket[0]) for bracket in brackets] if fewer else []
    wanted = separators(source) if any(sign in source for sign in (*"—–&©®™", "--")) else []
    if not wanted:
        return lost
    there = Counter(character for _, _, character in separators(translation))
    needed = Counter(character for _, _, character in wanted)
    pauses = len(re.findall(r"[,;:—–]|\s-\s", translation)) - len(re.findall(r"[,;:]|\s-\s", source))
    for start, end, character in wanted:
        kept = there[character] >= needed[character]
        kept |= character in "—–--" and pauses >= needed["—"] + needed["–"] + needed["--"]
        kept |= character == "&" and _AND.search(translation) is not None
        if not kept:
            lost.append((start, end, character))
    return sorted(lost)
