"""The precision and slots of decoding on each device, and fewer slots where memory runs out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from models import checkpoint as checkpoints
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Prompt
from models.networks.loading import load_network
from tests.cuda_simulator import simulated_cuda
from training.config.run_config import LoopConfig
from training.data.sentence_pairs import Pairs
from training.evaluation import model_outputs
from training.evaluation.bleu_validator import BleuValidator
from training.evaluation.model_outputs import decode_in_memory, default_precision
from training.evaluation.scores import score_translator
from training.translation.line_translator import LineTranslator

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
TRANSLATOR, SOURCES = "tiny-de-en", ["ab ba", "b", "a b a b a b", "ba"]
RULES: Any = TokenRules(3)


class Decoding:
    """Stands for `decode`, with memory for `fits` slots; finishes two prompts, then runs out or finishes the rest."""

    def __init__(self, fits: int) -> None:
        self.fits, self.calls = fits, list[dict[str, Any]]()

    def __call__(self, network: Any, rules: Any, prompts: Any, options: Any, **named: Any) -> list[Any]:
        self.calls.append(named)
        named["progress"](2)
        if named["slots"] > self.fits:
            raise torch.OutOfMemoryError("CUDA out of memory")
        named["progress"](len(prompts) - 2)
        return [[] for _ in prompts]


@pytest.fixture
def _no_gpu_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)


@pytest.mark.usefixtures("_no_gpu_cache")
def test_slots_are_halved_until_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    decoding, finished = Decoding(300), list[int]()
    monkeypatch.setattr(model_outputs, "decode", decoding)
    prompts, options = [Prompt((3,), (2,))] * 9, [DecodingOptions()] * 9
    network: Any = None
    _, slots = decode_in_memory(
        network, RULES, prompts, options, slots=1024, precision="bf16", progress=finished.append
    )
    assert slots == 256
    assert [call["slots"] for call in decoding.calls] == [1024, 512, 256]
    assert sum(finished) == 9, "what was decoded again counts once"
    decoding.fits = 1
    with pytest.raises(torch.OutOfMemoryError):
        beams = [DecodingOptions(beam_size=5)] * 9
        decode_in_memory(network, RULES, prompts, beams, slots=12, precision="bf16")
    assert [call["slots"] for call in decoding.calls[3:]] == [12, 6, 5]


@pytest.mark.parametrize(("bf16", "expected"), [(True, "bf16"), (False, "fp32")])
def test_a_gpu_decodes_in_bf16_if_it_can(bf16: bool, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16)
    assert default_precision(CUDA) == expected
    assert default_precision(CPU) == "fp32"


def test_validation_and_scores_use_the_settings_of_the_device(
    tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = checkpoints.read(tiny_checkpoints / TRANSLATOR)
    pairs = Pairs(SOURCES, SOURCES, "made up")
    decoding = Decoding(1 << 20)
    monkeypatch.setattr(model_outputs, "decode", decoding)
    expected = {"cpu": ("fp32", 64), "cuda": ("bf16", 1024)}
    with simulated_cuda(), torch.inference_mode(False), torch.no_grad():
        for kind, settings in expected.items():
            network: Any = load_network(checkpoint, torch.device(kind))
            BleuValidator(checkpoint, network, pairs, LoopConfig(choose_by="bleu"))(1.0)
            monkeypatch.setattr("training.evaluation.scores.reference_nats", lambda *arguments: 1.0)
            score = score_translator(checkpoint, network, pairs)
            assert score.get("precision", "fp32") == settings[0]
            assert {(call["precision"], call["slots"]) for call in decoding.calls} == {settings}
            decoding.calls.clear()


def test_a_translator_keeps_the_slots_that_fitted(
    tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch, _no_gpu_cache: None
) -> None:
    decoding = Decoding(100)

    def answers(*arguments: Any, **named: Any) -> list[Any]:
        decoding(*arguments, **named)
        hypothesis = SimpleNamespace(tokens=[], log_probability=0.0, score=0.0, finished=True)
        return [[hypothesis] for _ in arguments[2]]

    monkeypatch.setattr(model_outputs, "decode", answers)
    translator = LineTranslator([tiny_checkpoints / TRANSLATOR], CPU, "fp32")
    for _ in range(2):
        translator.translate(SOURCES, DecodingOptions())
    assert [call["slots"] for call in decoding.calls] == [128, 64, 64]
