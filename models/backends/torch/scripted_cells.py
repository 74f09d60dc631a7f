"""The recurrent cells as they are decoded: flat functions over tensors, as in `cached_layers` and for its reasons.
The formulae stand in `cells`, which says the gates too. No annotation is postponed: TorchScript reads them."""

from typing import NamedTuple

import torch
from torch import Tensor

from models.backends.torch.products import Product, product


class CellLayer(NamedTuple):
    """input: unused in the first layer, whose input is looked up."""

    input: Product
    recurrent: Product


def advance(
    cell: str, layers: list[CellLayer], looked_up: Tensor, hidden: list[Tensor], memory: list[Tensor]
) -> Tensor:
    """One step of all layers; looked_up [B, G·N] is what the first gets from its input. Each layer's hidden state and
    memory [B, N] are written over. Returns the last layer's hidden state."""
    x = looked_up
    for number, layer in enumerate(layers):
        h, c = hidden[number], memory[number]
        if number > 0:
            looked_up = product(layer.input, x)
        recurrent = product(layer.recurrent, h)
        width = h.size(-1)
        if cell == "rnn":
            h.copy_(torch.tanh(looked_up + recurrent))
        elif cell == "gru":
            both = (looked_up[:, : 2 * width] + recurrent[:, : 2 * width]).sigmoid_()
            r, z = both[:, :width], both[:, width:]
            n = torch.addcmul(looked_up[:, 2 * width :], r, recurrent[:, 2 * width :]).tanh_()
            h.copy_(torch.lerp(n, h, z))
        else:
            gates = looked_up + recurrent
            both = gates[:, : 2 * width].sigmoid()
            g, o = gates[:, 2 * width : 3 * width].tanh(), gates[:, 3 * width :].sigmoid()
            c.mul_(both[:, width:]).addcmul_(both[:, :width], g)
            h.copy_(o * c.tanh())
        x = h
    return x
