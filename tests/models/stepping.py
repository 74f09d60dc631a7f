"""A Transformer stepped over its cache, beside its full pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from models.backends.torch.kv_cache import TransformerState
from models.interface import Decodable, Prompt
from models.networks.transformer import Transformer
from tests.models import tiny

ALL = pytest.mark.parametrize("options", tiny.OPTIONS.values(), ids=tiny.OPTIONS.keys())
TOLERANCE = {"rtol": 0, "atol": 1e-5}


def alone(network: Transformer, source: tuple[int, ...], target: tuple[int, ...]) -> Tensor:
    """Logits [V] after the last target token, from one full pass without padding."""
    with torch.inference_mode():
        return network(torch.tensor([source]), torch.tensor([target]))[0, -1]


PROMPTS = [
    Prompt((3, 4, 5, 6, 7), (1,)),
    Prompt((8,), (1, 9, 10, 11)),
    Prompt((3, 12, 2), (1, 4)),
    Prompt((14, 15, 16, 2, 9, 8, 7), (2,)),
]


def started(decodable: Decodable, prompts: list[Prompt], slots: int) -> tuple[TransformerState, list[list[int]]]:
    state = decodable.allocate(slots, 9, 16)
    decodable.prefill(state, range(len(prompts)), prompts)
    return state, [list(p.prefix) for p in prompts]


def check_step(
    network: Transformer,
    decodable: Decodable,
    state: TransformerState,
    sources: list[tuple[int, ...]],
    histories: list[list[int]],
) -> None:
    """One step over the last token of each history; its logits must equal a full pass over the history."""
    logits = decodable.step(state, torch.tensor([h[-1] for h in histories]))
    for row, source, history in zip(logits, sources, histories, strict=True):
        torch.testing.assert_close(row, alone(network, source, tuple(history)), **TOLERANCE)


def own_cache(state: TransformerState) -> Tensor:
    """[L, slots, T, 2, H, D]; a copy."""
    return torch.stack([layer.both for layer in state.own]).unflatten(-1, (2, 4, 4))


def source_cache(state: TransformerState) -> Tensor:
    return torch.stack([layer.both for layer in state.source]).unflatten(-1, (2, 4, 4))


RAGGED = [
    Prompt((3, 4, 5, 6, 7), (1,)),
    Prompt((8,), (1, 9, 10, 11, 3, 3)),
    Prompt((3, 12, 2), (1, 4)),
    Prompt((14, 15, 16, 2, 9, 8, 7, 3, 3, 4, 5), (2,)),
    Prompt((5, 5), (6, 7, 8)),
    Prompt((9,), (4,)),
]
CONTINUATIONS = [[1 + (5 * n + 3 * row) % 16 for n in range(7)] for row in range(len(RAGGED))]


def stepped(decodable: Any, prompts: list[Prompt], continuations: list[list[int]]) -> Tensor:
    """Logits [B, T, V]: of the last token of each prefix, then of each token of its continuation."""
    state = decodable.allocate(len(prompts) + 2, 12, 16)
    decodable.prefill(state, range(len(prompts)), prompts)
    feeds = [torch.tensor([p.prefix[-1] for p in prompts]), *torch.tensor(continuations).unbind(1)]
    return torch.stack([decodable.step(state, feed) for feed in feeds], dim=1)


def full(network: Transformer, prompts: list[Prompt], continuations: list[list[int]]) -> Tensor:
    results = []
    with torch.inference_mode():
        for prompt, tokens in zip(prompts, continuations, strict=True):
            target = torch.tensor([[*prompt.prefix, *tokens]])
            results.append(network(torch.tensor([prompt.source]), target)[0, len(prompt.prefix) - 1 :])
    return torch.stack(results)
