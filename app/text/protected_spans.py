"""Spans that a translation must preserve exactly: links, addresses, paths, placeholders, versions, telephones, codes,
hashtags, formulas."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.text.layout_characters import closes_brackets

# Each alternative starts with or stops at a distinct character, so that matching takes linear time.
_LINK = r"(?:https?|ftp|file)://[^\s<>\"“”«»（）。，]+|\bmailto:[^\s<>\"]+|\bwww\.[^\s<>\"“”«»（）。，]+"
_ADDRESS = r"(?<![\w.+%-])[\w+%-]{1,64}(?:\.[\w+%-]{1,64}){0,8}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}"
_BRACES = (
    r"\$?\{\{[^{}\n]{0,80}\}\}|(?:\$|(?<![^\W\u2e80-\uffee]))\{[^{}\n]{0,80}\}|\{[^{}\s]{0,80}\}"
    r"|%\{[^{}\n]{0,80}\}"
)
_PRINTF = (
    r"%\([\w.]{1,80}\)[-+#0]?\d{0,9}(?:\.\d{1,9})?[a-zA-Z]"
    r"|(?<![\d%?!])%(?:\d{1,9}\$)?[-+#0]?\d{0,9}(?:\.\d{1,9})?(?:ll?|h)?[sdifuxXcgeo@](?!\w|[^\s\w.,;:/'\"’”)\]%-]\w)"
)
_VARIABLE = r"\$[A-Za-z_]\w{0,80}|%[A-Z_]{2,80}%"
_ATTRIBUTE = r"\s+[\w:.@-]{0,40}\w(?:\s?=\s?(?:\"[^\"<>]{0,200}\"|'[^'<>]{0,200}'|[^\s\"'=<>]{1,200}))"
_TAG = (
    r"<%[^\n]{0,200}?%>|<\?[^\n]{0,200}?\?>"
    rf"|</?[A-Za-z0-9][\w:.-]{{0,60}}\s?/?>|<[A-Za-z][\w:.-]{{0,60}}(?:{_ATTRIBUTE}){{1,20}}\s?/?>"
    rf"|(?<!\w)<[A-Za-z][\w:.-]{{0,60}}(?:{_ATTRIBUTE}?){{1,20}}\s?/?>"
    r"|<[%?!@#:$~|][^<>\n]{0,200}>|<<[^<>\n]{1,80}>>|\[%[^\[\]\n]{0,80}%\]"
    r"|&lt;/?[A-Za-z][^&<>\n]{0,80}&gt;|&(?:[lg]t|#6[02]|#x3[ceCE]);|&amp;#?\w{2,31};"
)
_SHORTCODE = r"(?<![\w:]):[a-z0-9_+-]{2,60}:(?![\w:])"
_DOMAIN = (
    r"(?<![\w@.-])(?:localhost(?=[:/])|(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,5}"
    r"(?:com|org|net|io|dev|app|edu|gov|info|eu|de|ch|fr|nl|pl|uk|cn|jp|ru)(?![\w-]))"
    r"(?::\d{1,5})?(?:/[^\s<>\"“”«»（）。，]*)?"
)
_IP = (
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5}|/\d{1,2})?(?!\w|\.\d)"
    r"|(?<![\w:])(?=[A-Fa-f:]{0,30}\d)(?=[\d:]{0,30}(?:[A-Fa-f]|::))(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{1,4}"
    r"(?:%[A-Za-z]\w{0,15})?(?![\w:])"
    r"|\[(?=[^]:]{0,4}:[^]:]{0,4}:)[0-9A-Fa-f:.]{2,45}(?:%\w{1,16})?\](?::\d{1,5})?"
)
_TIMESTAMP = r"\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?(?!\w)"
_DATE = r"(?:\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})|\d{4}[/-]\d{1,2}[/-]\d{1,2})(?![\d.]\d)"
_VERSION = (
    rf"(?<![\w.])[vV]\d{{1,9}}(?:\.\d{{1,9}}){{1,5}}(?:[-.]?[a-z]{{1,5}}[.\d]{{0,9}})?(?!\w)"
    rf"|(?<![\w.,])(?!{_DATE})(?!\d{{1,3}}(?:\.\d{{3}})+(?!\d))\d{{1,9}}(?:\.\d{{1,9}}){{2,5}}"
    r"(?:[-.]?(?:alpha|beta|rc|dev|post|a|b)[.\d]{0,9})?(?!\w|\.\d)"
)
_GAP = "[ \u00a0\u202f/.-]"
_TELEPHONE = (
    rf"(?<![\w+])\+\d{{1,3}}{_GAP}?(?:\(\d{{1,5}}\)[ \u00a0]?)?\d(?:{_GAP}?\d){{4,13}}(?!\w)"
    rf"|(?<![\w.,/-])(?!{_DATE})(?:\(0\d{{1,5}}\) ?|0\d{{1,5}}[ \u00a0/-]{{1,3}})[1-9]\d"
    r"(?:[ \u00a0/-]?\d){2,11}(?![\w/-])"
    r"|(?<![\w.-])(?:\(\d{3}\) ?|\d{3}-)\d{3}-\d{4}(?![\w-])"
)
_SERIAL = rf"(?<![\w.,/-])(?!{_DATE})\d{{1,12}}(?:-\d{{1,12}}){{2,6}}(?![\w-])"  # ISBN and the like
_PATH = (
    r"(?<![\w/.:~])(?:~|\.{1,2})?/[\w.+@-]{1,80}(?:/[\w.+@-]{1,80}){1,20}/?"
    r"|(?<![\w/.:~])(?:~|\.{1,2})/[\w.+@-]{1,80}"
    r"|(?<!\w)[A-Za-z]:\\[^\s<>|\"]{1,200}"
    r"|(?<![\w./-])[A-Za-z0-9_-]{1,80}\.(?:pdf|docx?|xlsx?|pptx?|odt|txt|md|csv|json|ya?ml|toml|xml|html?|css|js|ts|py"
    r"|cpp|rs|java|sh|exe|zip|gz|tar|png|jpe?g|gif|svg|mp3|mp4|srt|log|ini|cfg|sql)(?![\w-]|\.\w)"
)
_CODE_IN_TEXT = (  # as Markdown has it, with notes
    r"\[\^[\w-]{1,20}\]|(?<![^\s()\[\]\"'„“”‚‘’«»*_~|>:;,./=\-–—\u2e80-\uffee])`{1,2}"
    r"(?! |[\"'] )[^`\n]{1,200}`{1,2}(?![\w`])"
)
_NAMED = r"A-Za-z0-9_\u00c0-\u024f\u0400-\u04ff"  # not of scripts without spaces, where a whole sentence may follow
_HASHTAG = (
    rf"(?<![\w&#/.])#(?=[\d-]{{0,20}}[A-Za-z_\u00c0-\u024f\u0400-\u04ff])[{_NAMED}-]{{2,60}}"
    r"|(?<![\w.@/+-])@[A-Za-z_]\w{1,30}(?:[.-]\w{1,30}){0,3}(?:@(?:[\w-]{1,40}\.){1,4}[a-z]{2,20})?"
)
CURRENCY_CODES = "EUR|USD|GBP|CHF|JPY|CNY|RUB|INR|TRY|KRW|UAH|PLN|CZK|SEK|NOK|DKK|HUF|CAD|AUD|BTC"
# Words with digits: A380, CO2, SHA-256, x86_64, DE89 3704 0044 0532 0130 00, 5G, 12a, 7913d10e and the like.
_CODE = (
    r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)"
    r"|(?<![\w-])[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![\w-])"
    rf"|(?<![\w.@-])(?!(?:{CURRENCY_CODES})\d)(?:[A-Z]{{1,6}}-|[A-Z]{{1,5}}|[A-Za-z]{{1,3}}|[A-Za-z]{{1,20}}_)\d[A-Za-z0-9_]{{0,40}}"
    r"(?:[-_.]\d[A-Za-z0-9_]{0,20}){0,5}(?!\w)"
    r"|(?<![\w.,-])(?:0x[0-9A-Fa-f]{1,16}|(?=\d{1,63}[A-Fa-f])[0-9A-Fa-f]{7,64})(?!\w)"
    r"|(?<![\w.,€$£¥-])\d{1,4}[ACDEFGHIJKLNOPQRSUVWXYZabc](?!\w)"
)
_NUMERAL = r"\d{1,15}(?:[.,]\d{1,15})?"
_FORMULA = (
    rf"(?<![\w.,])(?:{_NUMERAL}(?:[eE][-+]?\d{{1,3}}|\^[-+]?\d{{1,3}})"
    rf"|{_NUMERAL}(?: ?[-+−–×*/÷·^] ?{_NUMERAL}){{0,8}} ?= ?[-−]?{_NUMERAL})(?!\w)"
    r"|(?<!\w)[A-Z][A-Za-z0-9]{0,10}(?:[₀-₉]{1,4}[A-Za-z0-9()]{0,10}){1,8}"
    r"|(?<!\w)\d{0,4}[¼-¾⅐-⅞](?!\w)"
    r"|(?<!\w)\d{1,3}° ?\d{1,2}['′’] ?(?:\d{1,2}(?:[.,]\d{1,4})?[\"″”] ?)?[NSEWO](?!\w)"
)
_SYNTAX = (_BRACES, _PRINTF, _VARIABLE, _TAG, _SHORTCODE)
_LITERALS = (_DOMAIN, _IP, _TIMESTAMP, _VERSION, _TELEPHONE, _SERIAL, _PATH)
_PROTECTED = re.compile("|".join((_LINK, _ADDRESS, *_SYNTAX, *_LITERALS)))
_PROTECTED_AND_CODES = re.compile(
    "|".join((_LINK, _ADDRESS, _CODE_IN_TEXT, *_SYNTAX, *_LITERALS, _HASHTAG, _CODE, _FORMULA))
)
# Nearly all sentences contain none, and few of the others a code.
_MAY_HOLD_PROTECTED = re.compile(r"[:@{%$<&\\]|\w\.\w|[ (~.]/|^/|\d[ \u00a0/)-]{1,3}\d|\+\d")
_MAY_HOLD_CODE = re.compile(r"[@`^=°₀-₉¼-¾⅐-⅞]|#\w|[A-Za-z_]-?\d|\d[A-Za-z]|\d-[A-Fa-f\d]{4}-")
_TRAILING_PUNCTUATION = ".,;:!?…'’*_~"


@dataclass(frozen=True, slots=True)
class ProtectedSpan:
    """A span to preserve. key: the string that the translation must contain, as often as the source."""

    start: int
    end: int
    key: str


def protected_spans(text: str) -> list[ProtectedSpan]:
    """Links, addresses and placeholders, which must be preserved exactly."""
    spans = []
    pattern = _PROTECTED_AND_CODES if _MAY_HOLD_CODE.search(text) else _PROTECTED
    for match in pattern.finditer(text) if may_hold_protected(text) else ():
        part = match[0]
        if part[0] in "${<" and " " in part and not closes_brackets(part):
            continue
        if (part[0].isalnum() and ("@" not in part or ":" in part)) or part[0] in "/~.":
            part = _without_trailing_punctuation(part)
        spans.append(ProtectedSpan(match.start(), match.start() + len(part), part))
    return spans


def may_hold_protected(text: str) -> bool:
    """A quick test, negative for most texts."""
    return _MAY_HOLD_PROTECTED.search(text) is not None or _MAY_HOLD_CODE.search(text) is not None


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
