"""Layout characters: characters without words, which a translation keeps in place. A break ends a sentence: a line end,
a tab, a control character, an ideographic space, or three or more spaces between columns. A mark is within a sentence:
an emoji or similar sign, any space other than a single plain one, a zero-width character."""

from __future__ import annotations

import re
import unicodedata

_WIDE_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"  # \u3000, as wide as an ideograph, is a break
_SPACES = f" {_WIDE_SPACES}"
_ZERO_WIDTH = "\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e01ef"
# Excludes \u2122 and the like, which are part of words unless a variation selector makes them emoji.
_PICTURES = (
    "\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u2500-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u20e3\u3030\u303d\U0001f000-\U0001faff"
)
EMOJI = f"(?:[0-9#*]\ufe0f?\u20e3|[\u00a9\u00ae\u203c\u2049\u2122\u2139\u3297\u3299]\ufe0f|[{_PICTURES}])"
_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028\u2029\u3000"

BREAK = re.compile(f"(?:[{_CONTROLS}]|[{_SPACES}]{{3,}})[{_CONTROLS}{_SPACES}]*")
# A line end within a sentence takes the quote signs of the next line with it.
MARK = re.compile(f"(?:[{_SPACES}{_ZERO_WIDTH}]|{EMOJI}|\r?\n(?:[ \t]*>)*[ \t]*)+")
UNUSUAL = re.compile(f"[{_WIDE_SPACES}{_ZERO_WIDTH}\u00ad\n]|  |{EMOJI}")  # rare in sentences
WIDE_SPACE = re.compile(r"(?! (?!\s))\s+")  # any white space except a single plain space
MODEL_LAYOUT = re.compile(rf"[\s{_ZERO_WIDTH}{_PICTURES}]+")  # may be generated although the model's input has none
ZERO_WIDTH = re.compile(f"[{_ZERO_WIDTH}]+")
SOFT_HYPHEN = "\u00ad"
JOINERS = "\u200c\u200d"
# Punctuation that cannot follow a space: removing a mark before it also removes the space.
CLOSING_PUNCTUATION = frozenset(",.;:!?…)]}»”’%，。；：！？、）】》」』")
_PARTNERS = dict(zip("([（「『《【〈{<“„‘‚«‹\"'`", ")]）」』》】〉}>””’’»›\"'`", strict=True))
# Thai, Lao and Tibetan, Burmese, Khmer; Chinese and Japanese with their punctuation, forms and later blocks. Between
# and after them are alphabets: Korean, Vai, Latin ligatures, Arabic forms, mathematical letters.
_UNSPACED_SCRIPTS = (
    *((0x0E00, 0x1000), (0x1000, 0x10A0), (0x1780, 0x1800), (0x2E80, 0xA4D0), (0xF900, 0xFB00), (0xFE10, 0xFE70)),
    *((0xFF00, 0xFFF0), (0x16FE0, 0x1D000), (0x20000, 0x32000)),
)


def closing_sign(sign: str) -> str | None:
    """The partner of an opening bracket or quote: of brackets that are not listed the next character, as of ⟦ and ⟧."""
    return _PARTNERS.get(sign) or (chr(ord(sign) + 1) if unicodedata.category(sign) == "Ps" else None)


def closes_brackets(text: str) -> bool:
    """Whether a text has the partner of each of its brackets."""
    opened = sorted(filter(None, (closing_sign(sign) for sign in text if unicodedata.category(sign) == "Ps")))
    return opened == sorted(sign for sign in text if unicodedata.category(sign) == "Pe")


def has_letters(text: str) -> bool:
    return any(character.isalpha() for character in text)


def is_unspaced_script(character: str) -> bool:
    code = ord(character)
    return code >= 0x0E00 and any(first <= code < after for first, after in _UNSPACED_SCRIPTS)


def is_spelling_joiner(text: str, at: int) -> bool:
    """Whether the joiner at `at` is part of a word, as in Persian or in Indic scripts."""
    return 0 < at < len(text) - 1 and all(
        ord(character) >= 0x0590 and unicodedata.category(character)[0] in "LM" and character not in "\ufe0f\ufe0e"
        for character in (text[at - 1], text[at + 1])
    )
