"""What computes the loss of a training step: the network's own modules in PyTorch, or kernels that compute the same.

The one seam between training and its kernels. A step asks anew whether the network is still exactly the one that the
kernels know, so that a module, a hook or a patch that comes in the middle of a run is trained with from its first step.
`python -m training.kernels.training_backend` compiles the kernels beside their sources.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from models.backends.native import build
from models.backends.native.build import CHOICE, FP32, cpu_flags, first_loadable, fp32_runnable
from models.backends.native.coverage import transformer_difference
from models.backends.native.gru_scan import gru_layers
from models.exactness import require_honoured
from models.networks.recurrent import LayerScan, RecurrentLanguageModel
from models.networks.transformer import Transformer
from training.kernels.packed_transformer import PackedPass, cross_entropy

NATIVE = "../../models/backends/native/"
TRAINING = tuple(
    replace(
        variant,
        name=variant.name.replace("fp32", "training"),
        sources=tuple(
            f"{name}.c"
            for name in (
                *("dense", "heads", "around", "norm", "attention", "feed_forward"),
                *("embedding", "cross_entropy", "team"),
            )
        ),
        headers=(f"{NATIVE}vectors.h", "training.h", "around.h", "heads.h"),
        folder=Path(__file__).parent,
    )
    for variant in FP32
)


def training_library() -> ctypes.CDLL | None:
    """For Transformers; otherwise as `build.library`."""
    return training_loaded(os.environ.get(CHOICE, ""))


@cache
def training_loaded(choice: str) -> ctypes.CDLL | None:
    """As `build.loaded`."""
    usable = {variant.flags for variant in fp32_runnable(choice, cpu_flags())}
    variants = [variant for variant in TRAINING if variant.flags in usable]
    return first_loadable(variants, "training") if variants else None


class TranslatorBackend:
    """Features and loss of a Transformer."""

    def __init__(self, network: Transformer) -> None:
        self.network = network
        self.compiled = False
        self._step: tuple[ctypes.CDLL | None] | None = None  # the choice for the features whose loss comes next

    def compile(self, longest: int, backend: str = "inductor") -> None:
        """From now on as torch.compile makes them, for sequences of any length up to `longest`."""
        # the compiler itself looks at the gradient of what is no leaf, and PyTorch warns the user of it
        warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a leaf")
        self.network.position_vectors(longest)  # grown in a compiled function, the table would have it compiled again
        self.compiled_features = torch.compile(self.network.features, dynamic=True, backend=backend)
        self.compiled_loss = torch.compile(plain_cross_entropy, dynamic=True, backend=backend)
        self.compiled = True

    def counted_features(self, source: Tensor, target: Tensor, counted: Tensor) -> Tensor:
        """The network's features where counted [B, T] is true, [N, C], in the order of the rows. Nothing behind a row's
        last such place may matter. In kernels nothing is computed for padding. A `counted` in the host's memory keeps
        the host from waiting for a device to tell how many there are."""
        library = self.library()
        self._step = (library,)
        if library is not None:
            return PackedPass(self.network, library).features(source, target, counted)
        require_honoured(self.network)
        places = counted.flatten().nonzero().squeeze(1).to(source.device, non_blocking=True)
        features: Tensor = (self.compiled_features if self.compiled else self.network.features)(source, target)
        return features.flatten(0, 1).index_select(0, places)

    def cross_entropy(self, features: Tensor, targets: Tensor, smoothing: float = 0.0, pull: float = 0.0) -> Tensor:
        """features [N, C], the tokens that follow [N] -> nats, summed; label smoothing as in Szegedy et al. 2016.

        pull: where it is not 0, the second half of the features predicts the same tokens as the first, with other
        dropout, and pull/2 of KL(p, q) + KL(q, p) is added (R-Drop: Liang et al. 2021, arXiv 2106.14448).
        """
        (library,), self._step = self._step or (self.library(),), None
        if library is not None:
            return cross_entropy(self.network, library, features, targets, smoothing, pull)
        compute = self.compiled_loss if self.compiled else plain_cross_entropy
        loss: Tensor = compute(self.network, features, targets, smoothing, pull)
        return loss

    def library(self) -> ctypes.CDLL | None:
        """None where PyTorch is to train."""
        return self._choice()[0]

    def _choice(self) -> tuple[ctypes.CDLL | None, str]:
        """The kernels, if any, and a clause that says why."""
        weight = next(self.network.parameters())
        if weight.device.type != "cpu" or weight.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
            return None, "our kernels train in fp32 on CPUs"
        if self.compiled:
            return None, "its operators are compiled"
        if self.network.config.activation != "relu":
            return None, f"our kernels do not train {self.network.config.activation}"
        library = training_library()
        if library is None:
            return None, build.why_none()
        changed = transformer_difference(self.network)
        if not changed and any(module.training != self.network.training for module in self.network.modules()):
            changed = "a part of it is in another mode than the whole"
        return (None, changed) if changed else (library, "it is exactly the network that our kernels train")

    @property
    def kernels(self) -> str:
        """The kernels that train in fp32, down to their version, since others draw other dropout. "": PyTorch's."""
        return build.name_of(self.library())

    @property
    def reason(self) -> str:
        return self._choice()[1]


def plain_cross_entropy(
    network: Transformer, features: Tensor, targets: Tensor, smoothing: float, pull: float
) -> Tensor:
    """`TranslatorBackend.cross_entropy` in PyTorch's operators."""
    logits = network.project(features).float()
    total = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    if pull:
        first, second = logits.log_softmax(-1).chunk(2)
        total = total + pull / 2 * ((first.exp() - second.exp()) * (first - second)).sum()
    return total


class LyricistBackend:
    """The layers of a recurrent network over a window."""

    def __init__(self, network: RecurrentLanguageModel) -> None:
        self.network = network

    @property
    def scan(self) -> LayerScan | None:
        """For `RecurrentLanguageModel.forward`; None: PyTorch."""
        require_honoured(self.network)
        return gru_layers(self.network)[0]

    @property
    def kernels(self) -> str:
        """As of `TranslatorBackend`: others add in another order."""
        return build.name_of(build.fp32_library() if self.scan else None)

    @property
    def reason(self) -> str:
        return gru_layers(self.network)[1]


TrainingBackend = TranslatorBackend | LyricistBackend


def backend_of(task: object) -> TrainingBackend | None:
    """None where a task computes its loss itself."""
    backend: TrainingBackend | None = getattr(task, "backend", None)
    return backend


def kernels_of(task: object) -> str:
    """As `TranslatorBackend.kernels`."""
    backend = backend_of(task)
    return backend.kernels if backend else ""


def backend_description(task: object, number_format: str) -> str:
    """Which backend computes the updates and why, for the console and the model card; "" where a task computes its
    loss itself. number_format: of the forward pass."""
    backend = backend_of(task)
    if backend is None:
        return ""
    if number_format != "fp32":
        return f"PyTorch in {number_format}, because our kernels train in fp32 on CPUs"
    return f"{'kernels in C' if backend.kernels else 'PyTorch'} in fp32, because {backend.reason}"


if __name__ == "__main__":
    sys.exit(build.build_beside_sources(TRAINING))
