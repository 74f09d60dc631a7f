"""Networks whose weights are about to be replaced draw no random ones.

On the meta device, too: there, PyTorch draws through `torch._refs`, whose first use imports its compiler, 1.2 s of a
CPU in every process that translates."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

DRAWS = {
    *(Tensor.normal_, Tensor.uniform_),
    *(nn.init.normal_, nn.init.uniform_, nn.init.trunc_normal_, nn.init.orthogonal_),
    *(nn.init.xavier_uniform_, nn.init.xavier_normal_, nn.init.kaiming_uniform_, nn.init.kaiming_normal_),
}


class Undrawn(TorchFunctionMode):
    """Skips random initialisation, for networks about to be loaded; computed tensors (zeros, tables) are unaffected."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in DRAWS:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))
