"""One step of a recurrent cell, its gates in the open. PyTorch's conventions and order of gates:

rnn   h' = tanh(x + W h + b)
gru   r, z = sigmoid(...), n = tanh(x_n + r * (W_n h + b_n)), h' = (1 - z) n + z h: z = 1 keeps   (gates r, z, n)
lstm  c' = f c + i g, h' = o tanh(c')                                                    (gates i, f, g, o)

`projected` is what the input contributes, W_x x + b_x for all gates at once, [B, G·N], N the hidden width.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

CellKind = Literal["rnn", "gru", "lstm"]
GATES: dict[CellKind, tuple[str, ...]] = {"rnn": ("n",), "gru": ("r", "z", "n"), "lstm": ("i", "f", "g", "o")}


class Step(NamedTuple):
    """hidden [B, N]; memory [B, N], the LSTM's c (elsewhere the hidden state again); gates by name, [B, N]."""

    hidden: Tensor
    memory: Tensor
    gates: dict[str, Tensor]


def step(
    cell: CellKind, projected: Tensor, hidden: Tensor, memory: Tensor, weight: Tensor, bias: Tensor | None
) -> Step:
    """weight [G·N, N] and bias [G·N] act on the hidden state."""
    recurrent = F.linear(hidden, weight, bias)
    if cell == "rnn":
        new = torch.tanh(projected + recurrent)
        return Step(new, new, {"n": new})
    if cell == "gru":
        return _gru(projected, recurrent, hidden)
    i, f, g, o = (projected + recurrent).chunk(4, dim=-1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    memory = f * memory + i * g
    return Step(o * memory.tanh(), memory, {"i": i, "f": f, "g": g, "o": o})


def _gru(projected: Tensor, recurrent: Tensor, hidden: Tensor) -> Step:
    width = hidden.size(-1)
    r, z = (projected[:, : 2 * width] + recurrent[:, : 2 * width]).sigmoid().chunk(2, dim=-1)
    n = torch.tanh(projected[:, 2 * width :] + r * recurrent[:, 2 * width :])
    new = n + z * (hidden - n)
    return Step(new, new, {"r": r, "z": z, "n": n})
