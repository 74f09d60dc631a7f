"""How probable a given text is: one pass of a network over it (teacher forcing), and what was expected where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from models.backends.top_k import top_k as top
from models.decoding.logits_processors import suppress_tokens
from models.decoding.options import TokenRules
from models.interface import TeacherForced

WINDOW = 64  # places whose logits are in memory at once
CACHED = 8  # and as float64 in a core's cache: a third of the time of all at once
NEVER = -1e4  # nats: of -inf too the probability is 0, and 0 times this is 0


class Expected(NamedTuple):
    """What was expected at each of T places, and what came at the first n of them. Log-probabilities in nats.

    log_probabilities, ranks [n]: of the token that came; rank 1 is the likeliest. entropies [T], in nats, of the choice
    among the tokens that may come. tokens, token_log_probabilities [T, k]: the likeliest ones, best first; those that
    can never come have -inf. int64 for ranks and tokens, float64 for entropies, and for log-probabilities the table's.
    """

    log_probabilities: Tensor
    ranks: Tensor
    entropies: Tensor
    tokens: Tensor
    token_log_probabilities: Tensor


def log_probabilities(logits: Tensor, rules: TokenRules | None) -> Tensor:
    """logits [T, V], used up -> [T, V], float64, of tokens chosen by `rules`, as the decoder sums them; None: of the
    network itself, suppressed tokens and all."""
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
    """features [T, C] of a text as it was read; came: the tokens that came after the first n <= T places. Counted in
    float64, and on the CPU then."""
    outputs = torch.tensor(list(came), dtype=torch.long, device=features.device)
    parts = []
    for start in range(0, len(features), WINDOW):
        table = log_probabilities(network.project(features[start : start + WINDOW]), rules)
        parts.append(judged(table, outputs[start : start + WINDOW], top_k))
    return Expected(*(torch.cat(column).cpu() for column in zip(*parts, strict=True)))


def judged(table: Tensor, outputs: Tensor, top_k: int) -> Expected:
    """table [T, V] of log-probabilities; outputs [n <= T]: the tokens that came. Of equals none is likelier."""
    of_outputs = table[: len(outputs)].gather(1, outputs[:, None])
    ranks = 1 + (table[: len(outputs)] > of_outputs).sum(dim=1)
    count = min(top_k, table.size(1))
    likeliest, tokens = top(table, count) if count > 0 else table.topk(0, dim=1)
    return Expected(of_outputs[:, 0], ranks, entropies(table), tokens, likeliest)


def entropies(table: Tensor) -> Tensor:
    """Log-probabilities [T, V] -> nats [T], float64; where they do not sum to 1 they are made to first."""
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
    """source: what an encoder reads, () without one; target: all tokens of a text, start and end token included where
    it has these. The first token is given; the others came after it."""
    rows = [torch.tensor([list(ids)], dtype=torch.long, device=network.device) for ids in (source, target[:-1])]
    return expected(network, network.features(*rows)[0], target[1:], rules, top_k)
