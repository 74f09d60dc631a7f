"""One layer of a recurrent network over whole sequences, in the fastest kernels that there are here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from models import gru_scan
from models.cells import CellKind

Weights = tuple[Tensor, Tensor, Tensor, Tensor]  # input [G·N, I], its bias, recurrent [G·N, N], its bias
PYTORCH: dict[CellKind, Callable[..., Any]] = {"rnn": torch.rnn_tanh, "gru": torch.gru, "lstm": torch.lstm}


def layer(
    cell: CellKind, features: Tensor, hidden: Tensor, memory: Tensor, weights: Weights
) -> tuple[Tensor, Tensor, Tensor]:
    """features [B, T, I] from the state [B, N] -> features [B, T, N], the hidden state and the memory after."""
    library = gru_scan.kernels(features) if cell == "gru" else None
    if library is None:
        return _pytorch(cell, features, hidden, memory, weights)
    weight, bias, recurrent, recurrent_bias = weights
    projected = F.linear(features.transpose(0, 1), weight, bias)  # time first: a step is then in one piece
    states = gru_scan.gru(library, projected, hidden, recurrent, recurrent_bias)
    return states.transpose(0, 1), states[-1], states[-1]


def _pytorch(
    cell: CellKind, features: Tensor, hidden: Tensor, memory: Tensor, weights: Weights
) -> tuple[Tensor, Tensor, Tensor]:
    weight, bias, recurrent, recurrent_bias = weights
    packed = (hidden[None], memory[None]) if cell == "lstm" else hidden[None]
    parameters = [weight, recurrent, bias, recurrent_bias]
    options = {"has_biases": True, "num_layers": 1, "dropout": 0.0, "train": True, "bidirectional": False}
    features, *last = PYTORCH[cell](features, packed, parameters, **options, batch_first=True)
    return features, last[0][0], last[-1][0]
