"""Islands: what a sentence has besides words of natural language, ordinary punctuation and spaces. An island comes back
from a translation to the character, whatever it is: what a model may see is named here, and everything else is kept.
Known kinds (`app.text.protected_spans`) only say more about an island: where a link ends, that a path has spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from operator import attrgetter

from app.text.language_codes import base_language
from app.text.layout_characters import SOFT_HYPHEN, UNUSUAL, ZERO_WIDTH, closing_sign, is_unspaced_script
from app.text.line_marks import EMOTICON
from app.text.protected_spans import protected_spans

_start = attrgetter("start")
# The classes of characters, one letter each, so that patterns read a text as a string of classes.
_LETTER, _FOREIGN, _DIGIT, _STOP, _OPENING, _CLOSING, _QUOTE, _JOINER, _MARK = "LFD.ocq-m"
_COMMA, _PLUS, _TICK, _SLASH, _AND, _PERCENT, _SIGN, _SPACE, _UNSPACED, _PICTURE, _OTHER, _KNOWN = ",+`/&%$ UEXK"
_CLASSES = {
    _STOP: ".",
    _COMMA: ",;:!?。，、；：！？।؟،؛·",
    _PLUS: "+−±=",
    _TICK: "`´",
    _OPENING: "([（「『《【〈¿¡",
    _CLOSING: ")]）」』》】〉",
    _QUOTE: "\"'“”„‚‘’‛«»‹›ʼ",
    _JOINER: "-‐‑‒–—―…‥",
    _MARK: "×°§©®™",  # beside numbers, and in names
    _SLASH: "/",
    _AND: "&",
    _PERCENT: "%‰",
    _SIGN: "€$£¥₹₽₺₩₪฿₫₴₦₱₿¢",
    _SPACE: " \t\r\n\v\f",
}
_CLASS_OF = {ord(character): name for name, characters in _CLASSES.items() for character in characters}
# As `unicodedata` begins the names of their letters. Latin letters are read in every language.
_SCRIPTS = {
    "CYRILLIC": "ru uk be bg sr mk kk ky mn tg tt ba cv sah os ce ab",
    "GREEK": "el grc",
    "CJK HIRAGANA KATAKANA KATAKANA-HIRAGANA IDEOGRAPHIC": "ja",
    "CJK BOPOMOFO IDEOGRAPHIC": "zh yue wuu",
    "HANGUL CJK": "ko",
    "ARABIC": "ar fa ur ps ckb ug sd arz",
    "HEBREW": "he iw yi",
    "DEVANAGARI": "hi mr ne sa",
    "BENGALI": "bn as",
    "": (
        "af bs ca cs cy da de en eo es et eu fi fil fo fr fy ga gd gl hr ht hu id in is it jv la lb lt lv mg mi ms mt "
        "nb nl nn no oc pb pl pt rm ro sk sl sm sq sv sw tl tn tr vi xh zu"
    ),
}
_SCRIPTS_OF = {code: frozenset(scripts.split()) for scripts, codes in _SCRIPTS.items() for code in codes.split()}
_WORD = r"(?:oL+c)?L+(?:[-q`]{1,2}L+|\.L+|,(?=LL)L+|oL+c)*|LL+(?:-L+)*(?:/LL+(?:-L+)*)+"
_DIGITS = r"D+(?:[.,\-q]{1,2}D+)*"
_NUMBER = rf"[+m]?-?m?{_DIGITS}(?:[$%m](?:[-/]L+)?|[-m]?L+(?:[-/]L+)*)?|[$+]?-?\$?{_DIGITS}(?:[-/]L+)*"
_ORDINARY = re.compile(
    rf"[oq]*(?:\.\.+|-+)?[oq]*(?:{_WORD}|{_NUMBER})[.,qc\-]{{0,4}}|[oq.,c\-&/m]*|[$%+][.,qc\-]{{0,4}}"
)
_NUMBER_AND_UNIT = re.compile(
    r"\d[§©®™]|\d(?!(?:er|ern|st|nd|rd|th|te|ten|ter|x|Uhr|am|pm|jährig)\b)[^\W\d_]{1,3}(?!\w)"
)
_COMPARISONS = ("<!", ">!", "<.", ">.")  # at the end of a sentence, where they compare nothing
_UNITS = ("km/h", "m/s", "c/o", "n/a", "w/o", "o/ü")
_SLOT = re.compile(r"(\[{1,3}[^\W\d][\w.:-]*\]{1,3})[.,;:!?]?")  # [name], [[city]]
_CHUNK = re.compile(r"[^ U]+")  # a character of Chinese and the like is a word by itself
_MARKED_WORD = re.compile(r"[oq]*LL+(?:[-q`]{1,2}L+)*(X)[.,qc]*")  # a footnote's star
_FOOTNOTE_SIGNS = "*†‡"
_FOREIGN_WORDS = re.compile(r"F+(?:[-q.,]?F+)*")
_WITH_FOREIGN_LETTERS = re.compile(r"[LF]*F[LF]*(?:[-q][LF]*F[LF]*)*")
_PICTURES_AROUND = re.compile(r"E*(?P<word>[^E]*)E*[.,qc\-]*")  # "Hello😀!": the word is read, the picture is a mark
_PICTURED_WORD = re.compile(r"[oq]*(?:L+(?:[-q`]{1,2}L+)*|K+)[.,qc\-]{0,4}")
_FOREIGN_CHUNK = re.compile(r"[oq]*-?F+(?:[-q]{1,2}F+|[.,]F+)*[.,qc\-]{0,3}")
_KNOWN_RUN = re.compile("K+")
_LONE_UNIT = re.compile(r"(?<![^ U])(?<![DKX] )[$%]+(?= |\Z)(?! D)")  # "in %", but "5 %" and "$ 5"
# A name between signs, in a script without spaces, where signs stand beside words: @{名}@ and #^名#^.
_NAME_IN_SIGNS = re.compile(
    r"(?P<before>[^LFDUEK ]+)(?P<name>[LFDUK]+(?:[^LFDUEK ][LFDUK]+){0,4})(?P<after>[^LFDUEK ]+)"
)
_JOINED_BEFORE, _JOINED_AFTER = re.compile(r"[LFDX$%]+\Z"), re.compile(r"(?:[LFDX$%]|`(?=L))+")
_TAG_STARTS, _TAG_ENDS = "<&", ">;"
_LOWER, _UPPER = ("".join(filter(of_case, map(chr, range(0x530)))) for of_case in (str.islower, str.isupper))
# A domain or a file, a path, a name in camel case: "firma.es" but "z.B.", "Ende.Anfang"; "loginItem" but "LehrerInnen".
_IDENTIFIER = re.compile(
    r"[^\W\d_]+\.[a-zß-ÿа-я]{2,}|\w\.\w+/|\w/\w+\.\w"
    rf"|[{_LOWER}](?!(?<=\bMc)|(?<=\bMac)|(?<=\bGmb)|(?<=\bPh)|In(?:nen)?\b)[{_UPPER}]"
    r"|\b[a-z][\w.-]{0,15}:[+/\d]"
    r"|[a-zA-ZÀ-ɏ][а-яА-Яα-ωΑ-Ω]|[а-яА-Яα-ωΑ-Ω][a-zA-ZÀ-ɏ]"  # letters of two scripts in one word
)
CAMEL_CASE = re.compile(f"[{_LOWER}][{_UPPER}]")
_GENDERED = re.compile(r"(?<=[a-zäöüß])[*:_](?:in|innen|r|e|n)\b")
_TRIMMED_OPENING = (_CLASSES[_OPENING] + _CLASSES[_QUOTE]).replace("[", "")  # [#x] is an island with its brackets
_TRIMMED_CLOSING = (_CLASSES[_CLOSING] + _CLASSES[_QUOTE]).replace("]", "")
_NUMBER_SIGNS = ("#", "{}", "[]", "<>", "%")  # which stand for a number or a name
_STOPS = re.compile(r"[.,;!?…。，、；！？]")
# Texts of Latin letters and common punctuation, which most sentences are: they need no look at each character.
LATIN_TEXT = re.compile(r"[A-Za-zÀ-ÖØ-öø-ɏḀ-ỿ \t.,;!?'’\-–—]*")


@dataclass(frozen=True, slots=True)
class Island:
    """word: whether it stands in a sentence like a word; a sign without letters and digits does not."""

    start: int
    end: int
    word: bool = True


class _Table(dict[int, str]):
    """Code point -> class, for the languages of some scripts; None: of all scripts."""

    def __init__(self, scripts: frozenset[str] | None) -> None:
        super().__init__(_CLASS_OF)
        self._scripts = scripts

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if (category[0] in "LM" and category != "Lm") or character in "\u200c\u200d々ー":
            found = self._letter(character, category)
        elif category == "Nd":
            found = _DIGIT
        elif character.isspace() or ZERO_WIDTH.fullmatch(character) or character == SOFT_HYPHEN:
            found = _SPACE
        elif UNUSUAL.fullmatch(character):
            found = _PICTURE
        else:
            found = _OTHER
        self[code] = found
        return found

    def _letter(self, character: str, category: str) -> str:
        script = unicodedata.name(character, "").partition(" ")[0]
        if self._scripts is None or (category[0] == "M" and script in ("COMBINING", "VARIATION")):
            return _UNSPACED if is_unspaced_script(character) else _LETTER
        if script == "LATIN" or script in self._scripts or character in "ªº\u200c\u200d":
            return _UNSPACED if is_unspaced_script(character) else _LETTER
        return _FOREIGN


@cache
def _table(language: str) -> _Table:
    return _Table(_SCRIPTS_OF.get(language))


def reads_only_words(text: str) -> bool:
    """A quick test, of most sentences: True only without islands in any language."""
    return LATIN_TEXT.fullmatch(text) is not None and "." not in text[:-1] and not CAMEL_CASE.search(text)


def foreign_words(text: str, language: str) -> list[tuple[int, int]]:
    """The spans of words in letters that `language` is not written in, besides those within links, codes and such."""
    if LATIN_TEXT.fullmatch(text):
        return []
    inside = {at for span in protected_spans(text) for at in range(span.start, span.end)}
    words = _WITH_FOREIGN_LETTERS.finditer(text.translate(_table(base_language(language))))
    return [word.span() for word in words if word.start() not in inside]


def islands(text: str, language: str, taken: Iterable[tuple[int, int, str]] = ()) -> list[Island]:
    """The islands of a sentence in `language`, in order. Neighbours with a space between them are one island. taken:
    spans that the model does not read as they are, and the character that it reads instead (" " for none)."""
    if reads_only_words(text):
        return []
    table = _table(base_language(language))
    classes = list(text.translate(table))
    borders = set[int]()
    for start, end, read in taken:
        classes[start:end] = (" " if not read else read.translate(table)[0]) * (end - start)
        borders.update(range(start + 1, end))
    for span in protected_spans(text):
        cut = span.start in borders or span.end in borders
        if not cut and " " not in (classes[span.start], classes[span.end - 1]):
            classes[span.start : span.end] = _KNOWN * (span.end - span.start)
    for gendered in _GENDERED.finditer(text):
        classes[gendered.start()] = _JOINER
    if _UNSPACED in classes:
        for start, end in _names_in_signs(text, "".join(classes)):
            classes[start:end] = [_LETTER if own == _UNSPACED else own for own in classes[start:end]]
    joined = "".join(classes)
    found = [own for chunk in _CHUNK.finditer(joined) for own in _of_chunk(text, chunk)]
    if _PERCENT in classes or _SIGN in classes:
        found = sorted([*found, *(Island(*unit.span()) for unit in _LONE_UNIT.finditer(joined))], key=_start)
    return _merged(text, found, classes)


def _names_in_signs(text: str, classes: str) -> Iterator[tuple[int, int]]:
    read = zip(text, classes, strict=True)
    classes = "".join(own if own != _KNOWN else _LETTER if sign.isalnum() else _OTHER for sign, own in read)
    for match in _NAME_IN_SIGNS.finditer(classes):
        before, after = (text[slice(*match.span(group))] for group in ("before", "after"))
        in_brackets = any(closing_sign(sign) == after[0] != sign for sign in before)
        if in_brackets and not _ORDINARY.fullmatch(f"{match['before']}LL{match['after']}"):
            yield match.span("name")
        elif any(_same_signs(before[i:], after[: len(before) - i]) for i in range(len(before))):
            beside = classes[: match.start()][-1:] + classes[match.end() :][:1]
            if len(before.strip("\"'“”")) > 1 or not beside.strip(" "):
                yield match.span("name")


def _same_signs(before: str, after: str) -> bool:
    """Whether signs are those before a name, as they are or mirrored; punctuation only where there are two."""
    mirrored = sorted(closing_sign(sign) or sign for sign in before)
    doubled = (len(before) > 1 and before.isascii()) or before == ":"
    signs = doubled or any(_CLASS_OF.get(ord(sign), _SIGN) in "$%&" for sign in before)
    return signs and mirrored == sorted(after)


def _of_chunk(text: str, chunk: re.Match[str]) -> Iterator[Island]:
    """The islands of a part of a sentence without spaces."""
    classes, first, whole = chunk[0], chunk.start(), chunk.span()
    if EMOTICON.fullmatch(text, first, chunk.end()):
        yield Island(first, chunk.end(), word=False)
        return
    if _PICTURE in classes:
        around = _PICTURES_AROUND.fullmatch(classes)
        if around is None or not _PICTURED_WORD.fullmatch(around["word"]):
            yield _trimmed(text, *whole)
            return
        first, classes = first + around.start("word"), around["word"]
    written = text[first : first + len(classes)]
    ordinary = _ORDINARY.fullmatch(re.sub("K+", "L", classes)) and not _IDENTIFIER.search(written)
    ordinary = ordinary and not (_DIGIT in classes and _NUMBER_AND_UNIT.search(written))
    ordinary = ordinary or written.strip(".,;:!?()").lower() in _UNITS
    if _KNOWN in classes and (ordinary or not classes.strip(_KNOWN)):
        yield from _around_known(written, classes, first)
        return
    if ordinary or written in _COMPARISONS:
        slot = _SLOT.fullmatch(written)
        yield from [Island(first, first + slot.end(1))] if slot else ()
        return
    marked = _MARKED_WORD.fullmatch(classes)
    if marked and written[marked.start(1)] in _FOOTNOTE_SIGNS:
        yield Island(first + marked.start(1), first + marked.end(1), word=False)
    elif _FOREIGN_CHUNK.fullmatch(classes):
        yield from (Island(first + run.start(), first + run.end()) for run in _FOREIGN_WORDS.finditer(classes))
    else:
        yield _trimmed(text, *whole)


def _around_known(written: str, classes: str, first: int) -> Iterator[Island]:
    """Islands of known kinds with the letters, digits and signs that are joined to them; letters beside a tag are
    words, and the tag none."""
    for known in _KNOWN_RUN.finditer(classes):
        before, after = _JOINED_BEFORE.search(classes, 0, known.start()), _JOINED_AFTER.match(classes, known.end())
        left = 0 if before is None else len(before[0])
        right = 0 if after is None else len(after[0])
        opens, ends = written[known.start()] in _TAG_STARTS, written[known.end() - 1] in _TAG_ENDS
        start, end = known.start() - left * (not opens), known.end() + right * (not ends)
        start, end = _with_doubled_brackets(written, start, end)
        yield Island(first + start, first + end, word=not (opens and left) and not (ends and right))


def _with_doubled_brackets(written: str, start: int, end: int) -> tuple[int, int]:
    """[{name}] and (({name})), but only {name} of ({name})."""
    pairs = 0
    while start > pairs and closing_sign(written[start - pairs - 1]) == written[end + pairs : end + pairs + 1] != "":
        pairs += 1
    doubled = pairs > 1 or written[start - pairs : start] == "["
    return (start - pairs, end + pairs) if doubled else (start, end)


def _trimmed(text: str, start: int, end: int) -> Island:
    """A part without spaces, less a pair of brackets and of quotes around it and the punctuation of its sentence."""
    pairs = set[str]()
    while end - start > 1:
        opening, closing = text[start], text[end - 1]
        partner = closing_sign(opening)
        entity = opening == "&" and closing == ";"
        if (_STOPS.match(closing) and not entity) or (closing == ":" and text.count(":", start, end) == 1):
            end -= 1
        elif partner == closing and opening in _TRIMMED_OPENING:
            kind = _CLASS_OF[ord(opening)]
            if kind in pairs:
                break
            pairs.add(kind)
            start, end = start + 1, end - 1
        elif opening in _TRIMMED_OPENING and partner and partner not in text[start + 1 : end]:
            start += 1
        elif closing in _TRIMMED_CLOSING and not _opened(text, closing, start, end - 1):
            end -= 1
        else:
            break
    return Island(start, end, word=text[start:end] in _NUMBER_SIGNS or any(map(str.isalnum, text[start:end])))


def _opened(text: str, closing: str, start: int, end: int) -> bool:
    return any(closing_sign(opening) == closing for opening in text[start:end])


def _merged(text: str, found: Iterable[Island], classes: list[str]) -> list[Island]:
    """Neighbours are one island: a name of two words, a placeholder and its unit."""
    merged: list[Island] = []
    for island in found:
        start, end, word = island.start, island.end, island.word
        if end + 1 < len(text) and word and text[end] == " " and _unit_at(classes, end + 1):
            end += 2
        if start > 1 and word and text[start - 1] == " " and _sign_before(classes, start - 2):
            start -= 2
        before = merged[-1] if merged else None
        if before is not None and start <= before.end + 1 and _is_joint(text[before.end : start]):
            merged[-1] = Island(before.start, max(before.end, end), word or before.word)
        else:
            merged.append(Island(start, end, word))
    return merged


def _is_joint(between: str) -> bool:
    return between in ("", " ") or (len(between) == 1 and not between.isalnum())


def _unit_at(classes: list[str], at: int) -> bool:
    return classes[at] in "$%" and (at + 1 == len(classes) or classes[at + 1] not in "LDFX$%")


def _sign_before(classes: list[str], at: int) -> bool:
    return classes[at] == _SIGN and (at == 0 or classes[at - 1] == _SPACE)
