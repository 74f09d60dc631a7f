"""Several sentences in one teacher-forced pass: word alignment and token probabilities.

Of cross-attention only the heads that align are taken, and no layer above them is computed unless probabilities are
wanted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from models.decoding.options import TokenRules
from models.inspection.forced_pass import require_inspectable
from models.inspection.word_alignment import HeadPlace
from models.networks.transformer import Capture, PassEnded, Transformer
from models.scoring import log_probabilities

PROJECTION_WINDOW = 64  # places whose logits are in memory at once


class ForcedSentence(NamedTuple):
    """source [S] and target [T + 1]: what the encoder reads, and what the decoder reads, then writes; the first `given`
    target tokens are its start."""

    source: Sequence[int]
    target: Sequence[int]
    given: int


class BatchReading(NamedTuple):
    """maps: of each sentence the mean of the heads, [T, S], float64; nats: of each, the log-probabilities of the target
    tokens behind the given ones. Either is empty where it was not asked for. On the CPU."""

    maps: list[Tensor]
    nats: list[Tensor]


@torch.inference_mode()
def forced_batch(
    network: Transformer, sentences: Sequence[ForcedSentence], heads: Sequence[HeadPlace], rules: TokenRules | None
) -> BatchReading:
    """heads: whose mean is wanted; none: no maps. rules: those by which tokens are chosen; None: no probabilities. The
    numbers are those of each sentence alone, but for what padding and fused kernels change in the last bits."""
    require_inspectable(network)
    source = _padded([each.source for each in sentences], network)
    inputs = _padded([each.target[:-1] for each in sentences], network)
    memory, readable = network.encode(source)
    by_layer: dict[int, list[int]] = {}
    for layer, head in heads:
        by_layer.setdefault(layer, []).append(head)
    capture, nats = Capture(layers=by_layer, last=max(by_layer) if rules is None else None), list[Tensor]()
    with contextlib.suppress(PassEnded):
        features = network.decode(inputs, memory, readable, (None, capture))
        nats = [] if rules is None else _log_probabilities(network, features, sentences, rules)
    capture.maps(by_layer)
    total = [weights[:, by_layer[layer]].double().sum(dim=1) for layer, weights in capture.weights.items()]
    maps = (torch.stack(total).sum(dim=0) / len(heads)).cpu() if heads else None
    return BatchReading(
        [] if maps is None else [maps[i, : len(s.target) - 1, : len(s.source)] for i, s in enumerate(sentences)], nats
    )


def _padded(rows: Sequence[Sequence[int]], network: Transformer) -> Tensor:
    """[B, T] on the network's device."""
    longest = max(map(len, rows))
    padded = [[*row, *[network.config.pad] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long, device=network.device)


def _log_probabilities(
    network: Transformer, features: Tensor, sentences: Sequence[ForcedSentence], rules: TokenRules
) -> list[Tensor]:
    """features [B, T, C]."""
    counted = [(i, len(each.target) - each.given) for i, each in enumerate(sentences)]
    rows = torch.cat([features[i, sentences[i].given - 1 :][:count] for i, count in counted])
    came = [token for each in sentences for token in each.target[each.given :]]
    outputs = torch.tensor(came, dtype=torch.long, device=features.device)
    found = [
        log_probabilities(network.project(rows[at : at + PROJECTION_WINDOW]), rules).gather(
            1, outputs[at : at + PROJECTION_WINDOW, None]
        )
        for at in range(0, len(rows), PROJECTION_WINDOW)
    ]
    return list(torch.split(torch.cat(found)[:, 0].cpu(), [count for _, count in counted]))
