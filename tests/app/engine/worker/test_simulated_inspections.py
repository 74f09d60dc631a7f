"""Inspections on a simulated GPU (`tests.cuda_simulator`): what they show is what the CPU shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from app.engine.protocol import messages as m
from app.engine.worker.scheduler import Scheduler
from models.decoding.options import DecodingOptions
from models.inspection.results import AttentionMap
from models.inspection.selection import GateSelection, Head, Row, WalkthroughFocus
from tests.app.engine.scheduler_driver import FAR, run
from tests.app.engine.worker.test_simulated_gpus import serving
from tests.cuda_simulator import simulated_cuda
from tests.request_builders import decode_message, inspect_attention

TRANSLATOR, LYRICIST = "tiny-de-en", "tiny-lyrics"
SENTENCE: dict[str, Any] = {
    "number": 1,
    "model": TRANSLATOR,
    "source": [5, 6, 8, 3],
    "inputs": [2, 4, 7],
    "outputs": [4, 7, 3],
    "source_units": [0, 1, 1, None],
    "target_units": [0, 1, None],
    "ends": 1,
    "decoding": DecodingOptions(max_new_tokens=6),
}
PAIRS = [
    m.TokenPair([5, 6, 3], [2, 4, 7, 3], 1, [0, 1, None], [0, 1, None]),
    m.TokenPair([9, 3], [2, 4, 7, 3], 1, [0, None], [0, 1, None]),
]
INSPECTIONS: dict[str, Any] = {
    "maps": inspect_attention(**SENTENCE, kinds=("encoder", "decoder", "cross")),
    "findings": inspect_attention(
        **SENTENCE, kinds=("encoder", "cross"), include=("stats", "rollout", "alignment", "steps"), top_k=3
    ),
    "scores of one row": inspect_attention(**SENTENCE, row=Row("cross", 1, 2, 1)),
    "masked heads": inspect_attention(**SENTENCE, masked=(Head("cross", 0, 1), Head("encoder", 1, 3))),
    "walkthrough": m.InspectWalkthrough(1, TRANSLATOR, [5, 6, 3], [2, 4, 7], WalkthroughFocus()),
    "alignment": m.AlignPairs(1, TRANSLATOR, PAIRS, nats=True),
    "gates": m.InspectGates(1, LYRICIST, [7, 11, 8, 3, 5], GateSelection(units=4), 3, 5000),
    "scores": m.ScoreTokens(1, TRANSLATOR, [5, 6, 3], [2, 4, 7, 3], 3, True),
    "scores of lyrics": m.ScoreTokens(1, LYRICIST, [], [7, 11, 8], 2, False),
}


def shown(scheduler: Scheduler, inspection: Any) -> Any:
    """The answer, while other requests of both models run."""
    scheduler.handle(decode_message(8, TRANSLATOR, [5, 6, 3], [2], FAR, 12))
    scheduler.handle(decode_message(9, LYRICIST, [], [3], FAR, 12, temperature=0.8, seed=2))
    scheduler.step()
    assert scheduler.handle(inspection) == []
    answers = {reply.id: reply for reply in run(scheduler)}
    assert isinstance(answers[8], m.Finished)
    assert isinstance(answers[9], m.Finished)
    assert not isinstance(answers[1], m.Failed), answers[1]
    return answers[1]


def numbers(value: Any) -> Any:
    """The answer as plain values, with arrays in place of packed floats."""
    if isinstance(value, m.FloatTensor):
        return np.frombuffer(value.data, dtype="<f4").reshape(value.shape)
    if isinstance(value, AttentionMap):
        return np.frombuffer(value.weights, dtype="<f4").reshape(value.shape)
    if isinstance(value, msgspec.Struct):
        return {name: numbers(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {name: numbers(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [numbers(part) for part in value]
    return value


def assert_close(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_close(one[name], other[name])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_close(left, right)
    elif isinstance(one, np.ndarray):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-5, nan_ok=True)
    else:
        assert one == other


@pytest.fixture(scope="module")
def on_gpu(tiny_checkpoints: Path) -> dict[str, Any]:
    with simulated_cuda():
        scheduler = serving("cuda:0", tiny_checkpoints, slots=2)
        return {name: numbers(shown(scheduler, inspection)) for name, inspection in INSPECTIONS.items()}


@pytest.fixture(scope="module")
def on_cpu(tiny_checkpoints: Path) -> dict[str, Any]:
    scheduler = serving("cpu", tiny_checkpoints, slots=2)
    return {name: numbers(shown(scheduler, inspection)) for name, inspection in INSPECTIONS.items()}


@pytest.mark.parametrize("name", INSPECTIONS)
def test_an_inspection_on_a_gpu_shows_what_the_cpu_shows(
    name: str, on_gpu: dict[str, Any], on_cpu: dict[str, Any]
) -> None:
    assert_close(on_gpu[name], on_cpu[name])
