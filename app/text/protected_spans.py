"""Spans that a translation must preserve: links, addresses, placeholders, and the digits of numbers."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# Each alternative starts with or stops at a distinct character, so that matching takes linear time.
_LINK = r"(?:https?|ftp|file)://[^\s<>\"“”«»（）。，]+|\bmailto:[^\s<>\"]+|\bwww\.[^\s<>\"“”«»（）。，]+"
_ADDRESS = r"(?<![\w.+%-])[\w+%-]{1,64}(?:\.[\w+%-]{1,64}){0,8}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}"
_BRACES = r"\$?\{\{[^{}\n]{0,80}\}\}|\$?\{[^{}\n]{0,80}\}|%\{[^{}\n]{0,80}\}"
_PRINTF = (
    r"%\([\w.]{1,80}\)[-+ #0]?\d{0,9}(?:\.\d{1,9})?[a-zA-Z]"
    r"|(?<![\d%])%(?:\d{1,9}\$)?[-+#0]?\d{0,9}(?:\.\d{1,9})?(?:ll?|h)?[sdifuxXcgeo@](?!\w)"
)
_VARIABLE = r"\$[A-Za-z_]\w{0,80}|%[A-Z_]{2,80}%"
_TAG = r"</?[A-Za-z0-9][^<>\n]{0,200}>|&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[A-Za-z]{2,31}\d{0,2});"
_SHORTCODE = r"(?<![\w:]):[a-z0-9_+-]{2,60}:(?![\w:])"
_PROTECTED = re.compile("|".join((_LINK, _ADDRESS, _BRACES, _PRINTF, _VARIABLE, _TAG, _SHORTCODE)))
_MAY_HOLD_PROTECTED = re.compile(r"[:@{%$<&]|www\.")  # nearly all sentences contain none
_TRAILING_PUNCTUATION = ".,;:!?…'’*_~"
_GROUP = "[.,'’٫٬\u00a0\u2009\u202f]"
_DIGITS = re.compile(rf"\d+(?:{_GROUP}\d+|\x20\d{{3}}(?!\d))*")
_ONE_NUMBER = re.compile(rf"\d+(?:[.,٫]\d+)?|\d{{1,3}}(?:(?:{_GROUP}|\x20)\d{{3}})+(?:[.,٫]\d+)?")
_WITHOUT_SPACE = re.compile(r"[^ ]+")
_GROUP_OF_DIGITS = re.compile(r"\d+")
_LARGEST_WORD = 12  # numbers up to this one may be written as a word


@dataclass(frozen=True, slots=True)
class ProtectedSpan:
    """A span to preserve. key: the string that the translation must contain, as often as the source."""

    start: int
    end: int
    key: str


def protected_spans(text: str) -> list[ProtectedSpan]:
    """Links, addresses and placeholders, which must be preserved exactly."""
    spans = []
    for match in _PROTECTED.finditer(text) if may_hold_protected(text) else ():
        part = match[0]
        if part[0].isalpha() and ("@" not in part or ":" in part):
            part = _without_trailing_punctuation(part)
        spans.append(ProtectedSpan(match.start(), match.start() + len(part), part))
    return spans


def may_hold_protected(text: str) -> bool:
    """A quick test, negative for most texts."""
    return _MAY_HOLD_PROTECTED.search(text) is not None


def without_protected(text: str) -> str:
    borders = [0, *(border for span in protected_spans(text) for border in (span.start, span.end)), len(text)]
    return " ".join(text[start:end] for start, end in zip(borders[::2], borders[1::2], strict=True))


def _without_trailing_punctuation(link: str) -> str:
    """A link without the sentence's trailing punctuation; a closing bracket opened inside the link stays."""
    surplus = {close: link.count(close) - link.count(opening) for opening, close in ("()", "[]", "{}")}
    end = len(link)
    while end:
        last = link[end - 1]
        if surplus.get(last, 0) > 0:
            surplus[last] -= 1
        elif last not in _TRAILING_PUNCTUATION:
            break
        end -= 1
    return link[:end]


def number_spans(text: str, besides: Iterable[ProtectedSpan] = ()) -> list[ProtectedSpan]:
    """Numbers by digits alone: 1,000.00 may become 1.000,00; 3.10.2026 is several numbers. besides: spans to skip."""
    taken = {at for span in besides for at in range(span.start, span.end)}
    parts = (part for match in _DIGITS.finditer(text) for part in _number_parts(text, *match.span()))
    return [part for part in parts if part.start not in taken]


def _number_parts(text: str, start: int, end: int) -> Iterator[ProtectedSpan]:
    if _ONE_NUMBER.fullmatch(text, start, end):
        yield ProtectedSpan(start, end, digits(text[start:end]))
        return
    for match in _WITHOUT_SPACE.finditer(text, start, end):
        whole = _ONE_NUMBER.fullmatch(text, *match.span()) is not None
        for part in [match] if whole else _GROUP_OF_DIGITS.finditer(text, *match.span()):
            yield ProtectedSpan(*part.span(), digits(part[0]))


def digits(text: str) -> str:
    """The digits of a text as 0 to 9, for any script."""
    return "".join(str(unicodedata.digit(character, "")) for character in text)


def missing_spans(wanted: Iterable[ProtectedSpan], present: Iterable[ProtectedSpan]) -> list[ProtectedSpan]:
    """The spans of `wanted` with keys that `present` lacks or has less often; of equal spans the last ones."""
    left = Counter(span.key for span in present)
    missing = []
    for span in wanted:
        if left[span.key] > 0:
            left[span.key] -= 1
        else:
            missing.append(span)
    return missing


def may_be_a_word(number: ProtectedSpan) -> bool:
    return len(number.key) <= 2 and number.key.isdigit() and int(number.key) <= _LARGEST_WORD
