"""Random cuts into pieces: which ones, how often, and the same ones everywhere."""

from __future__ import annotations

import itertools
import math
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from models.tokenizer import SentencePieceTokenizer
from models.tokenizer.sentencepiece_tokenizer import BpeDropout, UnigramSampler
from training.config.run_config import TokenizerConfig
from training.data.tokenizer_training import fit_tokenizer

ROOT = Path(__file__).parents[3]
WORDS = ["der", "kleine", "hund", "rennt", "schnell", "über", "die", "wiese", "und", "katze", "hinter", "dem", "her"]
TEXTS = [" ".join(random.Random(i).choices(WORDS, k=7)) for i in range(200)]


def trained(algorithm: str) -> SentencePieceTokenizer:
    made = fit_tokenizer(TokenizerConfig(vocab_size=60, algorithm=algorithm), TEXTS, casefold=False)  # type: ignore[arg-type]
    assert isinstance(made, SentencePieceTokenizer)
    return made


def printed(algorithm: str) -> str:
    return str(trained(algorithm).sample(TEXTS, 0.3, 7, algorithm))


@pytest.mark.slow  # a process that imports PyTorch
@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_another_process_draws_the_same_cuts(algorithm: str) -> None:
    command = [
        sys.executable,
        "-c",
        f"from tests.models.tokenizer.test_subword_sampling import printed; print(printed({algorithm!r}))",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "5"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == printed(algorithm)


def test_segmentation_without_dropout_equals_sentencepiece() -> None:
    made = trained("bpe")
    strange = [*TEXTS, "zzz hund qxq", "  über   die ", ""]
    assert made.sample(strange, 0.0, 1) == [made.encode(text) for text in strange]


def test_large_alpha_gives_the_best_unigram_segmentation() -> None:
    made = trained("unigram")
    assert made.sample([*TEXTS, "zzz hund"], 200.0, 1, "unigram") == [made.encode(t) for t in [*TEXTS, "zzz hund"]]


def test_merge_dropout_rate_equals_sequential_draws() -> None:
    scores = {"ab": -1.0, "bc": -2.0, "abc": -3.0, "cd": -4.0, "abcd": -5.0, "bcd": -6.0}
    share, count, generator = 0.3, 40_000, random.Random(1)
    cutter = BpeDropout(scores, share)
    result = Counter(tuple(cutter.cut("abcd", generator)) for _ in range(count))
    p, q = share, 1 - share
    expected = {  # each factor is a merge that comes up, the best first
        ("abcd",): q * q * q + q * p * q * q + p * q * q * q + p * q * p * q * q + p * p * q * q * q,
        ("abc", "d"): q * q * p + p * q * q * p,
        ("ab", "cd"): q * p * q * p,
        ("ab", "c", "d"): q * p * p,
        ("a", "bcd"): p * q * p * q * p + p * p * q * q * p,
        ("a", "bc", "d"): p * q * p * p,
        ("a", "b", "cd"): p * p * q * p,
        ("a", "b", "c", "d"): p * p * p,
    }
    assert math.isclose(sum(expected.values()), 1.0)
    assert result.keys() == expected.keys()
    for cut, probability in expected.items():
        assert result[cut] / count == pytest.approx(probability, abs=5 * math.sqrt(probability / count)), cut


def test_segmentation_frequencies_equal_their_probabilities() -> None:
    scores = {"a": -1.0, "b": -1.5, "c": -2.0, "ab": -1.2, "bc": -2.2, "abc": -3.0}
    alpha, count, generator = 0.7, 40_000, random.Random(2)
    weights = {}
    for ends in itertools.product([False, True], repeat=2):
        places = [0, *(i + 1 for i in range(2) if ends[i]), 3]
        cut = tuple("abc"[i:j] for i, j in itertools.pairwise(places))
        weights[cut] = math.exp(alpha * sum(scores[piece] for piece in cut))
    cutter = UnigramSampler(scores, alpha)
    result = Counter(tuple(cutter.cut("abc", generator)) for _ in range(count))
    assert result.keys() == weights.keys()
    for cut, weight in weights.items():
        probability = weight / sum(weights.values())
        assert result[cut] / count == pytest.approx(probability, abs=5 * math.sqrt(probability / count)), cut
