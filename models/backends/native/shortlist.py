"""Which of many output tokens can be the likeliest: bounds from a part of the product, in screen.c, whose proof they
follow. With 58,000 entries the output matrix is half of all work of a step.

The bounds are exact for any rotation; a good one leaves few tokens. It is computed from states of the network itself,
which decodes random sources when it is loaded: the directions in which states and output rows are large come first.
A network whose bounds leave too much, as those of random weights do, has no shortlist."""

from __future__ import annotations

import ctypes
import os
from ctypes import c_float, c_int64, c_void_p
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from models.backends.native.packing import Packer, Product
from models.backends.torch.int8_linear import LARGEST, rounded_weight

CHOICE, OFF = "PARLANCE_SHORTLIST", "off"
LEAST_WEIGHTS, LEAST_WIDTH = 1 << 23, 256  # a smaller output matrix is too small a part of a step
SHARES = (4, 6, 8)  # sixteenths of the width that the bounds may take
TURNED = 32  # screen.c rotates so many numbers at once
MARGIN = 4e-4  # as in screen.c
OUTPUT_SHARE = 0.3  # of the output rows beside the states, when directions are ordered
SAMPLED = 4  # of so many output rows one counts for the directions
ALONE = 8.0  # times as long as for one of many rows takes a panel of outputs for a row alone
MOST_PANELS = 0.25  # of all panels that a row computes one by one
WORTH_IT = 0.75  # of the work of all logits; above it there is no shortlist
PATIENCE, PAUSE = 256, 8192  # rows over which the work is averaged, and rows without bounds once it is too much


class Screen(ctypes.Structure):
    _fields_ = [
        ("prefix", Product),
        *(("rotation", c_void_p), ("rest", c_void_p), ("rounding", c_float), ("size", c_float), ("most", c_int64)),
    ]


def shortlist_refusal(outputs: int, width: int) -> str | None:
    """Why an output matrix [outputs, width] gets no shortlist; None if it may."""
    if os.environ.get(CHOICE) == OFF:
        return f"{CHOICE} is {OFF}"
    if outputs * width < LEAST_WEIGHTS or width < LEAST_WIDTH:
        return f"an output matrix of {outputs:,} × {width} gains nothing from a shortlist"
    return None


def directions(states: Tensor, rows: Tensor) -> Tensor:
    """states [N, C] and output rows [V, C] -> orthogonal matrix [C, C], the directions of most energy first."""
    moments = [(x.T @ x).double() for x in (states, rows)]
    own, outputs = (moment / moment.trace().clamp(min=torch.finfo(torch.double).tiny) for moment in moments)
    vectors: Tensor = torch.linalg.eigh(own + OUTPUT_SHARE * outputs)[1]
    return vectors.flip(1).float()


def rest_norms(norms: Tensor, first: Tensor) -> Tensor:
    """norms [V]: squared, of output rows; first [V, K]: their first numbers -> norms of the others, not too small."""
    return (norms - first.square().sum(dim=1)).clamp_(min=0).add_(MARGIN * norms).sqrt_()


def work_share(highest: Tensor, best: Tensor, panel: int) -> float:
    """Bounds of the logits [N, V] and the largest logits [N] -> the work of what the bounds leave, over that of all."""
    reached = highest >= best[:, None]
    panels = F.pad(reached, (0, -reached.size(1) % panel)).view(len(best), -1, panel).any(dim=2).float().mean(dim=1)
    return ALONE * float(torch.where(panels > MOST_PANELS, 1.0, panels).mean())


