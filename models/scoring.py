"""Scores of a given text: log-probability, rank and entropy at each token, from one teacher-forced pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from models.backends.top_k import top_k as top
from models.decoding.logits_processors import suppress_tokens
from models.decoding.options import TokenRules
from models.interface import TeacherForced

WINDOW = 64  # positions whose logits are in memory at once
CACHED = 8  # rows that fit a core's cache as float64: a third of the time of all at once
NEVER = -1e4  # in place of -inf nats: exp gives 0 too, and 0 times this is 0 rather than NaN


class Expected(NamedTuple):
    """Scores at T positions, the first n of which have a known output token. log_probabilities (nats), ranks [n]: of
    the output token; rank 1 is the likeliest. entropies [T], nats: over the tokens that may be chosen. tokens,
    token_log_probabilities [T, k]: the top tokens, best first; suppressed ones have -inf. dtypes: int64 for ranks and
    tokens, float64 for entropies, the table's for log-probabilities."""

    log_probabilities: Tensor
    ranks: Tensor
    entropies: Tensor
    tokens: Tensor
    token_log_probabilities: Tensor


def log_probabilities(logits: Tensor, rules: TokenRules | None) -> Tensor:
    """logits [T, V], overwritten -> log-probabilities [T, V], float64, under `rules` as the decoder sums them; None: of
    the network itself, including suppressed tokens."""
    logits = logits.double()
    if rules is None or not rules.suppressed:
        return logits.log_softmax(dim=-1)
    suppressed = torch.tensor(rules.suppressed, dtype=torch.long, device=logits.device)
    shares = suppress_tokens(logits, suppressed, renormalise=rules.renormalise)
    found = logits.log_softmax(dim=-1)
    return found if shares is None else found - shares[:, None]


@torch.inference_mode()
def expected(
    network: TeacherForced, features: Tensor, came: Sequence[int], rules: TokenRules | None = None, top_k: int = 0
) -> Expected:
    """features [T, C]; came: output tokens of the first n <= T positions. Computed in float64, returned on the CPU."""
    outputs = torch.tensor(list(came), dtype=torch.long, device=features.device)
    parts = []
    for start in range(0, len(features), WINDOW):
        table = log_probabilities(network.project(features[start : start + WINDOW]), rules)
        parts.append(scores_of(table, outputs[start : start + WINDOW], top_k))
    return Expected(*(torch.cat(column).cpu() for column in zip(*parts, strict=True)))


def scores_of(table: Tensor, outputs: Tensor, top_k: int) -> Expected:
    """table [T, V] of log-probabilities; outputs [n <= T]. Tokens of equal probability share the best rank."""
    of_outputs = table[: len(outputs)].gather(1, outputs[:, None])
    ranks = 1 + (table[: len(outputs)] > of_outputs).sum(dim=1)
    count = min(top_k, table.size(1))
    likeliest, tokens = top(table, count) if count > 0 else table.topk(0, dim=1)
    return Expected(of_outputs[:, 0], ranks, entropies(table), tokens, likeliest)


def entropies(table: Tensor) -> Tensor:
    """Log-probabilities [T, V] -> entropies [T], float64 nats, renormalised where they do not sum to 1."""
    parts = []
    for rows in torch.split(table, CACHED):
        nats = rows.double()
        nats = nats - nats.logsumexp(dim=-1, keepdim=True)
        parts.append(-torch.linalg.vecdot(nats.exp(), nats.clamp_(min=NEVER)))
    return torch.cat(parts)


@torch.inference_mode()
def score(
    network: TeacherForced,
    source: Sequence[int],
    target: Sequence[int],
    rules: TokenRules | None = None,
    top_k: int = 0,
) -> Expected:
    """source: the encoder's ids, () without an encoder. target: all ids of a text, including start and end token if it
    has them; the first one is not scored."""
    rows = [torch.tensor([list(ids)], dtype=torch.long, device=network.device) for ids in (source, target[:-1])]
    return expected(network, network.features(*rows)[0], target[1:], rules, top_k)
