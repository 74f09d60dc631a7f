"""Optimizers and learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from training.config import OptimizerConfig


def build(config: OptimizerConfig, network: nn.Module) -> torch.optim.Optimizer:
    """Weight decay falls on matrices alone: norms and biases must stay free to move."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    if config.name == "sgd":
        return torch.optim.SGD(parameters, lr=config.rate)
    kind = torch.optim.AdamW if config.name == "adamw" else torch.optim.Adam
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return kind([g for g in groups if g["params"]], lr=config.rate, betas=config.betas, eps=config.epsilon)


def rate(config: OptimizerConfig, update: int, progress: float) -> float:
    """The learning rate of update 1, 2, ...; progress in [0, 1] is how much of the run is over."""
    warmup = max(config.warmup_updates, 1)
    if update < warmup:
        return config.rate * update / warmup
    if config.schedule == "inverse_sqrt":
        return config.rate * math.sqrt(warmup / update)
    if config.schedule == "cosine":
        falling = (1 + math.cos(math.pi * min(progress, 1.0))) / 2
        return config.rate * (config.final_fraction + (1 - config.final_fraction) * falling)
    return config.rate


def apply_rate(optimizer: torch.optim.Optimizer, value: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = value


def clip(parameters: Iterable[Tensor], norm: float) -> float:
    """Scale all gradients together to at most `norm` (0: leave them); the norm that they had."""
    had = nn.utils.clip_grad_norm_(parameters, norm if norm > 0 else math.inf)
    return float(had)
