"""Which language each side of a corpus is in, by its sentences: where the order of two columns or of two files alone
says which is the source, it is easily the wrong one (Anki's decks begin with English, whatever is to be translated)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from training.corpora.jsonl import Languages
from training.corpora.pairs import Pairs

FEWEST = 10  # pairs, for a judgement
LOOKED_AT = 100  # of each side, evenly spread
CHARACTERS = 200  # of each of them


def facing(pairs: Pairs, languages: Languages, *, may_turn: bool) -> Pairs:
    """The same pairs. If their sides are the other way around, they are turned where the order was nobody's wish
    (`may_turn`), and a note in their report says so or asks."""
    if not are_reversed(pairs, languages):
        return pairs
    source, target = languages
    report = pairs.reported()
    if not may_turn:
        doubt = f"reads as {target} on its source side and as {source} on its target side"
        report.notes.append(f"{pairs.origin} {doubt}: are they the other way around?")
        return replace(pairs, report=report)
    found = f"holds {target} first and {source} second, and is read so"
    report.notes.append(f"{pairs.origin} {found}; if that is wrong, say --columns")
    report.turn()
    return replace(pairs, sources=pairs.targets, targets=pairs.sources, report=report)


def are_reversed(pairs: Pairs, languages: Languages) -> bool:
    """Whether, of all languages, the targets look most like the source language and the sources like the target's."""
    source, target = (code.lower().replace("_", "-").partition("-")[0] for code in languages)
    if len(pairs) < FEWEST or source == target:
        return False
    return _language_of(pairs.targets) == source and _language_of(pairs.sources) == target


def _language_of(texts: Sequence[str]) -> str:
    some = texts[:: -(-len(texts) // LOOKED_AT)]
    return str(_identifier().rank(" ".join(text[:CHARACTERS] for text in some))[0][0])


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # a second and 100 MB, and many corpora need none

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=False)
