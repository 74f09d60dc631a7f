"""Pairs cut anew each epoch: reproducible, resumable, and still the same texts."""

from __future__ import annotations

from dataclasses import replace
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


@pytest.mark.parametrize(("algorithm", "share"), [("bpe", 0.2), ("unigram", 0.3)])
def test_each_epoch_samples_anew_and_reproducibly(algorithm: str, share: float) -> None:
    cut = segmentation(algorithm=algorithm, source_sampling=share, target_sampling=share)
    epochs = [cut.epoch(number) for number in (0, 1)]
    assert epochs[0] != epochs[1]
    assert cut.epoch(0) == epochs[0]  # whatever was drawn in between
    assert cut.epoch(1) == epochs[1]
    again = segmentation(algorithm=algorithm, source_sampling=share, target_sampling=share)
    assert again.epoch(1) == epochs[1]
    other = segmentation(algorithm=algorithm, source_sampling=share, target_sampling=share, seed=2)
    assert other.epoch(1) != epochs[1]


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_sampled_segmentation_decodes_to_the_same_text(algorithm: str) -> None:
    cut = segmentation(algorithm=algorithm, source_sampling=0.3, target_sampling=0.3)
    sources, targets = cut.epoch(0)
    for source, target, text, translation in zip(sources, targets, *cut.texts, strict=True):
        assert (source[-1], target[0], target[-1]) == (EOS, BOS, EOS)
        assert cut.checkpoint.tokenizers["source"].decode(source) == text
        assert cut.checkpoint.decode(target) == translation
        assert len({*source, *target} & {0, 1}) == 0
    assert sum(map(len, sources)) > 1.05 * sum(map(len, cut.best[0]))


def test_sampling_is_set_per_side() -> None:
    cut = segmentation(target_sampling=0.5)
    sources, targets = cut.epoch(3)
    assert sources == cut.best[0]
    assert targets != cut.best[1]
    assert segmentation().epoch(3) == segmentation().best


def test_sampling_share_of_left_out_merges() -> None:
    """One merge makes "ab": with a share of 0.3 left out, it stays in two pieces as often."""
    corpus = Pairs(["ab"] * 2000, ["ab"] * 2000)
    whole = segmentation(corpus, vocab_size=8).best[0][0]
    sampled = segmentation(corpus, vocab_size=8, source_sampling=0.3).epoch(0)[0]
    merges = len("▁ab") - (len(whole) - 1)
    assert merges >= 1
    kept = sum(source == whole for source in sampled) / 2000
    assert kept == pytest.approx(0.7**merges, abs=0.04)


def test_pairs_are_swapped_in_the_first_epochs_only() -> None:
    cut = segmentation(bidirectional_epochs=2)
    straight = list(zip(*cut.best, strict=True))
    turned = [(target[1:], (BOS, *source)) for source, target in straight]
    for number in (0, 1):
        results = list(zip(*cut.epoch(number), strict=True))
        assert all(pair in (a, b) for pair, a, b in zip(results, straight, turned, strict=True))
        assert 18 <= sum(pair == b for pair, b in zip(results, turned, strict=True)) <= 42  # of 60, p < 0.002 outside
        assert results == list(zip(*cut.epoch(number), strict=True))
    assert cut.epoch(0) != cut.epoch(1)
    assert cut.epoch(2) == cut.best


def test_too_long_pairs_are_left_out_of_every_epoch() -> None:
    corpus = Pairs([*SENTENCES.sources, "hund " * 50], [*SENTENCES.targets, "dog"])
    cut = segmentation(corpus, max_tokens=40, source_sampling=0.1)
    assert cut.report.dropped["over 40 tokens"].count == 1
    assert len(cut.epoch(0)[0]) == len(cut.texts[0]) == 60
    with pytest.raises(TrainingError, match=r"longer than 3 tokens: nothing is left"):
        segmentation(max_tokens=3)


@pytest.mark.slow
@pytest.mark.usefixtures("no_curves")
@pytest.mark.parametrize("number", [2, 5])
def test_a_run_with_every_regulariser_is_resumed_bit_for_bit(tmp_path: Path, number: int) -> None:
    changes: dict[str, Any] = {
        "tokenizer": TokenizerConfig(vocab_size=30, source_sampling=0.2, target_sampling=0.2),
        "network": {**translator().network, "tied": "all", "attention_dropout": 0.1, "activation_dropout": 0.1},
        "r_drop": 2.0,
        "r_drop_after_epochs": 1,
        "source_word_dropout": 0.1,
        "target_word_dropout": 0.1,
        "bidirectional_epochs": 2,
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
        translator(
            tokenizer=TokenizerConfig(
                kind="word", joint=False, algorithm="char", source_sampling=0.1, target_sampling=1.0
            ),  # type: ignore[arg-type]
            label_smoothing=1.0,
            r_drop=-1.0,
            source_word_dropout=-0.1,
            target_word_dropout=float("nan"),
            bidirectional_epochs=3,
        )
    message = str(excinfo.value)
    for part in (
        "algorithm must be bpe or unigram, not 'char'",
        "source_sampling needs a sentencepiece vocabulary, not one of kind word",
        "target_sampling must lie in [0, 1), not 1.0",
        "label_smoothing must lie in [0, 1), not 1.0",
        "r_drop must be at least 0, not -1.0",
        "source_word_dropout must lie in [0, 1), not -0.1",
        "target_word_dropout must lie in [0, 1), not nan",
        "bidirectional_epochs needs one vocabulary",
    ):
        assert message.count(part) == 1
    with pytest.raises(TrainingError, match="bidirectional_epochs must be at least 0, not -1"):
        translator(bidirectional_epochs=-1)
    with pytest.raises(TrainingError, match="r_drop_after_epochs must be at least 0, not -2"):
        translator(r_drop_after_epochs=-2)
    with pytest.raises(TrainingError, match="sources that end as targets do"):
        joint = replace(translator().tokenizer, joint=True, source_end="pad")
        translator(bidirectional_epochs=1, tokenizer=joint)
