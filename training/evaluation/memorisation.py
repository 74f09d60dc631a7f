"""How much of what a lyricist writes stands word for word in the text that it learnt from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.checkpoint import Checkpoint
from models.interface import Network
from training.evaluation.samples import TEMPERATURE, sample_lyrics

SAMPLES, CHARACTERS = 20, 500
SPAN_LENGTHS = (20, 50)
HASH_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that every power of it has an inverse modulo 2^64


@dataclass(frozen=True, slots=True)
class Overlap:
    """longest: the longest span found in the corpus. shares: span length -> the share of all spans of that length that
    stand in the corpus, None where no text is as long."""

    longest: str
    shares: dict[int, float | None]
    characters: int


def measure_memorisation(
    checkpoint: Checkpoint, network: Network, train: str, valid: str, seed: int
) -> tuple[Overlap, Overlap | None]:
    """Of 20 texts of 500 characters at temperature 0.8 (fewer where the corpus is shorter than these together), each
    behind a character of the corpus, and of as much held-out text, which nobody copied: what is common to both is the
    language's."""
    characters = max(1, min(CHARACTERS, len(train) // SAMPLES))
    openings = [train[place * len(train) // SAMPLES] for place in range(SAMPLES)]
    texts = sample_lyrics(checkpoint, network, openings, characters, temperature=TEMPERATURE, seed=seed)
    baseline = corpus_overlap(_baseline_texts(valid, characters), train) if valid else None
    return corpus_overlap(texts, train), baseline


def _baseline_texts(text: str, characters: int) -> list[str]:
    """As many pieces as there are samples, evenly spread, or the whole of a shorter text."""
    if len(text) <= SAMPLES * characters:
        return [text]
    return [text[i * len(text) // SAMPLES :][:characters] for i in range(SAMPLES)]


def corpus_overlap(texts: Sequence[str], corpus: str) -> Overlap:
    """What the texts have in common with the corpus. A longer common span holds shorter ones, so the longest is found
    by halving. Two different spans have one 64-bit hash once in 10^9 such measurements; the longest is looked at."""
    known, hashes = SpanHashes(corpus), [SpanHashes(text) for text in texts]
    shares = {}
    for length in SPAN_LENGTHS:
        found = np.concatenate(_spans_in_corpus(hashes, known, length))
        shares[length] = float(found.mean()) if len(found) else None
    low, high, longest = 0, min(max(map(len, texts)), len(corpus)), ""
    while low < high:
        middle = (low + high + 1) // 2
        places = zip(texts, map(np.flatnonzero, _spans_in_corpus(hashes, known, middle)), strict=True)
        spans = (text[p : p + middle] for text, found in places for p in map(int, found))
        span = next((span for span in spans if span in corpus), None)
        if span is None:
            high = middle - 1
        else:
            low, longest = middle, span
    return Overlap(longest, shares, sum(map(len, texts)))


class SpanHashes:
    """Polynomial hashes modulo 2^64 of every span of a text, by differences of those of its beginnings."""

    def __init__(self, text: str) -> None:
        codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32).astype(np.uint64) + np.uint64(1)
        self.powers = np.full(len(codes) + 1, HASH_BASE, dtype=np.uint64)
        self.powers[0] = 1
        np.cumprod(self.powers, out=self.powers)
        self.sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(codes * self.powers[:-1], dtype=np.uint64)])
        self.inverse = pow(int(HASH_BASE), -1, 1 << 64)

    def of(self, length: int) -> npt.NDArray[np.uint64]:
        """[N - length + 1], each as if its span stood at the beginning."""
        count = max(0, len(self.sums) - length)
        inverses = np.full(count, np.uint64(self.inverse), dtype=np.uint64)
        inverses[:1] = 1
        found: npt.NDArray[np.uint64] = (self.sums[length:] - self.sums[:count]) * np.cumprod(inverses, dtype=np.uint64)
        return found


def _spans_in_corpus(texts: Sequence[SpanHashes], corpus: SpanHashes, length: int) -> list[npt.NDArray[np.bool_]]:
    """For each text [its length - length + 1]: which of its spans of that length stand in the corpus."""
    wanted = [text.of(length) for text in texts]
    few = np.unique(np.concatenate(wanted))  # to be sorted, and not the many of the corpus
    there = np.zeros(len(few) + 1, dtype=np.bool_)
    every = corpus.of(length)
    places = np.searchsorted(few, every)
    inside = places < len(few)
    places, every = places[inside], every[inside]
    there[places[few[places] == every]] = True
    return [there[np.searchsorted(few, hashes)] for hashes in wanted]
