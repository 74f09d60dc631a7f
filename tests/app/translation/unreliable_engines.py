"""Engines that translate the words of a vocabulary and treat every other word badly, as a model may."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from app.engine.interface import AlignedWord, TranslationRequest
from models import checkpoint as checkpoints
from tests.app.api.fake_engine import translator
from tests.app.translation.word_engine import WORD, WordEngine

EDGES = ".,;:!?…\"'“”„()"
Spoilt = Callable[[str], list[str]]


class SpoilingEngine(WordEngine):
    """`spoil` makes of a word that the vocabulary does not have what the translation has for it: none, or several."""

    spoil: Spoilt

    def _pairs(self, request: TranslationRequest) -> tuple[list[str], tuple[AlignedWord, ...]]:
        written: list[str] = []
        alignment, at = [], 0
        for word in WORD.finditer(request.text):
            core = word[0].strip(EDGES)
            known = self.words.get(core.lower())
            targets = [word[0].replace(core, known)] if known else self.spoil(word[0]) if core else [word[0]]
            for target in targets:
                alignment.append(AlignedWord(at, at + len(target), *word.span(), 0.9))
                written.append(target)
                at += len(target) + 1
        return written, tuple(alignment)


class BabblingEngine(WordEngine):
    """Writes some words of the vocabulary in any order, whatever the source is, and aligns nothing."""

    def _pairs(self, request: TranslationRequest) -> tuple[list[str], tuple[AlignedWord, ...]]:
        rng = random.Random(request.text)
        return rng.choices(sorted(self.words.values()), k=rng.randint(0, 9)), ()


def dropped(word: str) -> list[str]:
    return []


def garbled(word: str) -> list[str]:
    """Repeated, cut, reversed, in two pieces, with a letter more or a letter doubled."""
    rng = random.Random(word)
    half = len(word) // 2
    ways = (
        [word, word],
        [word, "the", word, word],
        [word[:-1]] if len(word) > 1 else [],
        [word[::-1]],
        [word[:half], word[half:]] if half else [word * 2],
        [word[0] + word],
        [word[:half] + "q" + word[half:]],
        [word.swapcase()],
    )
    return rng.choice(ways)


def made_engine(name: str, pair: tuple[str, str], words: Mapping[str, str]) -> WordEngine:
    """exact: word by word, unknown words in capitals. dropping, garbling: of unknown words. knowing: garbling, by a
    model that says which words it knows. babbling: without alignment."""
    spoils = {"dropping": dropped, "garbling": garbled, "knowing": garbled}
    known = frozenset(checkpoints.WORD.findall(" ".join(words).casefold())) if name == "knowing" else None
    loaded = [replace(translator(*pair), max_source_tokens=10_000, source_words=known)]
    make = {"exact": WordEngine, "babbling": BabblingEngine}.get(name, SpoilingEngine)
    engine = make(loaded=loaded, words=dict(words), aligns=name != "babbling")
    if isinstance(engine, SpoilingEngine):
        engine.spoil = spoils[name]
    return engine


ENGINES = ("exact", "dropping", "garbling", "knowing", "babbling")
