"""Probabilities among the tokens that may be chosen: those by which everything is decoded, and shown."""

from __future__ import annotations

import torch
from torch import Tensor

from models.likeliest import largest, log_total
from models.options import TokenRules

MOST_TAKEN = 1 - 2**-24  # of the probability, by suppressed tokens: float32 leaves the others no less


def suppress(logits: Tensor, suppressed: Tensor, *, renormalise: bool) -> Tensor | None:
    """Written into logits [B, V]. Without renormalising: what the log-probabilities of the others, taken among
    themselves, are too large by, [B], float64."""
    if renormalise:
        logits.index_fill_(1, suppressed, -torch.inf)
        return None
    whole = log_total(logits, largest(logits), keep=True)
    taken = logits[:, suppressed].sub_(whole[:, None]).double().exp_().sum(dim=-1)
    logits.index_fill_(1, suppressed, -torch.inf)
    return -taken.clamp_(max=MOST_TAKEN).neg_().log1p_()


def log_probabilities(logits: Tensor, rules: TokenRules) -> Tensor:
    """logits [N, V] -> nats [N, V], float32, as `models.decoding` counts them: -inf for suppressed tokens. An end that
    is forced (`rules.forced_end`) costs nothing there; here it has the probability that the network gives it."""
    kept, shares = logits.float().clone(), None
    if rules.suppressed:
        suppressed = torch.tensor(rules.suppressed, dtype=torch.long, device=logits.device)
        shares = suppress(kept, suppressed, renormalise=rules.renormalise)
    kept -= log_total(kept, largest(kept), keep=True)[:, None]
    return kept if shares is None else (kept - shares[:, None]).float()
