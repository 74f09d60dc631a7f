"""Verbatim overlap of a lyricist's output with its training text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.backends.select import Network
from models.checkpoint import Checkpoint
from training.evaluation.model_outputs import SAMPLE_TEMPERATURE, sample_lyrics

SAMPLES, CHARACTERS = 20, 500
SPAN_LENGTHS = (20, 50)
HASH_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that its powers are never 0 modulo 2^64
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Copied spans of texts. longest: the longest one. shares: span length -> copied share, None without spans."""

    longest: str
    shares: dict[int, float | None]
    characters: int


def measure_memorisation(
    checkpoint: Checkpoint, network: Network, train: str, valid: str, seed: int
) -> tuple[Overlap, Overlap | None]:
    """Overlap with the training text of 20 generated texts of 500 characters (fewer for a short corpus) at temperature
    0.8, each continuing a character of the corpus; and of as much held-out text, as the baseline of the language."""
    characters = max(1, min(CHARACTERS, len(train) // SAMPLES))
    openings = [train[i * len(train) // SAMPLES] for i in range(SAMPLES)]
    texts = sample_lyrics(checkpoint, network, openings, characters, SAMPLE_TEMPERATURE, seed)
    held_out = [valid]
    if len(valid) > SAMPLES * characters:
        held_out = [valid[i * len(valid) // SAMPLES :][:characters] for i in range(SAMPLES)]
    return corpus_overlap(texts, train), corpus_overlap(held_out, train) if valid else None


def corpus_overlap(texts: Sequence[str], corpus: str) -> Overlap:
    """Overlap of the texts with the corpus; bisection finds the longest span, since sub-spans are common too. Spans are
    compared by 64-bit hashes, which collide once in 10^9 measurements; the longest is compared exactly."""
    text_codes, corpus_codes = [_codes(text) for text in texts], _codes(corpus)
    shares = {}
    for length in SPAN_LENGTHS:
        copied = np.concatenate(_copied_spans(text_codes, corpus_codes, length))
        shares[length] = float(copied.mean()) if len(copied) else None
    low, high, longest = 0, min(max(map(len, texts)), len(corpus)), ""
    while low < high:
        length = (low + high + 1) // 2
        starts = zip(texts, map(np.flatnonzero, _copied_spans(text_codes, corpus_codes, length)), strict=True)
        spans = (text[i : i + length] for text, indices in starts for i in map(int, indices))
        span = next((span for span in spans if span in corpus), None)
        if span is None:
            high = length - 1
        else:
            low, longest = length, span
    return Overlap(longest, shares, sum(map(len, texts)))


def _codes(text: str) -> Words:
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32).astype(np.uint64) + np.uint64(1)


def _copied_spans(texts: Sequence[Words], corpus: Words, length: int) -> list[npt.NDArray[np.bool_]]:
    """For each text [length of text - length + 1]: whether the span at each position occurs in the corpus."""
    text_hashes = [_span_hashes(text, length) for text in texts]
    wanted = np.unique(np.concatenate(text_hashes))  # sorts the texts' hashes, far fewer than the corpus's
    hashes = _span_hashes(corpus, length)
    indices = np.searchsorted(wanted, hashes)
    inside = indices < len(wanted)
    present = wanted[np.unique(indices[inside][wanted[indices[inside]] == hashes[inside]])]
    return [np.isin(hashes, present) for hashes in text_hashes]


def _span_hashes(codes: Words, length: int) -> Words:
    """[N - length + 1]: polynomial hash modulo 2^64 of every span."""
    if len(codes) < length:
        return codes[:0]
    return np.correlate(codes, np.cumprod(np.full(length, HASH_BASE)), "valid").astype(np.uint64, copy=False)
