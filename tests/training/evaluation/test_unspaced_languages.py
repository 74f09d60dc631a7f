"""BLEU of languages that are written without spaces: of a perfect translation it is 100, and not 0."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.tiny import write_translator
from tests.training.small import CPU
from training.config.run_config import LoopConfig
from training.data.sentence_pairs import Pairs
from training.evaluation import bleu_validator, scores
from training.evaluation.bleu_validator import BleuValidator
from training.evaluation.model_outputs import load_model
from training.evaluation.scores import score_translator
from training.evaluation.text_metrics import tokenizer_for
from training.translation.distillation import Teacher

CHINESE = ["这只狗在厨房里睡觉。", "我们的爸爸吃了奶酪。", "厨房在哪里？"]
MECAB = find_spec("MeCab") is not None
TOKENIZERS = {
    "zh": "zh",
    "zh-Hant-TW": "zh",
    "cmn_Hans": "zh",
    "yue": "zh",
    "ja": "ja-mecab" if MECAB else "char",
    "jpn": "ja-mecab" if MECAB else "char",
    "th": "char",
    "lo": "char",
    "km": "char",
    "my": "char",
    "bo": "char",
    "de": "13a",
    "vi": "13a",
    "": "13a",
    None: "13a",
}


@pytest.mark.parametrize("target", TOKENIZERS)
def test_tokenizer_of_bleu_follows_the_target_language(target: str | None) -> None:
    assert tokenizer_for(target) == TOKENIZERS[target]


@pytest.mark.parametrize("target", ["zh", "ja", "th", "lo", "km", "my", "bo", "yue"])
def test_right_translations_without_spaces_validate_at_100(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    sentences = Pairs(["a b", "b a", "a a"], CHINESE, "held out")
    write_translator(tmp_path / "m", "aa", "bb")
    checkpoint, network = load_model(tmp_path / "m", CPU)
    checkpoint = replace(checkpoint, config=replace(checkpoint.config, target_language=target))
    monkeypatch.setattr(bleu_validator, "translate", lambda *_: CHINESE)
    assert BleuValidator(checkpoint, network, sentences, LoopConfig(choose_by="bleu"))(1.0).bleu == pytest.approx(100)
    monkeypatch.setattr(scores, "translate", lambda *_, **__: CHINESE)
    score = score_translator(checkpoint, network, sentences)
    assert score["bleu"] == pytest.approx(100)
    assert f"|tok:{tokenizer_for(target)}" in str(score["signature"])


def test_each_pair_of_a_multilingual_validation_has_the_tokenizer_of_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = [*CHINESE, "the dog sleeps in the kitchen.", "our father ate the cheese.", "where is the kitchen now?"]
    sentences = Pairs(["a b"] * 6, targets, "held out", parts=(("de-zh", 3), ("de-en", 3)))
    write_translator(tmp_path / "m", "aa", "bb")
    checkpoint, network = load_model(tmp_path / "m", CPU)
    checkpoint = replace(checkpoint, config=replace(checkpoint.config, target_language=None))
    monkeypatch.setattr(bleu_validator, "translate", lambda *_: targets)
    losses = lambda: [1.0, 2.0]  # noqa: E731
    quality = BleuValidator(checkpoint, network, sentences, LoopConfig(choose_by="bleu"), losses)(1.5)
    assert [round(part["bleu"]) for part in quality.by_pair.values()] == [100, 100]
    monkeypatch.setattr(scores, "translate", lambda checkpoint, network, sources, **_: targets[: len(sources)])
    signatures = [str(score_translator(checkpoint, network, part)["signature"]) for _, part in sentences.by_part()]
    assert [signature.split("|")[3] for signature in signatures] == ["tok:zh", "tok:13a"]


def test_a_teacher_of_chinese_chooses_the_hypothesis_next_to_the_reference(tmp_path: Path) -> None:
    write_translator(tmp_path / "m", "aa", "zh")
    translator = SimpleNamespace(checkpoint=load_model(tmp_path / "m", CPU)[0])
    hypotheses = ["一二三四五六七八", "这只狗在客厅里睡觉。"]
    assert Teacher(translator, 2).nearest(hypotheses, CHINESE[0]) == hypotheses[1]  # type: ignore[arg-type]
