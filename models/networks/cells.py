"""Recurrent cells: one step of RNN (Elman 1990), GRU (Cho et al. 2014) and LSTM (Hochreiter and Schmidhuber 1997) with
explicit gates. Conventions and gate order are PyTorch's.

A new cell is a new function and a new entry in `CELLS`, under a name of its own. Training, decoding, scoring and
inspection then support it, and the options, `--cell`, the API and the page take its name and its gates from there. Only
prose names the cells elsewhere: both READMEs and docs; and `benchmarks.lyrics --cell`, which has PyTorch's three. An
edited cell runs as edited; PyTorch's and our kernels replace only cells that are exactly theirs. Nothing here imports
torch: the server's front end reads the gate names from these tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

Bounds = tuple[float, float]
SIGMOID: Bounds = (0.0, 1.0)
TANH: Bounds = (-1.0, 1.0)


class Step(NamedTuple):
    """hidden [B, N]; memory [B, N]: the LSTM's c, otherwise the hidden state again; gates: name -> [B, N]."""

    hidden: Tensor
    memory: Tensor
    gates: dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Cell:
    """step: takes the input's contribution W_x x + b_x for all gates, [B, G·N], with N the hidden width; the hidden
    state's, W_h h + b_h; hidden and memory [B, N]. gates: name -> bounds, in the order of the weights' rows. formula:
    for display. remembers: the cell has a memory c beside h."""

    step: Callable[[Tensor, Tensor, Tensor, Tensor], Step]
    gates: Mapping[str, Bounds]
    formula: str
    remembers: bool = False

    @property
    def shown(self) -> Mapping[str, Bounds | None]:
        """Bounds of all values shown of a step, in order of computation: the gates, c (unbounded) if present, h."""
        return {**self.gates, **({"c": None} if self.remembers else {}), "h": TANH}


def rnn(projected: Tensor, recurrent: Tensor, hidden: Tensor, memory: Tensor) -> Step:
    new = (projected + recurrent).tanh()
    return Step(new, new, {"n": new})


def gru(projected: Tensor, recurrent: Tensor, hidden: Tensor, memory: Tensor) -> Step:
    width = hidden.size(-1)
    r, z = (projected[:, : 2 * width] + recurrent[:, : 2 * width]).sigmoid().chunk(2, dim=-1)
    n = (projected[:, 2 * width :] + r * recurrent[:, 2 * width :]).tanh()
    new = n + z * (hidden - n)
    return Step(new, new, {"r": r, "z": z, "n": n})


def lstm(projected: Tensor, recurrent: Tensor, hidden: Tensor, memory: Tensor) -> Step:
    i, f, g, o = (projected + recurrent).chunk(4, dim=-1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    memory = f * memory + i * g
    return Step(o * memory.tanh(), memory, {"i": i, "f": f, "g": g, "o": o})


CELLS: dict[str, Cell] = {
    "rnn": Cell(rnn, {"n": TANH}, "h' = n = tanh(W x + b + U h + d), Elman's cell: n is the new state."),
    "gru": Cell(
        gru,
        {"r": SIGMOID, "z": SIGMOID, "n": TANH},
        "h' = (1 - z) n + z h with n = tanh(W x + b + r (U h + d)), PyTorch's: z = 1 keeps, r = 0 forgets within n.",
    ),
    "lstm": Cell(
        lstm,
        {"i": SIGMOID, "f": SIGMOID, "g": TANH, "o": SIGMOID},
        "c' = f c + i g and h' = o tanh(c'), PyTorch's: f = 1 keeps, i = 1 writes, o = 1 shows.",
        remembers=True,
    ),
}

if TYPE_CHECKING:
    CellKind = str
else:
    CellKind = Literal[tuple(CELLS)]  # the choices of options and of the API


def shown_names() -> tuple[str, ...]:
    """The names of all values that some cell shows: its gates, c, and h last."""
    return tuple(dict.fromkeys([name for cell in CELLS.values() for name in cell.shown if name != "h"] + ["h"]))
