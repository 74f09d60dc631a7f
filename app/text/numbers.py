"""Numbers of a text that its translation must keep: each with its sign, and dates, times and ranges as one number. A
translation may write them in its own way: 1,000.00 as 1.000,00, 50% as 50 percent, 12.03.2024 as March 12, 2024,
14:30 as 2:30 pm, and 3 as three."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

from app.text.language_codes import base_language
from app.text.layout_characters import is_unspaced_script
from app.text.protected_spans import CURRENCY_CODES

_GROUP = "[.,'’٫٬\u00a0\u2009\u202f]"
_NUMBER = rf"\d+(?:{_GROUP}\d+|\x20\d{{3}}(?!\d))*"
_ONE_NUMBER = re.compile(rf"\d+(?:[.,٫]\d+)?|\d{{1,3}}(?:(?:{_GROUP}|\x20)\d{{3}})+(?:[.,٫]\d+)?")
_CURRENCY = "€$£¥₹₽₺₩₪฿₫₴₦₱₿¢"
_JOIN = r"(?:h(?=\d\d(?!\d))|[:/\-–—×]|(?<=\d)x|\x20[–—-]\x20)"
# A number, or several joined to a date, a time, a range or a ratio, with the signs and units beside it.
_SPAN = re.compile(
    rf"(?P<before>(?:US|[AC])?[{_CURRENCY}]\s?|§\s?|(?<!\w)(?:{CURRENCY_CODES})\s?|(?<![\w)\]])[-−±+](?=[\d{_CURRENCY}])[{_CURRENCY}]?|(?<!\w)[A-Z]{{1,6}}-?(?=\d))?"
    rf"(?P<digits>{_NUMBER}(?:{_JOIN}{_NUMBER})*)"
    rf"(?P<after>\s?(?:[%‰{_CURRENCY}]|(?:{CURRENCY_CODES})(?!\w)|°\s?[CFK]?(?!\w))(?!\d)"
    r"(?:/(?:k?m|k?g|h|min|s|t|l|m[²³])(?!\w))?)?"
    r"(?P<unit>\s?(?:km/h|kWh|mAh|[kMGT]B|[kMG]?Hz|[kcmµ]?m[²³]?|[kmµ]?g|[mcdk]?l|[kM]?W|ms|min|[hstVA]|ha|qm)(?!\w))?"
)
_TIMES = ("h", "min", "s", "ms")
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})|(\d{4})([./-])(\d{1,2})\6(\d{1,2})")
_CLOCK = re.compile(r"(\d{1,2})[:.h](\d{2})(?:[:.](\d{2}))?")
_AFTERNOON = re.compile(r"\s?p\.?m(?!\w)", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
JOINED_DIGITS = re.compile(r"\d+(?:[.,:/–-]\d+)+")
_MONTHS = 12
_WORDS_OF_A_RANGE = 3  # between its numbers, at most
_DECIMAL_POINTS = ".,٫"
_THOUSANDS = 3  # digits
_WITHOUT_SPACE = re.compile(r"[^ ]+")
_WORD = re.compile(r"[^\W\d_]+")
_CURRENCY_CODE = re.compile(CURRENCY_CODES)
_CODE_SIGNS = {"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥", "CNY": "¥", "RUB": "₽", "INR": "₹", "TRY": "₺"}
_NUMBERED = re.compile(
    r"(?:\b(?:Nr|No|Num|Núm|Art|Abs|Kap|Fig|Abb|Tab|Ziff|vol|Bd|pp?|S)\.|№|\b(?:Nummer|Gate|Kapitel|Seite|Zimmer|Raum|"
    r"Gleis|Teil|Stufe|Klasse|Artikel|Version|Level|Terminal|Schritt|Tabelle|Linie|[Nn]umber|[Cc]hapter|[Pp]age|[Rr]oom|"
    r"[Pp]latform|[Pp]art|[Aa]rticle|[Ss]ection|[Ss]tep|[Tt]able|[Ll]ine|[Cc]apítulo|[Pp]ágina|[Ss]ala|[Nn]úmero|[Pp]aso))"
    r"\x20?\Z"
)
_LONGEST_LABEL = 12  # characters
_LARGEST_WORD = 12  # numbers up to this one may be written as a word
# Words for a sign, by their beginnings.
_SIGN_WORDS = {
    "%": (
        *("percent", "per cent", "prozent", "proc", "pour cent", "por cien", "por cent"),
        *("процент", "відсот", "yüzde", "パーセント", "百分"),
    ),
    "‰": ("per mil", "promil", "pour mille", "por mil"),
    "€": ("eur", "евро", "євро", "ευρώ", "欧元", "歐元", "ユーロ", "유로"),
    "$": ("dol", "usd", "buck", "долл", "долар", "δολάρι", "美元", "ドル", "달러"),
    "£": ("pound", "pfund", "livre", "libra", "sterlin", "gbp", "pond", "фунт", "funt", "英镑"),
    "¥": ("yen", "yuan", "иен", "юан", "元", "円"),
    "§": ("sec", "par", "art", "abs", "stat", "пар", "стат", "条", "條"),
    "°": ("degree", "grad", "degré", "grado", "grau", "gradi", "градус", "stopni", "stup", "度"),
    "-": ("minus", "moins", "menos", "meno", "минус", "мінус", "below", "unter", "under", "零下"),
}


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a text, or several joined ones: a date, a time, a range. start, end: its span with sign and unit.
    core: its span without them. key: its digits, with a decimal point if that is beyond doubt; the keys of joined
    numbers in order, those of a date sorted. groups: the key of each joined number. signs: currency, %, ‰, °, §, and -
    for a minus. names: whether it follows a word that it numbers, such as "No.". unit: kg, or "" also of times, whose
    units become words."""

    start: int
    end: int
    key: str
    groups: tuple[str, ...]
    signs: str
    core: tuple[int, int]
    date: bool = False
    names: bool = False
    unit: str = ""

    @property
    def joined(self) -> bool:
        return len(self.groups) > 1

    def may_be_a_word(self) -> bool:
        """Whether a translation may write it as a word. One with a sign or a unit, and one that names a thing (Gate 2)
        is written in digits."""
        bare = not self.joined and not self.signs and (self.start, self.end) == self.core and not self.names
        return bare and len(self.key) <= 2 and int(self.key) <= _LARGEST_WORD


