"""What the gates of a recurrent network do at each token of a text, from one pass over it in fp32.

A network that can show its gates has a `gates` method (`Gated`); one that cannot has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.exactness import require_honoured
from models.inspection.results import GateSummary
from models.inspection.selection import GateSelection, SelectionError, resolve, selected_gates
from models.interface import Gated, GateShape
from models.networks.cells import CELLS

SATURATED = 0.1  # a gate counts as saturated when it is nearer than this to an end of its bounds


@dataclass(frozen=True, slots=True)
class GateTrace:
    """values: name -> [layers, T, units], float32, on the CPU. units: those of each layer, which h says; where they
    were chosen by variance, the most varied first. summaries: one a layer. features [T, N]: what the network's output
    is projected from, on its device."""

    shape: GateShape
    layers: tuple[int, ...]
    units: tuple[tuple[int, ...], ...]
    values: Mapping[str, Tensor]
    summaries: tuple[GateSummary, ...]
    features: Tensor


def check_gate_selection(shape: GateShape, selection: GateSelection) -> tuple[tuple[str, ...], tuple[int, ...], int]:
    """The gates and layers that are meant, and how many units of each layer. SelectionError where there is none."""
    try:
        names = selected_gates(shape.cell, selection.gates)
    except ValueError as error:
        raise SelectionError(str(error), "gates") from None
    layers = resolve(selection.layers, shape.layers, "layer")
    if isinstance(selection.units, int):
        return names, layers, min(selection.units, shape.hidden)
    return names, layers, len(resolve(selection.units, shape.hidden, "unit"))


@torch.inference_mode()
def gate_trace(network: Gated, tokens: Sequence[int], selection: GateSelection) -> GateTrace:
    """What the selection asks for, of one pass over `tokens`. SelectionError for what the network does not have."""
    shape = network.gate_shape
    names, layers, _ = check_gate_selection(shape, selection)
    require_honoured(network)
    whole, features = network.gates(torch.tensor(list(tokens), dtype=torch.long, device=network.device))
    units = tuple(_selected_units(whole["h"][layer], selection.units) for layer in layers)
    values = {
        name: torch.stack(
            [whole[name][layer][:, list(each)] for layer, each in zip(layers, units, strict=True)]
        ).float()
        for name in names
    }
    summaries = tuple(
        _layer_summary(layer, shape.cell, {name: each[layer] for name, each in whole.items()}) for layer in layers
    )
    cpu = {name: each.cpu() for name, each in values.items()}
    return GateTrace(shape, layers, units, cpu, summaries, features)


def _selected_units(hidden: Tensor, wanted: tuple[int, ...] | int) -> tuple[int, ...]:
    """hidden [T, N]."""
    if not isinstance(wanted, int):
        return resolve(wanted, hidden.size(1), "unit")
    variance = hidden.double().var(dim=0, correction=0)
    return tuple(variance.sort(descending=True, stable=True).indices[:wanted].tolist())


def _layer_summary(layer: int, cell: str, gates: Mapping[str, Tensor]) -> GateSummary:
    """gates: name -> [T, N], of one layer."""
    low, high = dict[str, list[float]](), dict[str, list[float]]()
    for name, bounds in CELLS[cell].shown.items():
        if bounds is not None:
            low[name] = (gates[name] < bounds[0] + SATURATED).float().mean(dim=1).tolist()
            high[name] = (gates[name] > bounds[1] - SATURATED).float().mean(dim=1).tolist()
    hidden = gates["h"]
    before = torch.cat([torch.zeros_like(hidden[:1]), hidden[:-1]])
    mean = {name: gates[name].mean(dim=1).float().tolist() for name in CELLS[cell].shown}
    return GateSummary(layer, mean, low, high, (hidden - before).abs().mean(dim=1).float().tolist())
