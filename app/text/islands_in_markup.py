"""Finds what the tokenizer of a page would misread or take apart, before it reads the page: instructions for a server,
signs "<" that begin no tag, formulas with signs above or below the line, and the numbers of footnotes. A mask has as
many characters as what it covers, so that places stay."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

COPIED, MARK, LESS_THAN = "\ue000", "\ue001", "\ue002"  # masks: stands for words; stands beside words; "<" of a text

# Of PHP, whose last one may have no end, and of ASP, ERB, JSP and the like. Some print words of the sentence.
_PHP = re.compile(r"<\?(?:php\b|=|\s).*?(?:\?>|\Z)", re.DOTALL)
_SERVER_SIDE = re.compile(rf"{_PHP.pattern}|<%.*?(?:%>|\Z)", re.DOTALL)
_PRINTING = re.compile(r"<[?%]\s*(?:=|php\s+(?:echo|print)\b)")
# A "<" before words without the signs of attributes, up to the next "<" or ">" or to the end.
_LESS_THAN = re.compile(r"<(?=([a-z]\w*)[^<>=\"'/\s]*+(\s?)[^<>=\"'/]*+([<>]|\Z))", re.IGNORECASE)
_UNENDED = re.compile(r"(?<=[^\W_])<(?=([a-z]\w*)[^<>\"']*+(?:<|\Z))", re.IGNORECASE)  # k<n und c==d
_COMPARISON = re.compile(  # in a text: x<5, i<n, y>3, x<=0.5
    rf"(?<![^\W_])[^\W_]{{1,12}}[<>{LESS_THAN}]=?(?:\d(?:[\d.,]{{0,20}}\d)?|[^\W\d_]{{1,2}}\d{{0,3}})(?![^\W_])"
)
_END_TAG = re.compile(r"</([a-z]\w*)", re.IGNORECASE)

# H<sub>2</sub>O, <i>x</i><sup>2</sup>, Al<sub>2</sub>(SO<sub>4</sub>)<sub>3</sub>, 10 m<sup>2</sup>
_BASE = r"(?<![^\W_])[^\W_][^\s.,;:!?<>&()]{0,12}"
_FORMULA = re.compile(
    rf"(?:(?<![^\s>(])\d[\d.,]{{0,12}}(?:[ \xa0]|&nbsp;))?(?P<base>{_BASE}|<(i|em|b|var)>{_BASE}</\2>)"
    r"(?:<(su[bp])\b[^<>]{0,200}>(?P<sign>[^<>\s\[][^<>\s]{0,11})</\3\s*>"
    r"|<(span|small|font)\b[^<>]{0,200}>\d{1,3}</\5\s*>)"
    r"(?:(?:\((?=[A-Z]\w{0,8}<su)|\)(?=<su))?(?!\w*[a-zß-öø-ÿ]{2})[^\W_]{0,9}(?![^\W_])"
    r"<(su[bp])\b[^<>]{0,200}>[^<>\s\[][^<>\s]{0,11}</\6\s*>)*"
    r"(?:(?!\w*[a-zß-öø-ÿ]{2})[^\W_]{1,9}(?![^\W_]))?"
)
_MAY_HOLD_FORMULA = re.compile(r"<su[bp]\b|<(?:span|small|font)\b[^<>]{0,200}>\d{1,3}</")  # most pages do not
# Three letters, unless each begins or is an element's symbol: CaCO, USA; with a footnote's number also "so", "da".
_WORD = re.compile(r"(?<![^\W\d_])(?!(?:[A-Z][a-z]?){2,}(?![^\W\d_]))[^\W\d_]{3,}")
_FUNCTIONS = ("log", "lim", "sin", "cos", "tan", "max", "min", "exp")
_SHORT_WORD = re.compile(r"(?=\w?[aeiouyäöü])[^\W\d_][a-zäöüß]")
# <sup>1</sup>, <sup id="c"><a href="#n"><span>[</span>1<span>]</span></a></sup>, Haus<a href="#n">[1]</a>
_NOTE = re.compile(
    r"<(su[bp])\b[^<>]{0,200}>(?P<content>(?:\s*<(?!/?su[bp])[^<>]{0,300}>\s*|[^<>\s]){1,14})</\1\s*>"
    r"|(?<=[^\s(\[>])<(a|span)\b[^<>]{0,300}>\[\d{1,3}\]</\3\s*>|(?<=[^\s(\[>])<a\b[^<>]{0,300}>\d{1,3}</a\s*>"
)
_NUMBER_OF_NOTE = re.compile(r"[(\[]?(?:\d{1,3}(?:[,–-]\d{1,3})*|[a-z])[)\]]?|[*†‡§¶]{1,4}")
_LONG_WORD = re.compile(r"[^\W\d_]{4}")
_TAG = re.compile(r"<[^<>]*>")


def masked_page(source: str, elements: frozenset[str]) -> str:
    """An HTML page with masks. elements: names that no variable has, as in "i<n und n>3"; it has none of an end tag's
    either."""
    if "<?" in source or "<%" in source:
        pattern = _SERVER_SIDE if "%>" in source else _PHP
        source = pattern.sub(lambda match: _mask(match, copied=_PRINTING.match(match[0]) is not None), source)
    closed = elements | {name.lower() for name in _END_TAG.findall(source)}

    def less_than(match: re.Match[str]) -> str:
        beside_word = match.start() > 0 and match.string[match.start() - 1].isalnum()
        is_text = match[3] == "<" or (match[2] and (beside_word or not match[3]))
        return LESS_THAN if is_text and match[1].lower() not in closed else "<"

    source = _UNENDED.sub(lambda match: "<" if match[1].lower() in closed else LESS_THAN, source)
    return masked_notes(_LESS_THAN.sub(less_than, source))


def masked_notes(source: str) -> str:
    """A page with masks of its formulas and of the numbers of footnotes."""
    if _MAY_HOLD_FORMULA.search(source):
        source = _FORMULA.sub(_masked_formula, source)
    return _NOTE.sub(_masked_note, source)


def parts(source: str, masked: str) -> Iterator[tuple[str, str]]:
    """The parts of a text between two tags, each with its mask, "" for a part without one."""
    if "<" in source or ">" in source:
        masked = _COMPARISON.sub(lambda match: _mask(match, copied=True), masked)
    for match in re.finditer(f"{COPIED}+|{MARK}+|[^{COPIED}{MARK}]+", masked):
        yield source[match.start() : match.end()], match[0][0] if match[0][0] in (COPIED, MARK) else ""


def _mask(match: re.Match[str], *, copied: bool) -> str:
    return (COPIED if copied else MARK) * len(match[0])


def _masked_formula(match: re.Match[str]) -> str:
    base = _TAG.sub("", match["base"])
    is_note = match[3] == "sup" and _NUMBER_OF_NOTE.fullmatch(match["sign"]) is not None
    is_word = (_WORD.search(base) and base not in _FUNCTIONS) or (is_note and _SHORT_WORD.fullmatch(base))
    return match[0] if is_word else _mask(match, copied=True)


def _masked_note(match: re.Match[str]) -> str:
    content = html.unescape(_TAG.sub("", match["content"] or "1")).strip()
    before = match.string[match.start() - 1 : match.start()]
    beside_word = before not in ("", ">", "(") and not before.isspace() and not _LONG_WORD.search(content)
    is_note = content and (beside_word or _NUMBER_OF_NOTE.fullmatch(content))
    return _mask(match, copied=False) if is_note else match[0]
