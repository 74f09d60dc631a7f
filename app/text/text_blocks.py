"""Finds the parts of a plain text that have letters but are not translated (front matter, fenced code, comments, the
headers of a mail, the keys of resource files), and the signs that separate the cells of a row (| a | b |, a;b) or the
parts of a signature (a · b)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from app.text.layout_characters import closes_brackets

Span = tuple[int, int]

_FRONT_MATTER = re.compile(  # of Markdown, in YAML or TOML
    r"\A(?P<fence>---|\+\+\+)[ \t]*\r?\n(?:(?!(?P=fence))[^\n]*\n){1,200}?(?P=fence)[ \t]*(?=\r?\n|\Z)"
)
_ENCLOSURES = (("<!--", "-->"), ("[code]", "[/code]"), ("[img]", "[/img]"), ("$$\n", "\n$$"))
_FENCE = re.compile(r"^[ \t]{0,9}(?:>[ \t]?){0,9}(`{3,}|~{3,})[^`\n]*$", re.MULTILINE)
_ROW = re.compile(r"^[ \t>]*\|.*\|[ \t]*$", re.MULTILINE)
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_PARTS = re.compile(r"(?<=[ \t])[|·•](?=[ \t])")
_KEY = r"[A-Za-z_][A-Za-zÀ-ɏ0-9_.-]{0,80}"
# RFC 5322: a name, a colon, a value, which goes on in lines that begin with a space.
_HEADER = r"(?>[A-Z][A-Za-z0-9]{0,30}(?:-[A-Za-z0-9]{1,30}){0,5}:[^\n]*(?:\n[ \t]+\S[^\n]*)*(?:\n|\Z))"
_MOST_HEADERS = 60  # of a mail
# Rows of which only the value is translated: an example, the patterns before the value, of the value and behind it.
_FRAMES = (
    (
        '[1]: https://example.com "das Buch"',
        r"^[ \t>]*\[(?!\^)[^\]\n]{1,80}\]:[ \t]*\S{1,2000}[ \t]*[\"'(]?",
        r"[^\n]*?",
        r"[\"')]?[ \t]*$",
    ),
    (
        'greeting = Guten Morgen or "greeting": "Guten Morgen", or one: "Guten Morgen" or home.title: Guten Morgen',
        r"(?:(?<=\{)|(?<=[,\[])(?=[ \t]*[\"'])|^)[ \t]*(?:-[ \t])?(?:export[ \t])?"
        rf"(?:(?:\"[\w .:/-]{{1,80}}\"|'[\w .:/-]{{1,80}}')[ \t]*(?::(?!http)|=>?)"
        rf"|{_KEY}(?:[ \t]?=>|=|[ \t]=(?=[ \t\"']|$))(?!=)"
        r"|(?:[a-z_][\w.-]{0,80}:|msg[a-z]{2,9}(?:\[\d\])?)(?=[ \t]*[\"'])"
        r"|[a-z]\w{0,40}(?:[._][\w.-]{0,40}\w|[A-Z]\w{0,40}):(?=[ \t]))"
        r"[ \t]*(?P<quote>[\"']?)",
        r"(?:\\.|(?!(?P=quote))[^\\\n]){0,10000}",  # none without quotes: the rest of the line is text
        r"(?P=quote)(?:(?:true|false|null)\b)?[ \t]*[,;}\]]*",
    ),
    (
        "From: Anna\nTo: Otto\nSubject: Re: Guten Morgen",
        r"^(?=(?:Return-Path|Delivered-To|Received|From|To|Subject|Date|Message-I[Dd]|MIME-Version|X-[\w-]{1,40}):)"
        rf"(?=(?:{_HEADER}){{0,{_MOST_HEADERS}}}?From:)(?=(?:{_HEADER}){{3}})(?:{_HEADER}){{0,{_MOST_HEADERS}}}?"
        r"Subject:[ \t]*(?i:(?:re|fwd?|aw|wg|antw|tr|rif|sv)(?:\[\d{1,3}\])?:[ \t]*){0,5}",
        r"[^\n]*",
        rf"(?:\n(?:{_HEADER}){{0,{_MOST_HEADERS}}})?",
    ),
    ('!!! note "Guten Morgen"', r"^[ \t>]*(?:!!!|\?\?\?\+?) ?[\w -]{1,80}\"", r"[^\n]*", r"\"[ \t]*$"),
    ("[section]\nkey = ...", rf"^\[[^\]\n]{{1,80}}\][ \t]*$(?=\n[ \t]*{_KEY}[ \t]?=)", "", ""),
)
_FRAME_PATTERNS = tuple(
    re.compile(f"{before}(?P<value>{value}){behind}", re.MULTILINE) for _, before, value, behind in _FRAMES
)
_OBJECT_BEGINNINGS = ("{", "[", '"', "'")
_LINE_BEGINNINGS = ("", "\n")
_MAY_BE_FRAME = re.compile(r"[=:]|[!?]{3}|msg")
_YAML_ROW = re.compile(r"^[ \t]*(?:-[ \t])?[a-z_][\w.-]{0,80}:(?:[ \t]+|$)", re.MULTILINE)
_LINE = re.compile(r"^.*\S.*$", re.MULTILINE)
_CELL = re.compile(
    r"\"[^\"\n]*\"|&#?\w{1,31};|\w{2,9}://[^\s;,|\"]*|\[\[[^\]\n]{1,300}\]\]|<[^<>\s]{1,300}\|[^<>\n]{1,300}>|\|\|"
    r"|(?<!\s)(?P<sign>[;,|])(?!-?[)(/\\DPp](?!\w))"
)
_SIGN_WITH_SPACES = re.compile('[;,|] *"?')
_QUOTE_AT_EDGE = re.compile(r"^\"|\"(?=\r?$)", re.MULTILINE)
_CELL_BEGINNING = re.compile(r"[\w\"'“„«(\[¿¡*+$€£-].*\w|#?\w")
_DECIMAL = re.compile(r"\d,\d")
_SENTENCE_END = re.compile(r"[.!?…]$", re.MULTILINE)
_SECTION_ENDS = ("\n\n", "\r\n\r\n", "\n", ". ", "。", " ")


def untranslatable_blocks(text: str) -> list[Span]:
    """The spans of front matter, fenced code and comments, in order, without overlaps."""
    blocks = list(_fenced_code(text)) if "```" in text or "~~~" in text else []
    if text.startswith(("---", "+++")) and (front_matter := _FRONT_MATTER.match(text)):
        blocks.append(front_matter.span())
    for opening, closing in _ENCLOSURES:
        blocks += _enclosed(text, opening, closing)
    return merged(blocks)


def merged(spans: Iterable[Span]) -> list[Span]:
    """The spans in order; overlapping ones become one."""
    merged_spans: list[Span] = []
    for start, end in sorted(spans):
        if merged_spans and start < merged_spans[-1][1]:
            merged_spans[-1] = merged_spans[-1][0], max(end, merged_spans[-1][1])
        else:
            merged_spans.append((start, end))
    return merged_spans


def _enclosed(text: str, opening: str, closing: str) -> Iterator[Span]:
    start = text.find(opening)
    while start >= 0 and (end := text.find(closing, start + len(opening))) >= 0:
        yield start, end + len(closing)
        start = text.find(opening, end + len(closing))


def frames(text: str) -> Iterator[Span]:
    """The spans around the values of rows such as key = value, and around the subject of a mail. If a text has only
    rows key: value, any word may be such a key."""
    if not _MAY_BE_FRAME.search(text):
        return
    has_objects = text.lstrip().startswith(_OBJECT_BEGINNINGS)  # else { and [ are signs of a sentence
    for pattern in _FRAME_PATTERNS:
        for match in pattern.finditer(text):
            if has_objects or text[match.start() - 1 : match.start()] in _LINE_BEGINNINGS:
                yield match.start(), match.start("value")
                yield match.end("value"), match.end()
    lines = [line[0] for line in _LINE.finditer(text) if not line[0].lstrip().startswith("#")]
    if len(lines) > 1 and all(map(_YAML_ROW.match, lines)):
        yield from (row.span() for row in _YAML_ROW.finditer(text))


def cell_borders(text: str) -> Iterator[Span]:
    """The spans of the signs that separate cells or parts of a line."""
    if "|" in text:
        for row in _ROW.finditer(text):
            yield from (border.span() for border in _CELL_BORDER.finditer(text, *row.span()))
    if "|" in text or "·" in text or "•" in text:
        yield from (separator.span() for separator in _PARTS.finditer(text))
    for sign in ";,|":
        if sign in text and (f"{sign} " not in text or '"' in text or "\n" in text):
            yield from _separated_values(text, sign)


def _separated_values(text: str, sign: str) -> list[Span]:
    """The borders of the cells if all lines have the same number of cells. Sentences have such signs, too, as have
    decimals (1,5): cells that begin with a space have semicolons, several rows and columns, and no full stop."""
    lines = [line.span() for line in _LINE.finditer(text)]
    rows = [[cell.start() for cell in _CELL.finditer(text, *line) if cell["sign"] == sign] for line in lines]
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        return []
    signs = [at for row in rows for at in row]
    several_rows, several_columns = len(rows) > 1, len(rows[0]) > 1
    if any(text[at + 1 : at + 2] == " " for at in signs):
        are_cells = sign == ";" and several_rows and several_columns and not _SENTENCE_END.search(text)
    elif sign == ",":
        is_table = (several_columns or text[0] == '"') and (several_rows or text.count(" ") <= len(signs))
        are_cells = is_table and len(_DECIMAL.findall(text)) < len(signs)
    else:
        borders = [-1, *signs, len(text)]
        cells = (text[start + 1 : end] for start, end in pairwise(borders))
        are_cells = several_rows or ((several_columns or sign == ";") and all(map(_has_pairs, cells)))
    if not are_cells:
        return []
    quotes = [quote.span() for quote in _QUOTE_AT_EDGE.finditer(text)]
    ends = (match.end() for at in signs if (match := _SIGN_WITH_SPACES.match(text, at)))
    return quotes + [(at - (text[at - 1] == '"'), end) for at, end in zip(signs, ends, strict=True)]


def _has_pairs(cell: str) -> bool:
    """Whether a cell has words or digits and its own brackets: \\e[1;31m, {a|b} and %|⟦x⟧|% are no rows."""
    return closes_brackets(cell) and (not cell or _CELL_BEGINNING.match(cell) is not None)


def text_sections(text: str, characters: int) -> Iterator[str]:
    """The text in parts of at most so many characters, cut between paragraphs or else lines, sentences or words; a
    longer block of code stays whole."""
    start = number = 0
    blocks = untranslatable_blocks(text) if len(text) > characters else []
    while len(text) - start > characters:
        most = start + characters
        ends = ((text.rfind(sign, start + characters // 2, most), len(sign)) for sign in _SECTION_ENDS)
        end = next((at + length for at, length in ends if at >= 0), most)
        while number < len(blocks) and blocks[number][1] <= end:
            number += 1
        if number < len(blocks) and blocks[number][0] < end:
            end = blocks[number][0] if blocks[number][0] > start else blocks[number][1]
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _fenced_code(text: str) -> Iterator[Span]:
    """A closing fence has the sign of the opening fence, is at least as long, and names no language."""
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif fence[0].strip("> \t\r") == fence[1][0] * len(fence[1]) and fence[1].startswith(opening[1]):
            yield opening.start(), fence.end()
            opening = None