@dataclass(frozen=True, slots=True)
class LostNumber:
    """A number that a translation lacks, or has in pieces or without its sign at `place`."""

    number: Number
    place: tuple[int, int] | None = None


def digits(text: str) -> str:
    """The digits of a text as 0 to 9, for any script."""
    return "".join(str(unicodedata.digit(character, "")) for character in text)


def numbers_in(text: str, besides: Iterable[tuple[int, int]] = ()) -> list[Number]:
    """The numbers of a text, in order. besides: spans to skip."""
    taken = {at for start, end in besides for at in range(start, end)}
    found = (number for match in _SPAN.finditer(text) for number in _numbers_of(text, match))
    return [number for number in found if number.core[0] not in taken]


def _numbers_of(text: str, match: re.Match[str]) -> Iterator[Number]:
    start, end = match.span("digits")
    written = match["digits"]
    before, behind = match.start(), match.end()
    signs = _signs_of(f"{match['before'] or ''}{match['after'] or ''}")
    date = _DATE.fullmatch(written)
    if date:
        groups = tuple(part for part in date.groups() if part and part.isdigit())
        yield Number(before, behind, _key(sorted(groups, key=_plain)), groups, signs, (start, end), date=True)
        return
    clock = _CLOCK.fullmatch(written)
    afternoon = _AFTERNOON.match(text, end)
    if clock and (afternoon or ":" in written or "h" in written):
        groups = tuple(part for part in clock.groups() if part)
        if afternoon:
            groups = (str(int(groups[0]) % 12 + 12), *groups[1:])
        yield Number(before, behind, _key(groups), groups, signs, (start, end))
        return
    joined = [(start + part.start(), start + part.end()) for part in re.finditer(_NUMBER, written)]
    singles = [span for part in joined for span in _single_numbers(text, *part)]
    if len(joined) > 1 and len(singles) == len(joined):
        groups = tuple(_value(text[slice(*part)]) for part in joined)
        yield Number(before, behind, _key(groups), groups, signs, (start, end))
        return
    for number, (first, last) in enumerate(singles):
        key = _value(text[first:last])
        own = signs if (match["after"] and number == len(singles) - 1) or (match["before"] and number == 0) else ""
        is_last = number == len(singles) - 1
        outer = before if number == 0 else first, behind if is_last else last
        unit = (match["unit"] or "").strip() if is_last else ""
        yield Number(
            *outer,
            key,
            (key,),
            own,
            (first, last),
            names=_NUMBERED.search(text, max(0, first - _LONGEST_LABEL), first) is not None,
            unit="" if unit in _TIMES else unit,
        )


