"""Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon): momentum whose matrices are made orthogonal,
so that no direction of a layer is starved; AdamW for the rest.

The steps are those of `torch.optim.Muon` with `adjust_lr_fn="match_rms_adamw"` (Liu et al. 2025, arXiv 2502.16982), so
that one learning rate suits both kinds. That one makes matrices orthogonal in bfloat16, one by one; a CPU without
bfloat16 takes three times as long for that as in float32, and matrices of one shape are quicker together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic iteration, tuned for speed by Jordan et al.
STEPS = 5


def orthogonal(matrices: Tensor) -> Tensor:
    """[K, M, N] -> [K, M, N]: of each matrix U S V' about U V', singular values of 0.7 to 1.2 for 1."""
    tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if tall else matrices
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """matrices: the group of hidden matrices; rest: groups for AdamW. All share the learning rate."""

    def __init__(
        self,
        matrices: dict[str, Any],
        rest: list[dict[str, Any]],
        *,
        lr: float,
        momentum: float,
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        # fused: what tells a resume that the counts of updates lie where the weights do, on a GPU too
        groups = [{**matrices, "muon": True}, *({**group, "muon": False, "fused": True} for group in rest)]
        groups = [group for group in groups if group["params"]]
        super().__init__(groups, {"lr": lr, "momentum": momentum, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            if not group["muon"]:
                self._adamw(group, parameters)
                continue
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for parameter in parameters:
                by_shape.setdefault(parameter.shape, []).append(parameter)
            for alike in by_shape.values():
                self._orthogonal_step(group, alike)

    def _orthogonal_step(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        momentum = group["momentum"]
        gradients = [p.grad for p in parameters if p.grad is not None]
        buffers = [self._state(p, "momentum_buffer") for p in parameters]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        ahead = torch._foreach_lerp(gradients, buffers, momentum)  # Nesterov's
        step = group["lr"] * 0.2 * max(parameters[0].shape) ** 0.5
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(parameters, orthogonal(torch.stack(ahead)).unbind(), alpha=-step)

    def _adamw(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        for parameter in parameters:
            if "step" not in self.state[parameter]:
                self.state[parameter]["step"] = torch.zeros((), device=parameter.device)
        torch._fused_adamw_(
            parameters,
            [p.grad for p in parameters if p.grad is not None],
            [self._state(p, "exp_avg") for p in parameters],
            [self._state(p, "exp_avg_sq") for p in parameters],
            [],
            self._count(parameters),
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )

    def _count(self, parameters: list[Tensor]) -> list[Tensor]:
        counts: list[Tensor] = [self.state[p]["step"] for p in parameters]
        torch._foreach_add_(counts, 1)
        return counts

    def _state(self, parameter: Tensor, name: str) -> Tensor:
        state = self.state[parameter]
        if name not in state:
            state[name] = torch.zeros_like(parameter)
        value: Tensor = state[name]
        return value
