"""Names of language codes, and equivalent codes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from models.language_names import CHINESE_NAMES, CODES_BY_CHINESE_NAME, ENGLISH_NAMES, code_problem, nearest_code

_LONGEST_NAME = 40

# Aliases: withdrawn codes that Google's clients still send, regions that imply a script, the macrolanguage Norwegian.
_ALIASES = {
    "fil": ("tl",), "tl": ("fil",), "in": ("id",), "iw": ("he",), "jw": ("jv",), "nb": ("no",), "no": ("nb",),
    "pb": ("pt-br",), "yue": ("zh-hant",), "zh": ("zh-hans",), "zh-chs": ("zh-hans",), "zh-cht": ("zh-hant",),
    "zh-cn": ("zh-hans",),
    "zh-hans": ("zh-cn",), "zh-hant": ("zh-tw", "zh-hk"), "zh-hk": ("zh-hant", "zh-tw"), "zh-mo": ("zh-hant", "zh-tw"),
    "zh-sg": ("zh-hans",), "zh-tw": ("zh-hant", "zh-hk"), "zt": ("zh-hant",),
}  # fmt: skip

# Of ISO 639-1, beside the languages that have a name here.
_OTHER_LANGUAGES = frozenset(
    re.findall(
        r"\w+",
        "aa ab ae ak av ay ba bi bm bo ce ch co cr cu cv dv ee ff fj gv ho hz ia ie ii ik io kg ki kj kl kr ks kv kw "
        "lg li lu mh na nd ng nr nv oj om os pi rn sc sg ss tn to ts tw ty ve za",
    )
)


def is_language(code: str, loaded: Iterable[str]) -> bool:
    """Whether a code is a language's, in any script and region, or near one of the loaded models'."""
    base = base_language(code)
    return base in ENGLISH_NAMES or base in _ALIASES or base in _OTHER_LANGUAGES or bool(closest_codes(code, loaded))


def language_name(code: str) -> str:
    """The English name of a code in any case; the code itself if unknown."""
    return ENGLISH_NAMES.get(code.lower(), code)


def code_meant_by(name: str) -> str | None:
    """The code of a language's name, which may be misspelt, in English, in Chinese or in the language itself; None for
    a code and where no name is near."""
    return nearest_code(name) if len(name) <= _LONGEST_NAME and code_problem(name) else None


def base_language(code: str) -> str:
    """A code without script and region, in lower case: "en" of "en-GB", "zh" of "zh_Hans"."""
    return _normalised_code(code).partition("-")[0]


def closest_codes(code: str, known: Iterable[str]) -> list[str]:
    """The codes of `known` equivalent to `code`, closest first: the code itself in any case, an alias, the language
    without script and region, and, for a code without either, a code that has one. Scripts are never interchanged:
    zh-Hant is not zh-Hans, though a model for zh may serve either."""
    wanted = _normalised_code(code.strip())
    base = base_language(wanted)
    ranked = [wanted, *_ALIASES.get(wanted, ()), base, *_ALIASES.get(base, ())]
    if base == "zh" and wanted != base:  # a bare zh may be in either script; with a region or a script it is in one
        ranked = [name for name in ranked if name == base or _chinese_script(name) == _chinese_script(wanted)]
    known = list(dict.fromkeys(known))
    closest = sorted(
        (name for name in known if _normalised_code(name) in ranked),
        key=lambda name: ranked.index(_normalised_code(name)),
    )
    return closest + [name for name in known if wanted == base == base_language(name) and name not in closest]


def _normalised_code(code: str) -> str:
    return code.lower().replace("_", "-")


def _chinese_script(code: str) -> str:
    return "hant" if code in {"zh-hant", "zh-tw", "zh-hk", "zh-mo", "zh-cht", "yue"} else "hans"


def google_code(code: str) -> str:
    """Google's spelling of a code: with regions instead of the scripts of Chinese."""
    return {"zh-hans": "zh-CN", "zh-hant": "zh-TW"}.get(_normalised_code(code), code)


def code_of_chinese_name(name: str) -> str:
    """The code of a Chinese name, with full-width or ASCII brackets; any other string is taken for a code."""
    return CODES_BY_CHINESE_NAME.get(name.strip().replace("（", "(").replace("）", ")"), name.strip())


def chinese_name(code: str) -> str:
    """The Chinese name of a code; the code itself if unknown."""
    return CHINESE_NAMES.get(code.lower()) or CHINESE_NAMES.get(base_language(code), code)
