"""The corpora that come with this project, by the names that corpus arguments have for them.

everyday            the training lines, in the languages of the run
everyday:de-en      the same, which also names the languages
everyday-valid, everyday-test    the lines that are held out
everyday-dictionary    words and short phrases
everyday-substituted   lines with another noun or adjective of the dictionary (`training.data.substitution`)
everyday-careless      every 16th line, its source in lower case and without a final stop
songs-zh, songs-en     texts for a lyricist
everyday-zh, …         the training lines of one language as a text, from which a lyricist learns the language"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import NamedTuple

from training.config.corpus_languages import LanguageCodes

ROOT = Path(__file__).parents[1] / "everyday"
_SONGS = {f"songs-{code}": ROOT.parent / "songs" / f"{code}.txt" for code in ("zh", "en")}
LANGUAGES = ("en", "de", "es", "zh")  # of every line
LINES_OF_VERSE = 8
FOLDERS = {"train": "train", "valid": "valid", "test": "test", "dictionary": "dictionary"} | dict.fromkeys(
    ("substituted", "careless"), "train"
)
"""Part of the corpus -> the folder with the lines of that part, or with the lines that the part is made from."""
_CODE = "|".join(LANGUAGES)
_SPELLING = re.compile(rf"everyday(?:-(?P<part>[a-z]+))?(?::(?P<source>{_CODE})-(?P<target>{_CODE}))?")


class ShippedCorpus(NamedTuple):
    """part: one of `FOLDERS`. languages: source and target, None where the argument does not name them."""

    part: str
    languages: LanguageCodes | None

    @property
    def files(self) -> list[Path]:
        """Tab-separated, one a topic, with a column for each language."""
        return sorted((ROOT / FOLDERS[self.part]).glob("*.tsv"))


def shipped_corpus(argument: str) -> ShippedCorpus | None:
    """The corpus that an argument names; None for all other arguments, also where a file has that name."""
    match = _SPELLING.fullmatch(argument)
    part = (match["part"] or "train") if match else ""
    if match is None or part not in FOLDERS or match["source"] == match["target"] is not None:
        return None
    languages = (match["source"], match["target"]) if match["source"] else None
    return None if Path(argument).exists() else ShippedCorpus(part, languages)


def shipped_text(argument: str) -> str | None:
    """The text that the corpus argument of a lyricist names; None for all other arguments, also where a file has that
    name."""
    if Path(argument).exists():
        return None
    if argument in _SONGS:
        return _SONGS[argument].read_text(encoding="utf-8")
    language = argument.removeprefix("everyday-")
    return _verses(LANGUAGES.index(language)) if argument == f"everyday-{language}" and language in LANGUAGES else None


def _verses(language: int) -> str:
    """The lines in a random order, some together; of Chinese with spaces for its punctuation, as songs have them."""
    rows = (
        row.split("\t")
        for file in ShippedCorpus("train", None).files
        for row in file.read_text("utf-8").splitlines()[1:]
    )
    lines = [row[1 + language] for row in rows]
    random.Random(0).shuffle(lines)
    if LANGUAGES[language] == "zh":
        lines = [" ".join(re.findall(r"\w+", line)) for line in lines]
    return "\n\n".join(
        "\n".join(lines[start : start + LINES_OF_VERSE]) for start in range(0, len(lines), LINES_OF_VERSE)
    )
