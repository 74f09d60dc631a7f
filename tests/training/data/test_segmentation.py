"""Pairs as token ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models.checkpoint import Checkpoint
from tests.training.runs import Killed, assert_same_run, kill_at, translate
from tests.training.small import CPU, translator
from training.config.run_config import LoopConfig, TokenizerConfig
from training.data.segmentation import Segmentation
from training.data.sentence_pairs import Pairs
from training.data.tokenizer_training import BOS, EOS, fit_translator_tokenizers
from training.errors import TrainingError
from training.translator_run import build_translator, translator_metadata

SENTENCES = Pairs(
    [f"der kleine hund {i} rennt schnell über die wiese" for i in range(60)],
    [f"the little dog {i} runs quickly across the meadow" for i in range(60)],
)


def segmentation(corpus: Pairs = SENTENCES, *, seed: int = 1, **options: Any) -> Segmentation:
    tokenizer = {name: options.pop(name) for name in TokenizerConfig.__slots__ if name in options}
    tokenizer = TokenizerConfig(**{"vocab_size": 120, **tokenizer})
    config = translator(tokenizer=tokenizer, loop=LoopConfig(seed=seed), **options)
    tokenizers = fit_translator_tokenizers(tokenizer, corpus.sources, corpus.targets)
    metadata = translator_metadata(config, build_translator(config, tokenizers, CPU), tokenizers)
    return Segmentation(Checkpoint(Path("nowhere"), metadata, tokenizers), corpus, config)


def test_epochs_have_the_best_segmentation_with_start_and_end() -> None:
    cut = segmentation()
    assert cut.epoch(0) == cut.epoch(3) == cut.best
    for source, target, text, translation in zip(*cut.best, SENTENCES.sources, SENTENCES.targets, strict=True):
        assert (source[-1], target[0], target[-1]) == (EOS, BOS, EOS)
        assert cut.checkpoint.tokenizers["source"].decode(source) == text
        assert cut.checkpoint.decode(target) == translation


def test_too_long_pairs_are_left_out_of_every_epoch() -> None:
    corpus = Pairs([*SENTENCES.sources, "hund " * 50], [*SENTENCES.targets, "dog"])
    cut = segmentation(corpus, max_tokens=40)
    assert cut.report.dropped["over 40 tokens"].count == 1
    assert len(cut.epoch(0)[0]) == 60
    with pytest.raises(TrainingError, match=r"longer than 3 tokens: nothing is left"):
        segmentation(max_tokens=3)


@pytest.mark.slow
@pytest.mark.usefixtures("no_curves")
@pytest.mark.parametrize("number", [2, 5])
def test_a_run_with_every_dropout_is_resumed_bit_for_bit(tmp_path: Path, number: int) -> None:
    changes: dict[str, Any] = {
        "tokenizer": TokenizerConfig(vocab_size=30),
        "network": {**translator().network, "tied": "all", "attention_dropout": 0.1, "activation_dropout": 0.1},
    }
    translate(tmp_path / "whole", **changes)
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, number)
        with pytest.raises(Killed):
            translate(tmp_path / "parts", **changes)
    translate(tmp_path / "parts", resume=True, **changes)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_every_problem_of_the_options_is_named_at_once() -> None:
    with pytest.raises(TrainingError) as excinfo:
        TokenizerConfig(kind="words", joint=False, vocab_size=0)  # type: ignore[arg-type]
    for part in (
        "kind must be one of sentencepiece, word, character, not 'words'",
        "vocab_size must be at least 1, not 0",
    ):
        assert str(excinfo.value).count(part) == 1
    with pytest.raises(TrainingError) as excinfo:
        translator(label_smoothing=1.0, tokens_per_batch=0, max_tokens=float("nan"))
    for part in (
        "label_smoothing must lie in [0, 1), not 1",
        "tokens_per_batch must be at least 1, not 0",
        "max_tokens must be a whole number, not nan",
    ):
        assert str(excinfo.value).count(part) == 1
