"""The quick validation of a lyricist: a text read in strands side by side, each with a lead."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from models.networks.recurrent import RecurrentLanguageModel
from tests.models import tiny
from tests.training.small import lyricist
from training.evaluation.scores import negative_log_likelihood
from training.loop import tasks
from training.loop.tasks import LyricsTask


def nats(network: RecurrentLanguageModel, text: Tensor, skipped: int) -> float:
    """Of a text from a zero state, but for its first `skipped` predictions."""
    with torch.no_grad():
        logits = network(text[None, :-1])[0][0]
    return F.cross_entropy(logits[skipped:], text[1 + skipped :], reduction="sum").item()


@pytest.mark.parametrize("length", [100, 101, 102, 103])
def test_every_prediction_counts_once_behind_its_lead(length: int) -> None:
    """Three strands of ceil((length - 1 - 10) / 3) predictions; the first counts its lead of 10 as well."""
    network = tiny.recurrent()
    text = tiny.ids((length,), 3, high=tiny.TARGET)
    each = math.ceil((length - 11) / 3)
    ends = [10 + each, 10 + 2 * each, length - 1]
    starts = [0, each, 2 * each]
    expected = sum(
        nats(network, text[start : end + 1], 10 if start else 0) for start, end in zip(starts, ends, strict=True)
    )
    result, counted = negative_log_likelihood(network, text, 3, lead=10, window=21)
    assert counted == length - 1
    assert result == pytest.approx(expected, rel=1e-5)


def test_one_lane_covers_the_text() -> None:
    network = tiny.recurrent()
    text = tiny.ids((90,), 3, high=tiny.TARGET)
    assert negative_log_likelihood(network, text, 1, lead=5) == (pytest.approx(nats(network, text, 0)), 89)


def test_uniform_network_gives_every_character_the_same_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the task, with held-out text long enough for lanes."""
    network = tiny.recurrent()
    for parameter in network.parameters():
        torch.nn.init.zeros_(parameter)
    monkeypatch.setattr(tasks, "LEAD_CHARACTERS", 4)
    text = tiny.ids((200,), 3, high=tiny.TARGET)
    calls: list[int] = []
    whole = negative_log_likelihood

    def noted(
        network: RecurrentLanguageModel, text: Tensor, strands: int, lead: int, **options: Any
    ) -> tuple[float, int]:
        calls.append(strands)
        return whole(network, text, strands, lead, **options)

    monkeypatch.setattr(tasks, "negative_log_likelihood", noted)
    assert LyricsTask(network, text, text, lyricist()).validate() == pytest.approx(math.log(tiny.TARGET))
    assert calls == [200 // 16]
    assert LyricsTask(network, text, text[:31], lyricist()).validate() == pytest.approx(math.log(tiny.TARGET))
    assert calls == [200 // 16, 1]
