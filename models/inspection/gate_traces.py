"""Gate values of a recurrent network at each token of a text, from one fp32 pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.exactness import require_honoured
from models.inspection.results import GateSummary
from models.inspection.selection import GateSelection, resolve, selected_gates
from models.networks.cells import CELLS
from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel

ROUNDING = 1e-5  # by which sums of numbers within bounds may leave them
SATURATED = 0.1  # a gate within this distance of either bound is saturated


@dataclass(frozen=True, slots=True)
class GateTrace:
    """values: name -> [layers, T, units], float32, on the CPU. units: selected units per layer, by descending variance
    if selected by it. summaries: one per layer. features [T, N]: the output projection's input, on the device."""

    layers: tuple[int, ...]
    units: tuple[tuple[int, ...], ...]
    values: Mapping[str, Tensor]
    summaries: tuple[GateSummary, ...]
    features: Tensor


def check_gate_selection(
    config: RecurrentConfig, selection: GateSelection
) -> tuple[tuple[str, ...], tuple[int, ...], int]:
    """The selected gates and layers, and the number of units per layer. SelectionError for unknown ones."""
    names, layers = selected_gates(config.cell, selection.gates), resolve(selection.layers, config.layers, "layer")
    if isinstance(selection.units, int):
        return names, layers, min(selection.units, config.hidden)
    return names, layers, len(resolve(selection.units, config.hidden, "unit"))


@torch.inference_mode()
def gate_trace(network: RecurrentLanguageModel, tokens: Sequence[int], selection: GateSelection) -> GateTrace:
    """The selected values of one pass over `tokens`. SelectionError for gates, layers or units that do not exist."""
    names, layers, _ = check_gate_selection(network.config, selection)
    require_honoured(network)
    whole, features = network.gates(torch.tensor(list(tokens), dtype=torch.long, device=network.device))
    units = tuple(_selected_units(whole["h"][layer], selection.units) for layer in layers)
    places = [(layer, list(chosen)) for layer, chosen in zip(layers, units, strict=True)]
    values = {name: torch.stack([whole[name][i][:, chosen] for i, chosen in places]).float().cpu() for name in names}
    cell = network.config.cell
    summaries = tuple(_layer_summary(i, cell, {name: gates[i] for name, gates in whole.items()}) for i in layers)
    return GateTrace(layers, units, values, summaries, features)


def _selected_units(hidden: Tensor, wanted: tuple[int, ...] | int) -> tuple[int, ...]:
    """hidden [T, N]. An integer selects the units with the highest variance."""
    if not isinstance(wanted, int):
        return resolve(wanted, hidden.size(1), "unit")
    variance = hidden.double().var(dim=0, correction=0)
    return tuple(variance.sort(descending=True, stable=True).indices[:wanted].tolist())


def _layer_summary(layer: int, cell: str, gates: Mapping[str, Tensor]) -> GateSummary:
    """gates: name -> [T, N], of one layer. A gate that leaves the bounds that the cell names, as one whose formula was
    edited may, has none."""
    low, high = dict[str, list[float]](), dict[str, list[float]]()
    for name, bounds in CELLS[cell].shown.items():
        least, most = (float(end) for end in gates[name].aminmax())
        if bounds is not None and bounds[0] - ROUNDING <= least and most <= bounds[1] + ROUNDING:
            low[name] = (gates[name] < bounds[0] + SATURATED).float().mean(dim=1).tolist()
            high[name] = (gates[name] > bounds[1] - SATURATED).float().mean(dim=1).tolist()
    hidden = gates["h"]
    before = torch.cat([torch.zeros_like(hidden[:1]), hidden[:-1]])
    mean = {name: gates[name].mean(dim=1).float().tolist() for name in CELLS[cell].shown}
    return GateSummary(layer, mean, low, high, (hidden - before).abs().mean(dim=1).float().tolist())
