"""Marks at the edges of a line that are no part of its sentences (list markers before the first word, emoticons, signs
behind the last word), and leaders and blanks, which separate two texts. Each row of a table has an example."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from app.text.layout_characters import EMOJI, MARK

Span = tuple[int, int]
_Rows = Sequence[tuple[str, str]]

_LETTER = r"[^\W\d_]"
_CAPITAL = "[A-ZÀ-ÖØ-ÞΑ-ΩЀ-Я]"
_ROMAN = "(?=[ivx])x{0,3}(?:ix|iv|v?i{0,3})|(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})"
_QUOTES_AND_OPENING = r"\"'“”„«»‚‘’‹›()\[\]{}（「『【《¿¡"
_FACE = "[-^~oOTtuUxX><\u0ca0\u2022@;]"
_SIGNS = (
    r"_^~<>=+\\|\u00a6\u00a8\u00ac\u00af-\u00b4\u00b8\u0294\u0295\u02b0-\u0304\u0361\u2022\u203f\u2040"
    r"\u2200-\u2bff\u30fb\ufe30-\ufe4f\uff3e-\uff40\uff61-\uff65"
)
_EMOTICONS: _Rows = (
    (":-)", r"[<>]?[:;]['’]?[-^o*]?[)(\[\]dDpPoO3sSxX/\\|{}@*$]{1,5}|=[)(\]DP]{1,5}|8-\)|[xX]D{1,5}"),
    ("(-:", r"[)(]{1,3}[-^]?[:;=]"),
    ("<3", r"</?3{1,5}"),
    ("o_O", rf"\\[oO]/|\(?{_FACE}_{{1,3}}{_FACE}\)?|(?P<eye>[oOxu><^-])\.(?i:(?P=eye)|[><])"),
    ("( ͡° ͜ʖ ͡°)", r"\( ?\u0361\u00b0[^\w()]{0,3}\u0296[^\w()]{0,3}\)"),
    # Two or more signs that sentences lack, and no two letters or digits in a row.
    (
        "¯\\_(ツ)_/¯",
        rf"(?![A-Za-z0-9])(?=[^\s{_SIGNS}]{{0,20}}[{_SIGNS}]\S{{0,20}}?[{_SIGNS}])(?:\S(?<![^\W_][^\W_])){{2,30}}",
    ),
)
_MARKERS: _Rows = (
    ("!!! note", r"(?:!!!|\?\?\?\+?|:{3,}) ?[\w-]{1,40}(?=\s|\[|\Z)|\.\. [\w-]{1,40}::(?=\s|\Z)"),
    (
        "a. or (iv) or 1.2.3) or [1] or 1\\.",  # neither "z. B." nor "S. 5"
        rf"(?!{_LETTER}\.\Z)[(（\[]?(?:\d{{1,3}}(?:\.\d{{1,3}}){{0,5}}|{_ROMAN}|{_LETTER})\\?"
        rf"(?:[)\]:．）]{{1,2}}|\.(?!\s?(?:{_LETTER}|Chr)\.)(?!(?<=[sSpP]\.)\s*\d)\)?)(?:(?=\s|\Z)|(?<=[)\]])(?={_CAPITAL})|(?<=\d\))(?={_LETTER})|(?<=[）．]))",
    ),
    (
        "[x] or [00:12] or [^1]: or [!NOTE]",
        r"\[(?:[ xX✓✗*-]|[\d.:,–-]{1,20}|[\^!][\w-]{1,20})\][+-]?:?(?=\s|\Z)|\[\d\d?:[\d.:]{2,9}\]",
    ),
    ("1.2 Der Hund", rf"\d{{1,3}}(?:\.\d{{1,3}}){{1,5}}(?=\s+{_CAPITAL}\w*\s\S)"),
    ("§ 1 Der Hund", rf"§{{1,2}} ?\d{{1,4}}[a-z]?(?:[.:)](?=\s)|(?=\s+{_CAPITAL}))"),
    ("Nr. 1: Der Hund", r"[A-Z][a-z]{0,3}\. ?\d{1,4}[:)](?=\s)"),
    (":param x: der Hund", r":[\w-]{1,30}(?: [\w-]{1,30}){0,2}:(?=\s|\Z)"),
    ("一、我想", r"[（(]?[一二三四五六七八九十]{1,3}[）)、．.]|第[一二三四五六七八九十\d]{1,4}[章节條条]"),
    ("\\*Hund", r"(?:\\[^\w\s])+"),
    ("- or \\# or //", rf"(?![<≤≥≈±&$€£¥₹%]|[+~]\s+\d)[^\w\s{_QUOTES_AND_OPENING}][^\w\s]{{0,9}}(?=\s|\Z)"),
    ("—Hund or >Hund", rf"[–—•·‣>]{{1,9}}(?=[\"'„“«¿¡]?{_LETTER})|-(?={_CAPITAL}\w)"),
)
_TRAILERS: _Rows = (
    ("Titel ##", r"\s#{1,6}"),
    ("Titel {#id}", r"\s?\{[#.:][^{}\n]{1,80}\}"),
    ("Hund\\* or Zeile\\", r"(?:\\[^\w\s])+|(?<!\\)\\"),
    ("Hund */", r"\s(?:\*/|-->)"),
    ("Datei (&D)...", r"\s?[(（][&_~][A-Za-z0-9][)）](?:\.{3}|…|:)?"),
    ("Ein Hund.[1]", r"\s?\[\^[\w-]{1,20}\]|(?<=[.!?…。])\s?\[\w{1,3}\]"),
    ("Danke:)", r"(?<=[\w.!?])(?:[:;]-?[)D]{1,5}|\^\^|<3)"),
)
_SEPARATORS: _Rows = (
    ("Titel ..... 12", r"\.{4,}|(?:\. ){3,}\.?|…[… ]*…|(?:·[ ·]*){3,}"),
    ("Name: ____", r"\(_{2,}\)|(?<![^\s:(])[_-]{3,}|[_-]{3,}(?![^\s.,:;!?)])|(?:_ ){2,}_|(?<!\S)(?:- ){3,}-(?!\S)"),
    ("eins *** zwei", r"(?<!\S)(?P<sign>[=~*#+])(?P=sign){2,}(?!\S)"),
    (
        "Guten Morgen!\\nHallo",  # of a resource string; not \neq
        r"(?:\\[nrt]){2,}|(?<=[.!?:;,…])\\[nrt]|(?<![(\[{])\\[nrt](?=[\s\\\w\"'“„«(\[{<%$*•–-]|\Z)(?![a-zß-ÿ])"
        r"|(?<=[^\W\d_])\\[nrt](?=[a-zß-ÿ]+(?:[\s.,;:!?\\]|\Z))",
    ),
    ("**Achtung:** der Hund", r"(?<=:)(?:\*\*|__)(?=\s)|(?<=\w)(?:\*\*|__)(?=:\s)"),
    ("[*]", r"\[(?:\*|hr|/?(?:quote|list|table|tr|td|th|center|left|right)(?:=[^\]\n]{1,80})?)\]"),  # of BBCode
)


def _any(rows: _Rows) -> str:
    return "|".join(f"(?:{pattern})" for _, pattern in rows)


_BEFORE = re.compile(rf"(?:{_any(_MARKERS)})|(?:{_any(_EMOTICONS)})(?=\s|\Z)")
_AFTER = re.compile(rf"(?:{_any(_TRAILERS)}|(?<!\S)(?:{_any(_EMOTICONS)})[.!?,…]*)\Z")
EMOTICON = re.compile(_any(_EMOTICONS))
_LONGEST_TRAILER = 100  # characters
_UNDIVIDED = r"`[^`\n]{1,200}`|(?:https?://|[A-Za-z]:\\|\\\\(?=\w))\S*"  # code and addresses
_SEPARATOR = re.compile(
    rf"{_UNDIVIDED}|(?P<separator>{_any(_SEPARATORS)}"
    rf"|(?<=[.!?…]\s)(?:(?={EMOJI}){MARK.pattern}|(?:{_any(_EMOTICONS)})(?=\s)))"
)
_MAY_SEPARATE = re.compile(r"(?=[^\w\s]|_)(?:[._=~*#+·…-]{2}|…|\\[nrt]|\[[/*a-z]|[.!?]\s[^\w\s]|[.·_-] [.·_-])")


def separators(text: str) -> Iterator[Span]:
    """The spans of leaders, blanks and other signs that separate two texts."""
    if _MAY_SEPARATE.search(text):
        for match in _SEPARATOR.finditer(text):
            if match["separator"]:
                yield match.span()


def behind_markers(text: str, start: int, end: int) -> int:
    """The place of the first word of a line."""
    while start < end and (match := MARK.match(text, start, end) or _BEFORE.match(text, start, end)):
        start = match.end()
    return start


def without_trailers(text: str, start: int, end: int) -> int:
    """The end of the last sentence of a line."""
    while start < end:
        last = text[max(start, end - 3) : end].rstrip(".!?")[-2:]
        if last.isalpha() and len(last) == 2 and last[1] != "D":  # the common case, a word
            break
        near = max(start, end - _LONGEST_TRAILER)
        if MARK.match(text, end - 1, end):
            end = next((mark.start() for mark in MARK.finditer(text, near, end) if mark.end() == end), end - 1)
        elif trailer := _AFTER.search(text, near, end):
            end = trailer.start()
        else:
            break
    return end
