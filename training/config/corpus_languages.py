"""The languages at the start of a multilingual run's corpus arguments.

de-en:pairs.tsv            one pair
de<>en:pairs.tsv           both directions
de-en,de-fr:memory.tmx     several pairs of one file"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

LanguageCodes = tuple[str, str]  # source, target
_CODE = r"[A-Za-z]{2,8}(?:_[A-Za-z0-9]{1,8})*"  # a hyphen would not show where the second code begins
_PAIR = rf"{_CODE}(?:-|<>){_CODE}"
_SPELLING = re.compile(rf"({_PAIR}(?:,{_PAIR})*):(.+)", re.DOTALL)
SPELLING = "SOURCE-TARGET:PAIRS, such as de-en:pairs.tsv (a region with an underscore: pt_BR-en:pairs.tsv)"


_CODES = [
    line.split()
    for line in (resources.files("training.config") / "language_codes.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
LANGUAGE_GROUPS = frozenset(code for star, *codes in _CODES if star == "*" for code in codes)
THREE_LETTERS = {two: tuple(three) for two, *three in _CODES if two != "*"}
TWO_LETTERS = {name: two for two, names in reversed(THREE_LETTERS.items()) for name in names}
# withdrawn codes, and those of ISO 639-2/B
_FORMER = {
    "iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro",
    "alb": "sq", "arm": "hy", "baq": "eu", "bur": "my", "chi": "zh", "cze": "cs", "dut": "nl", "fre": "fr",
    "geo": "ka", "ger": "de", "gre": "el", "ice": "is", "mac": "mk", "mao": "mi", "may": "ms", "per": "fa",
    "rum": "ro", "slo": "sk", "tib": "bo", "wel": "cy",
}  # fmt: skip


class CorpusLanguages(NamedTuple):
    """A corpus argument. pairs: (the languages in which the corpus is read, whether it also serves the other way
    around), as many as the argument names. corpus: the argument without them."""

    pairs: tuple[tuple[LanguageCodes, bool], ...]
    corpus: str

    @property
    def directions(self) -> Iterator[LanguageCodes]:
        for (source, target), both in self.pairs:
            yield source, target
            if both:
                yield target, source

    def in_both_directions(self) -> CorpusLanguages:
        return self._replace(pairs=tuple((languages, True) for languages, _ in self.pairs))

    def __str__(self) -> str:
        names = (pair_name(languages).replace("-", "<>" if both else "-") for languages, both in self.pairs)
        return f"{','.join(names)}:{self.corpus}"


def split_languages(argument: str) -> CorpusLanguages | None:
    """The parts of a corpus argument; None if it does not begin with languages."""
    match = _SPELLING.fullmatch(argument)
    if match is None:
        return None
    pairs = []
    for pair in match[1].split(","):
        both = "<>" in pair
        source, target = pair.split("<>" if both else "-")
        pairs.append(((source.replace("_", "-"), target.replace("_", "-")), both))
    return CorpusLanguages(tuple(pairs), match[2])


def pair_name(languages: LanguageCodes) -> str:
    """The name of a pair in configurations: de-en, pt_BR-en."""
    return "-".join(code.replace("-", "_") for code in languages)


def parse_pair_name(name: str) -> LanguageCodes | None:
    """The inverse of `pair_name`; None for anything else."""
    if not re.fullmatch(rf"{_CODE}-{_CODE}", name):
        return None
    source, target = name.replace("-", " ").replace("_", "-").split()
    return source, target


def missing_languages(option: str, argument: str) -> str:
    """The problem of an argument that does not begin with languages."""
    return f"{option} {argument} does not begin with its languages: write {SPELLING}"


@lru_cache(maxsize=1024)  # lines of a file share a few sets of codes
def find_language(wanted: str, present: tuple[str, ...]) -> str | None:
    """The code in `present` for `wanted`, ignoring case and hyphens; else the bare language, else its first region;
    else the same, with codes of three letters and withdrawn ones (deu, ger-DE, iw)."""
    for spelling in (_normalised, canonical):
        codes = {spelling(code): code for code in reversed(present)}  # the first of two spellings wins
        normal = spelling(wanted)
        language = normal.partition("-")[0]
        for candidate in (normal, language):
            if candidate in codes:
                return codes[candidate]
        regions = (codes[code] for code in reversed(codes) if code.partition("-")[0] == language)
        if normal == language and (region := next(regions, None)):
            return region
    return None


def _normalised(code: str) -> str:
    return code.strip().lower().replace("_", "-")


def canonical(code: str) -> str:
    """A code in lower case whose language has two letters if ISO 639 has such a code for it: de-de of ger_DE."""
    language, hyphen, rest = _normalised(code).partition("-")
    return TWO_LETTERS.get(language, _FORMER.get(language, language)) + hyphen + rest


def base_language(code: str) -> str:
    """A `canonical` code without script and region."""
    return canonical(code).partition("-")[0]