def _single_numbers(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """10 000 is one number, 10 2000 are two, and the digits of 1.2.3 are three."""
    if _ONE_NUMBER.fullmatch(text, start, end):
        yield start, end
        return
    for match in _WITHOUT_SPACE.finditer(text, start, end):
        whole = _ONE_NUMBER.fullmatch(text, *match.span()) is not None
        for part in [match] if whole else _DIGITS.finditer(text, *match.span()):
            yield part.span()


def _key(groups: Iterable[str]) -> str:
    return "|".join(map(_plain, groups))


def _value(written: str) -> str:
    """The digits of a number, with a point before its fraction: 1234.50 of 1.234,50. Three digits after the only
    separator are thousands in one language and a fraction in another: those have no point."""
    *whole, last = _DIGITS.findall(written)
    separators = re.findall(r"\D", written)
    if not separators or separators[-1] not in _DECIMAL_POINTS:
        return digits("".join((*whole, last)))
    thousands = len(last) == _THOUSANDS and separators.count(separators[-1]) == len(separators)
    point = "" if thousands and digits(whole[0]) != "0" else "."
    return digits("".join(whole)) + point + digits(last)


def _plain(group: str) -> str:
    """A part of a date, a time or a range in digits from 0 to 9, without leading zeros."""
    whole, point, fraction = group.partition(".")
    return (digits(whole).lstrip("0") or "0") + point + digits(fraction)


def _signs_of(written: str) -> str:
    minus = "-" * (written[:1] in ("-", "−"))
    codes = "".join(_CODE_SIGNS.get(code, "") for code in _CURRENCY_CODE.findall(written))
    return minus + codes + "".join(character for character in written if character in "%‰°§" or character in _CURRENCY)


def lost_numbers(
    wanted: Sequence[Number], text: str, present: Sequence[Number], target_language: str
) -> list[LostNumber]:
    """The numbers of `wanted` that the translation `text` with the numbers `present` lacks. Of two equal numbers of
    which the translation has one, the second counts as lost."""
    lost: list[LostNumber] = []
    unclaimed = _Unclaimed(present)
    rest: list[Number] = []
    for number in wanted:
        same = unclaimed.claimed(number)
        if same is None:
            rest.append(number)
            continue
        signless = any(sign not in same.signs and not _has_sign_word(text, sign) for sign in number.signs)
        if signless or not _has_unit(text, same, number.unit):
            lost.append(LostNumber(number, (same.start, same.end)))
    others = unclaimed.rest
    groups = Counter(_plain(group) for other in others for group in other.groups)
    words = Counter(_WORD.findall(text.lower()))
    for number in rest:
        needed = Counter(map(_plain, number.groups))
        if needed <= groups:
            groups -= needed
            torn = _torn(number, text) if number.joined else _without_its_sign(number, text, others)
            lost += [LostNumber(number, torn)] if torn else []
        elif number.date and _holds_date(number, text, others):
            groups -= needed
        elif not (number.may_be_a_word() and _became_word(number, text, words, target_language)):
            lost.append(LostNumber(number))
    return sorted(lost, key=lambda each: each.number.start)


def surplus_numbers(wanted: Sequence[Number], present: Sequence[Number]) -> list[Number]:
    """The numbers of `present` that are neither in `wanted` nor a part of a joined number in `wanted`."""
    groups = Counter(_plain(group) for number in wanted for group in number.groups)
    surplus, unclaimed = [], _Unclaimed(wanted)
    for number in present:
        same = unclaimed.claimed(number)
        if same is not None:
            groups -= Counter(map(_plain, same.groups))
            continue
        surplus.append(number)
    return [number for number in surplus if not Counter(map(_plain, number.groups)) <= groups or number.joined]


class _Unclaimed:
    """Numbers of a text, each of which stands for one equal number of another text. Numbers are equal that have the
    same key or, if one of them is joined, the same parts: 8.30 and 8:30."""

    def __init__(self, numbers: Sequence[Number]) -> None:
        self._numbers = numbers
        self._claimed = [False] * len(numbers)
        self._places: defaultdict[tuple[object, ...], deque[int]] = defaultdict(deque)  # by key, and by parts
        for place, number in enumerate(numbers):
            self._places[number.joined, number.key].append(place)
            self._places[number.joined, "", *_parts(number)].append(place)

    def claimed(self, number: Number) -> Number | None:
        """The first equal number, from now on claimed."""
        equal = self._places[number.joined, number.key], self._places[not number.joined, "", *_parts(number)]
        for places in equal:
            while places and self._claimed[places[0]]:
                places.popleft()
        first = min((places[0] for places in equal if places), default=None)
        if first is None:
            return None
        self._claimed[first] = True
        return self._numbers[first]

    @property
    def rest(self) -> list[Number]:
        return [number for number, claimed in zip(self._numbers, self._claimed, strict=True) if not claimed]


def _parts(number: Number) -> list[str]:
    return [_plain(part) for group in number.groups for part in group.split(".")]


def _holds_date(date: Number, text: str, present: Sequence[Number]) -> bool:
    """Whether the translation has the day and the year of a date as separate numbers; its month may then be a word."""
    joined = {at for found in JOINED_DIGITS.finditer(text) for at in range(*found.span())}
    groups = Counter(_plain(group) for other in present if other.core[0] not in joined for group in other.groups)
    parts = list(map(_plain, date.groups))
    year = max(parts, key=len)
    parts.remove(year)
    days = [part for part in parts if int(part) > _MONTHS] or parts
    return bool(groups[year]) and any(groups[day] for day in days)


def _torn(number: Number, text: str) -> tuple[int, int] | None:
    """The span in `text` of a joined number that has fallen into pieces: its parts in order without a word between
    them, or with two or three (a range such as "14 to 24" has one word), or joined to further digits. None if there is
    no such span."""
    parts = list(map(_plain, number.groups))
    places = list(_DIGITS.finditer(text))
    for first in range(len(places) - len(parts) + 1):
        run = places[first : first + len(parts)]
        if [_plain(place[0]) for place in run] != parts:
            continue
        words = sum(len(_WORD.findall(text, place.end(), after.start())) for place, after in pairwise(run))
        if words != 1 and words <= _WORDS_OF_A_RANGE:
            return run[0].start(), run[-1].end()
    for joined in JOINED_DIGITS.finditer(text):
        if Counter(parts) <= Counter(map(_plain, _DIGITS.findall(joined[0]))):
            return joined.span()
    return None


def _without_its_sign(number: Number, text: str, present: Sequence[Number]) -> tuple[int, int] | None:
    """The span of a joined number without a sign that a number with a sign has become part of: 27:00 for 27%."""
    if all(_has_sign_word(text, sign) or sign in text for sign in number.signs):
        return None
    parts = (other.core for other in present if other.joined and _plain(number.key) in map(_plain, other.groups))
    return next(parts, None)


def _has_unit(text: str, number: Number, unit: str) -> bool:
    """Whether a unit stands after a number, in Latin letters or, as км and 公斤, in those of another script."""
    after = text[number.core[1] :].lstrip()
    if after.lower().startswith(unit.lower()):
        return True
    return after[:1].isalpha() and "LATIN" not in unicodedata.name(after[0], "LATIN")


def _has_sign_word(text: str, sign: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in _SIGN_WORDS.get(sign, ()))


def _became_word(number: Number, text: str, words: Counter[str], language: str) -> bool:
    """Whether the text has a word for a small number; in a language without a table any text may."""
    base = base_language(language)
    forms = _number_words().get(base)
    if forms is None:
        return True
    for form in forms[int(number.key)]:
        stem = form.rstrip("*")
        if is_unspaced_script(stem[0]):
            if stem in text:
                return True
        elif any(word.startswith(stem) if form.endswith("*") else word == stem for word in words):
            return True
    return False


@cache
def _number_words() -> dict[str, list[list[str]]]:
    """language -> for each number from 0 its words; a word that ends with * stands for all that begin so."""
    lines = (files("app.text") / "number_words.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return {code: [column.split() for column in columns] for code, *columns in (line.split("\t") for line in lines)}
