"""Languages: their codes (ISO 639, with script or region if relevant), and their names in English, in Chinese and in
the language itself."""

from __future__ import annotations

import difflib
import re
from importlib.resources import files

# code -> names; a column may be empty, and the last has several names with | between
_TABLE = [
    (*line.split("\t"), "", "", "", "")[:5]
    for line in (files("models") / "languages.tsv").read_text(encoding="utf-8").splitlines()[1:]
]
ENGLISH_NAMES = {code: english for code, english, *_ in _TABLE if english}
CHINESE_NAMES = {code: chinese for code, _, chinese, *_ in _TABLE if chinese}
# A name shared by two codes (Norwegian, Filipino, simplified Chinese) maps to the later one.
CODES_BY_CHINESE_NAME = {
    name: code for code, _, chinese, others, _ in _TABLE for name in (chinese, *others.split()) if name
}
_CODES_BY_NAME = {name.lower(): code for code, *_, own in _TABLE for name in own.split("|") if name} | {
    name.lower(): code for code, name in ENGLISH_NAMES.items()
}
_LEAST_LIKENESS = 0.75  # of a misspelt name: "germen", "portugese"


def code_problem(code: str) -> str | None:
    """What is wrong with a language code, and the code that may be meant: the end of a sentence. None for a language of
    two or three letters, whatever its script and region, since people name languages of their own."""
    if re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*", code):
        return None
    meant = nearest_code(code)
    return f"must be a language code such as de or pt-BR, not {code!r}" + (f", did you mean {meant}?" if meant else "")


def code_of_name(name: str) -> str | None:
    """The code of a language's name in English, in Chinese or in the language itself, in any case."""
    return CODES_BY_CHINESE_NAME.get(name.strip()) or _CODES_BY_NAME.get(name.strip().lower())


def nearest_code(name: str) -> str | None:
    """The code of a language's name, which may be misspelt; None if no name is near."""
    near = difflib.get_close_matches(name.strip().lower(), _CODES_BY_NAME, 1, _LEAST_LIKENESS)
    return code_of_name(name) or (_CODES_BY_NAME[near[0]] if near else None)
