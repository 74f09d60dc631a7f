"""What the decoder thought of each token that was written, by the probabilities that decoding goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.likeliest import top
from models.options import TokenRules
from models.suppression import log_probabilities


@dataclass(frozen=True, slots=True)
class Step:
    """log_probability: nats; -inf for a token that is never chosen. rank: how many tokens are likelier. entropy: nats,
    of the choice among the tokens that may be chosen. likeliest: (id, nats), best first."""

    token: int
    log_probability: float
    rank: int
    entropy: float
    likeliest: tuple[tuple[int, float], ...]


@torch.inference_mode()
def steps(logits: Tensor, outputs: Sequence[int], rules: TokenRules, top_k: int = 0) -> list[Step]:
    """logits [T, V] of the forced pass at each output token, outputs [T]. The log-probabilities sum to that of the
    hypothesis; where `rules.forced_end` made the end, the end is no output that counts: leave it out."""
    if len(logits) != len(outputs):
        raise ValueError(f"{len(logits)} rows of logits cannot tell of {len(outputs)} output tokens.")
    if not outputs:
        return []
    table = log_probabilities(logits, rules)
    own = table.gather(1, torch.tensor(list(outputs), device=table.device)[:, None])
    ranks = (table > own).sum(dim=-1).tolist()
    likeliest = alternatives(table, top_k)
    each = zip(outputs, own[:, 0].tolist(), ranks, entropies(table).tolist(), likeliest, strict=True)
    return [Step(*values) for values in each]


def entropies(table: Tensor) -> Tensor:
    """Log-probabilities [T, V] -> nats [T], float64; where they do not sum to 1 they are made to first."""
    probabilities = table.double().softmax(dim=-1)
    summed: Tensor = torch.special.entr(probabilities).sum(dim=-1)
    return summed


def alternatives(table: Tensor, count: int) -> list[tuple[tuple[int, float], ...]]:
    """The likeliest `count` of each row of log-probabilities [T, V], best first; suppressed ones are none."""
    if count < 1:
        return [()] * len(table)
    values, tokens = top(table, min(count, table.size(1)))
    pairs = zip(tokens.tolist(), values.tolist(), strict=True)
    return [tuple((i, v) for i, v in zip(*row, strict=True) if v > -torch.inf) for row in pairs]
