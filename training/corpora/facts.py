"""What `inspect-corpus` finds out, as plain values: of pairs, and of a text for a lyricist."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from training.configuration.lyrics import LyricsConfig
from training.configuration.tokenizer import TokenizerConfig
from training.corpora import characters
from training.corpora.lengths import bin_width, histogram, lengths, quantiles
from training.corpora.pairs import Pairs
from training.vocabulary import fit

MOST_REPEATED = 5
TOKENIZED = 100_000  # pairs, at most, from which the subwords are estimated


def of_pairs(pairs: Pairs, vocabulary: int | None = None) -> dict[str, Any]:
    """Of the pairs that cleaning has left. vocabulary: also count subwords of a joint vocabulary of that size."""
    sides = {"source": pairs.sources, "target": pairs.targets}
    counted = {"words": _measured(sides, _words), "characters": _measured(sides, len)}
    if vocabulary is not None:
        counted["subwords"] = _subwords(sides, vocabulary)
    ratios = lengths(map(len, pairs.targets)) / lengths(map(len, pairs.sources))
    targets_of = Counter(source for source, _ in set(zip(pairs.sources, pairs.targets, strict=True)))
    return {
        "report": pairs.reported().as_json(),
        "first": {side: texts[0] for side, texts in sides.items()},
        "lengths": counted,
        "characters_per_source_character": quantiles(ratios),
        "repeated": {side: _repeated(texts) for side, texts in sides.items()},
        "sources_with_several_targets": sum(count > 1 for count in targets_of.values()),
        "inventory": {side: _inventory(pairs, texts) for side, texts in sides.items()},
    }


def of_text(text: str, origin: str) -> dict[str, Any]:
    """Of the whole text; `only_at_the_end`: what the share that training holds out has and the rest has not."""
    lines = text.removesuffix("\n").split("\n")
    sung = [line.strip() for line in lines if line.strip()]
    cut = len(text) - int(len(text) * LyricsConfig(recipe="").valid_share)
    unseen = Counter(text[cut:]).keys() - Counter(text[:cut]).keys()

    def first(character: str) -> str:
        return f"line {text.count(chr(10), 0, text.index(character)) + 1}"

    return {
        "origin": origin,
        "lines": len(lines),
        "blank_lines": len(lines) - len(sung),
        "lengths": {"characters": _measured({"lines": sung}, len)},
        "repeated": {"lines": _repeated(sung)},
        "inventory": {"text": characters.inventory(characters.count([text]), first)},
        "only_at_the_end": "".join(sorted(unseen)),
    }


def _inventory(pairs: Pairs, texts: list[str]) -> dict[str, Any]:
    def first(character: str) -> str:
        return pairs.place(next(index for index, text in enumerate(texts) if character in text))

    return characters.inventory(characters.count(texts), first)


def _words(text: str) -> int:
    return len(text.split())


def _measured(sides: dict[str, list[str]], measure: Callable[[str], int]) -> dict[str, Any]:
    """Quantiles and a histogram of each side, in bins of one width for both."""
    values = {side: lengths(map(measure, texts)) for side, texts in sides.items()}
    width = bin_width(list(values.values()))
    return {
        side: {"mean": round(float(np.mean(v)), 2) if len(v) else 0.0, **quantiles(v), "histogram": histogram(v, width)}
        for side, v in values.items()
    }


def _subwords(sides: dict[str, list[str]], size: int) -> dict[str, Any]:
    """Byte-pair encoding as training fits it, from evenly spaced pairs where there are very many."""
    step = max(1, len(sides["source"]) // TOKENIZED)
    some = {side: texts[::step] for side, texts in sides.items()}
    tokenizer = fit(TokenizerConfig(size=size), [*some["source"], *some["target"]], casefold=False)
    return _measured(some, lambda text: len(tokenizer.encode(text)))


def _repeated(texts: Sequence[str]) -> dict[str, Any]:
    counts = Counter(texts)
    most = [{"text": text, "count": count} for text, count in counts.most_common(MOST_REPEATED) if count > 1]
    return {"distinct": len(counts), "most": most}
