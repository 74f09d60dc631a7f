"""How the optimizer steps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """rate: the peak. Schedules warm up linearly, then: constant; inverse_sqrt falls with 1/sqrt(update); cosine and
    linear fall to final_fraction of the peak until the end of the run; trapezoid stays at the peak and falls linearly
    in the last fall_share of the run."""

    name: Literal["adam", "adamw", "sgd", "muon"] = "adam"  # muon: for hidden matrices, with adamw for the rest
    rate: float = 1e-3
    schedule: Literal["constant", "inverse_sqrt", "cosine", "linear", "trapezoid"] = "constant"  # of the rate
    warmup_updates: int = 0  # the rate rises from 0 to its peak over so many
    final_fraction: float = 0.05  # of the peak, where falling schedules end
    fall_share: float = 0.2  # of a trapezoid
    betas: tuple[float, float] = (0.9, 0.98)  # Adam's decay of the gradient's mean and of its square's
    momentum: float = 0.95  # of muon's matrices
    epsilon: float = 1e-9  # Adam's, in the denominator
    weight_decay: float = 0.0  # of matrices alone; biases and norms are spared
    clip_norm: float = 1.0  # of all gradients together; 0: off

    def problems(self) -> Iterable[str]:
        if not 0 < self.rate < math.inf:
            yield f"rate must be more than 0, not {self.rate:g}"
        if self.warmup_updates < 0:
            yield f"warmup_updates must be at least 0, not {self.warmup_updates}"
        if not 0 <= self.final_fraction <= 1:
            yield f"final_fraction must lie in [0, 1], not {self.final_fraction:g}"
        if not all(0 <= beta < 1 for beta in self.betas):
            yield f"betas must lie in [0, 1), not {', '.join(f'{beta:g}' for beta in self.betas)}"
        yield f"epsilon must be more than 0, not {self.epsilon:g}" if not self.epsilon > 0 else ""
        for name in ("weight_decay", "clip_norm"):
            value = getattr(self, name)
            yield f"{name} must be at least 0, not {value:g}" if not 0 <= value < math.inf else ""
        yield f"fall_share must lie in (0, 1], not {self.fall_share:g}" if not 0 < self.fall_share <= 1 else ""
        yield f"momentum must lie in [0, 1), not {self.momentum:g}" if not 0 <= self.momentum < 1 else ""
