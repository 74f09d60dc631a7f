"""Several sentences in one teacher-forced pass, for word alignment and token probabilities. Only the cross-attention
layers of the given heads are captured. Without probabilities the pass stops after the last one."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from models.backends.torch.transformer_step import pad_rows
from models.decoding.options import TokenRules
from models.inspection.forced_pass import require_inspectable
from models.inspection.word_alignment import HeadPlace
from models.networks.transformer import Capture, PassEnded, Transformer
from models.scoring import WINDOW, log_probabilities


class ForcedSentence(NamedTuple):
    """source [S]: encoder ids; target [T + 1]: decoder ids, of which the first `given` are the prefix."""

    source: Sequence[int]
    target: Sequence[int]
    given: int


class BatchReading(NamedTuple):
    """Per sentence, on the CPU. maps: mean of the heads, [T, S], float64; nats: log-probabilities of the target tokens
    after the prefix. Either is empty if not requested."""

    maps: list[Tensor]
    nats: list[Tensor]


@torch.inference_mode()
def forced_batch(
    network: Transformer, sentences: Sequence[ForcedSentence], heads: Sequence[HeadPlace], rules: TokenRules | None
) -> BatchReading:
    """heads: averaged in the maps; empty: no maps. rules: the token rules of the probabilities; None: no probabilities.
    The numbers equal a pass over each sentence alone, up to the last bits (padding, fused kernels)."""
    require_inspectable(network)
    source = pad_rows([each.source for each in sentences], network.config.pad, network.device)
    inputs = pad_rows([each.target[:-1] for each in sentences], network.config.pad, network.device)
    memory, readable = network.encode(source)
    by_layer: dict[int, list[int]] = {}
    for layer, head in heads:
        by_layer.setdefault(layer, []).append(head)
    capture, nats = Capture(layers=by_layer, last=max(by_layer) if rules is None else None), list[Tensor]()
    with contextlib.suppress(PassEnded):
        features = network.decode(inputs, memory, readable, (None, capture))
        nats = [] if rules is None else _log_probabilities(network, features, sentences, rules)
    capture.maps(by_layer)
    maps = list[Tensor]()
    if heads:
        total = [weights[:, by_layer[layer]].double().sum(dim=1) for layer, weights in capture.weights.items()]
        mean = (torch.stack(total).sum(dim=0) / len(heads)).cpu()
        maps = [mean[i, : len(s.target) - 1, : len(s.source)] for i, s in enumerate(sentences)]
    return BatchReading(maps, nats)


def _log_probabilities(
    network: Transformer, features: Tensor, sentences: Sequence[ForcedSentence], rules: TokenRules
) -> list[Tensor]:
    """features [B, T, C] -> as `BatchReading.nats`."""
    counted = [(i, len(each.target) - each.given) for i, each in enumerate(sentences)]
    rows = torch.cat([features[i, sentences[i].given - 1 :][:count] for i, count in counted])
    came = [token for each in sentences for token in each.target[each.given :]]
    outputs = torch.tensor(came, dtype=torch.long, device=features.device)
    windows = zip(torch.split(rows, WINDOW), torch.split(outputs, WINDOW), strict=True)
    found = [log_probabilities(network.project(some), rules).gather(1, tokens[:, None]) for some, tokens in windows]
    return list(torch.split(torch.cat(found)[:, 0].cpu(), [count for _, count in counted]))