@dataclass(slots=True)
class Shortlist:
    """What `decode_likeliest` of the kernels takes. projection: the whole output matrix. share: work over that of all
    logits, as measured on states of the network. packer: keeps the memory of the structures."""

    screen: Screen
    projection: Product
    bias: Tensor
    packer: Packer
    share: float
    panels: int
    _without: dict[tuple[int, ...], tuple[Product, Screen]] = field(default_factory=dict)
    _work: float = 0.0
    _rows: int = 0
    _paused: int = 0

    @property
    def reason(self) -> str:
        first, width = self.screen.prefix.inputs, self.projection.inputs
        return f"bounds from {first} of {width} numbers leave {self.share:.0%} of the work of all logits"

    def without(self, suppressed: tuple[int, ...]) -> tuple[Product, Screen]:
        """The structures with a bias of -inf for suppressed tokens."""
        if suppressed not in self._without:
            projection = self.packer.without(self.projection, self.bias, suppressed)
            screen = Screen.from_buffer_copy(self.screen)
            screen.prefix.bias = projection.bias
            self._without[suppressed] = projection, screen
        return self._without[suppressed]

    @property
    def worth_it(self) -> bool:
        """Whether the next step should use it: not while recent rows took more work than all logits do."""
        return self._paused <= 0

    def count(self, rows: int, computed: int | None = None) -> None:
        """After a step of so many rows. computed: panels of outputs that it computed beside the bounds; None: it did
        not use the shortlist."""
        if computed is None:
            self._paused -= rows
            return
        self._rows, self._work = self._rows + rows, self._work + computed / self.panels
        if self._rows >= PATIENCE:
            bounds = self.screen.prefix.inputs / self.projection.inputs
            self._paused = PAUSE if bounds + self._work / self._rows > 1 else 0
            self._rows, self._work = 0, 0.0


def shortlist(
    library: ctypes.CDLL, projection: Product, weight: Tensor, bias: Tensor | None, states: Tensor
) -> Shortlist | str:
    """Of an output matrix [V, C] with a bias [V], for states [N, C] that it will read; or why there is none.
    projection: the matrix as packed."""
    rounded, scale = rounded_weight(weight)
    rows, bias = rounded * (scale * LARGEST)[:, None], torch.zeros(len(weight)) if bias is None else bias.float()
    if not (rows.isfinite().all() and states.isfinite().all()) or bias.isnan().any() or (bias == torch.inf).any():
        return "numbers of the output matrix are not finite"
    library.panel_width.restype = c_int64
    panel, width, known = int(library.panel_width()), weight.size(1), len(states) * 3 // 4
    turned, held_out = directions(states[:known], rows[::SAMPLED]), states[known:]
    kept = sorted({width * share // 16 // TURNED * TURNED for share in SHARES} - {0})
    first, norms = rows @ turned[:, : kept[-1]], rows.square().sum(dim=1)
    inside, squares = held_out @ turned, held_out.square().sum(dim=1)
    best = torch.addmm(bias, held_out, rows.T).amax(dim=1)
    work = {}
    for count in kept:
        left = (squares - inside[:, :count].square().sum(dim=1)).clamp(min=0).sqrt()
        highest = torch.addmm(bias, inside[:, :count], first[:, :count].T)
        highest.addcmul_(left[:, None], rest_norms(norms, first[:, :count]))
        work[count] = count / width + work_share(highest, best, panel)
    least = min(work, key=lambda count: work[count])
    if work[least] > WORTH_IT:
        return f"bounds of the logits would take {work[least]:.0%} of the work of all"
    first = first[:, :least].contiguous()
    packer = Packer(library, [tuple(first.shape)])
    prefix, rotation = packer.product(first, bias), packer.address(turned[:, :least])
    panels = -(-len(weight) // panel)
    rest = packer.address(rest_norms(norms, first))
    screen = Screen(prefix, rotation, rest, *rounding_of(first), int(MOST_PANELS * panels))
    return Shortlist(screen, projection, bias, packer, work[least], panels)


def rounding_of(first: Tensor) -> tuple[float, float]:
    """The largest norm of what rounding a row [K] to int8 moves, and of a row, in units of the row's scale."""
    rounded, scale = rounded_weight(first)
    unit = (scale * LARGEST)[:, None]
    moved, norms = (((first - rounded * unit) / unit).norm(dim=1), (first / unit).norm(dim=1))
    return float(moved.max()) * 1.001, float(norms.max()) * 1.001
