"""What the decoder thought of each token that was written, by the probabilities that decoding goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.options import TokenRules
from models.scoring import Expected, told
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
    found = told(log_probabilities(logits, rules), torch.tensor(list(outputs), device=logits.device), top_k)
    columns = (found.log_probabilities, found.ranks - 1, found.entropies)
    each = zip(outputs, *(column.tolist() for column in columns), alternatives(found), strict=True)
    return [Step(*values) for values in each]


def alternatives(found: Expected) -> list[tuple[tuple[int, float], ...]]:
    """The likeliest tokens of each step with their nats, best first; suppressed ones are none."""
    pairs = zip(found.tokens.tolist(), found.token_log_probabilities.tolist(), strict=True)
    return [tuple((i, v) for i, v in zip(*row, strict=True) if v > -torch.inf) for row in pairs]
