"""The translator that comes with this project: everyday sentences in all directions between four languages."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import permutations

from training.config import recipes
from training.config.corpus_languages import LanguageCodes, pair_name
from training.config.run_config import MULTIPLE_LANGUAGES, TranslatorConfig
from training.config.shipped_corpora import LANGUAGES, ROOT
from training.data.corpus_loading import read_pairs
from training.data.run_corpora import joined_corpora
from training.data.sentence_pairs import Pairs
from training.data.substitution import dictionary_rows, substituted

CARELESS_SHARE = 0.06  # of the lines, whose source is read once more as people type it in a hurry
DIRECTIONS: tuple[LanguageCodes, ...] = tuple(permutations(LANGUAGES, 2))
_FINAL = re.compile(r"[.!?。！？]+$")


def everyday_translator() -> TranslatorConfig:
    config = recipes.TRANSLATORS["everyday"].config
    names = ",".join(map(pair_name, DIRECTIONS))
    multilingual = replace(config.multilingual, language_pairs=names)
    return replace(
        config, source_language=MULTIPLE_LANGUAGES, target_language=MULTIPLE_LANGUAGES, multilingual=multilingual
    )


def held_out_pairs(part: str) -> Pairs:
    """part: valid or test."""
    return joined_corpora({languages: read_pairs(f"everyday-{part}", languages) for languages in DIRECTIONS})


def training_pairs(seed: int = 1, substitutions: int = 2, *, dictionary: bool = True, lines: int | None = None) -> Pairs:
    """The corpus, the dictionary, lines with exchanged words, and some sources as people type them in a hurry.
    substitutions: new lines for each line of the corpus, at most. lines: of the corpus, drawn at random; None: all."""
    columns = {code: read_pairs("everyday", (code, _other(code))).sources for code in LANGUAGES}
    rows = list(zip(*(columns[code] for code in LANGUAGES), strict=True))
    if lines is not None:
        rows = random.Random(f"lines {seed}").sample(rows, lines)
    entries = dictionary_rows(ROOT / "dictionary") if dictionary else []
    more = [tuple(entry[1:5]) for entry in entries]
    more += substituted(rows, entries, seed, substitutions) if substitutions else []
    corpora = {}
    for source, target in DIRECTIONS:
        one, other = LANGUAGES.index(source), LANGUAGES.index(target)
        texts = [(row[one], row[other]) for row in (*rows, *more)]
        dice = random.Random(f"careless {seed} {source}")
        texts += [(_careless(s), t) for s, t in texts[: len(rows)] if dice.random() < CARELESS_SHARE]
        unique = list(dict.fromkeys(texts))
        corpora[source, target] = Pairs([s for s, _ in unique], [t for _, t in unique], "everyday")
    return joined_corpora(corpora)


def _other(code: str) -> str:
    return next(other for other in LANGUAGES if other != code)


def _careless(text: str) -> str:
    """In lower case and without a final stop."""
    return _FINAL.sub("", text).lower()
