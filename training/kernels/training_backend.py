"""The backends of a training step: the network's modules in PyTorch, or C kernels that compute the same.

The only interface between training and its kernels. Every step rechecks that the network is exactly the one that the
kernels implement, so a module, hook or patch added during a run takes effect at once."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from models.backends.native import build
from models.backends.native.build import training_library
from models.backends.native.coverage import transformer_difference
from models.backends.native.gru_scan import gru_layers
from models.exactness import as_written, difference, is_known, require_honoured
from models.networks.recurrent import LayerScan, RecurrentLanguageModel, cell_difference
from models.networks.transformer import Transformer
from training.kernels.chunked_cross_entropy import ChunkLoss, chunk_loss, chunked_cross_entropy
from training.kernels.packed_transformer import PackedPass, cross_entropy
from training.kernels.torch_compile import failure, missing_for_compile


def to_device(part: Tensor, device: torch.device) -> Tensor:
    """A copy of a host's tensor on the device, without waiting for it: a GPU reads page-locked memory by itself, where
    a copy from other memory waits until the GPU has done all that it was given."""
    return part.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else part.to(device)


class Compiled(NamedTuple):
    """What torch.compile made of `Transformer.features`, `plain_cross_entropy` and `chunk_loss`."""

    features: Callable[..., Tensor]
    loss: Callable[..., Tensor]
    chunk_loss: ChunkLoss


class Choice(NamedTuple):
    """library: the kernels; None if PyTorch computes the step. reason: a clause."""

    library: ctypes.CDLL | None
    reason: str

    @property
    def kernels(self) -> str:
        """Name and version of the kernels, since dropout and the order of summation differ between versions; "" for
        PyTorch."""
        return build.name_of(self.library)


class TranslatorBackend:
    """Features and loss of a Transformer. last_choice: of the last features; None before them."""

    def __init__(self, network: Transformer) -> None:
        self.network = network
        self.why_eager = ""  # a clause, where torch.compile was wanted and is not used
        self.last_choice: Choice | None = None
        self._compiled: Compiled | None = None

    def compile(self, longest: int, backend: str = "inductor") -> None:
        """Switches to torch.compile, for sequences of any length up to `longest`; or says `why_eager`, if the machine
        lacks something that it needs. What else can fail shows in a step: see `stop_compiling`."""
        self.why_eager = missing_for_compile(self.network.device.type) if backend == "inductor" else ""
        if self.why_eager:
            return
        # the compiler itself reads .grad of non-leaf tensors, which makes PyTorch warn
        warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a leaf")
        self.network.position_vectors(longest)  # a table grown in a compiled function would recompile it
        try:
            self._compiled = Compiled(
                torch.compile(self.network.features, dynamic=True, backend=backend),
                torch.compile(plain_cross_entropy, dynamic=True, backend=backend),
                torch.compile(chunk_loss, dynamic=True, backend=backend),
            )
        except RuntimeError as error:  # such as of a Python that is too new for it
            self.why_eager = failure(error)

    @property
    def compiled(self) -> bool:
        return self._compiled is not None

    def stop_compiling(self, why: str) -> None:
        """Computes eagerly from now on. why: a clause, for the user."""
        self._compiled, self.why_eager, self.last_choice = None, why, None

    def counted_features(self, source: Tensor, target: Tensor, counted: Tensor) -> Tensor:
        """The network's features where counted [B, T] is True, [N, C], row by row. Positions after a row's last counted
        one must not matter. The kernels skip padding. Keep `counted` on the CPU to avoid a device synchronisation."""
        self.last_choice = self.choice()
        if (library := self.last_choice.library) is not None:
            return PackedPass(self.network, library).features(source, target, counted)
        require_honoured(self.network)
        places = to_device(counted.flatten().nonzero().squeeze(1), source.device)
        features: Tensor = self._compute("features", self.network.features, source, target)
        return features.flatten(0, 1).index_select(0, places)

    def cross_entropy(self, features: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
        """features [N, C] of `counted_features`, next tokens [N] -> loss in nats, summed; label smoothing as in Szegedy
        et al. 2016."""
        if (library := (self.last_choice or self.choice()).library) is not None:
            return cross_entropy(self.network, library, features, targets, smoothing)
        if self._chunks(features):
            weight, bias = self.network.output_weight, self.network.output_bias
            compute = partial(self._compute, "chunk_loss", chunk_loss)
            return chunked_cross_entropy(features, targets, weight, bias, smoothing, compute)
        loss: Tensor = self._compute("loss", plain_cross_entropy, self.network, features, targets, smoothing)
        return loss

    def _chunks(self, features: Tensor) -> bool:
        """Whether logits are computed a chunk at a time: on a GPU, whose memory they would fill. In fp16 gradients need
        the loss scale, which is not known in the forward pass; an edited projection runs as it was written."""
        network = self.network
        if features.device.type != "cuda" or (
            torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.float16
        ):
            return False
        if not (is_known(network, "project") and is_known(network, "output_weight")):
            return False
        plain = as_written(network, Transformer)
        return network.output is None or difference(network.output, plain.get_submodule("output")) is None

    def _compute(self, name: str, eager: Callable[..., Any], *arguments: Any) -> Any:
        """Calls the compiled function of this name, or else `eager`. If the former fails without gradients, the latter
        takes over at once. A failed update is the trainer's to repeat: its backward pass can fail too, and dropout must
        draw the same numbers again."""
        if self._compiled is not None:
            try:
                return getattr(self._compiled, name)(*arguments)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:
                if torch.is_grad_enabled():
                    raise
                self.stop_compiling(failure(error))
        return eager(*arguments)

    def choice(self) -> Choice:
        weight = next(self.network.parameters())
        if weight.device.type != "cpu" or weight.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
            return Choice(None, "our kernels train in fp32 on CPUs")
        if self.compiled:
            return Choice(None, "torch.compile makes its operators")
        if self.network.config.activation != "relu":
            return Choice(None, f"our kernels do not train {self.network.config.activation}")
        library = training_library()
        if library is None:
            return Choice(None, build.why_none())
        changed = transformer_difference(self.network)
        if not changed and any(module.training != self.network.training for module in self.network.modules()):
            changed = "a part of it is in another mode than the whole"
        return Choice(None, changed) if changed else Choice(library, "it is exactly the network that our kernels train")


def plain_cross_entropy(network: Transformer, features: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """`TranslatorBackend.cross_entropy` in PyTorch operators."""
    logits = network.project(features).float()
    return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)


class LyricistBackend:
    """The layers of a recurrent network over a window of tokens. last_choice: as in `TranslatorBackend`."""

    compiled, why_eager = False, ""  # torch.compile is for translators

    def __init__(self, network: RecurrentLanguageModel) -> None:
        self.network = network
        self.last_choice: Choice | None = None

    @property
    def scan(self) -> LayerScan | None:
        """Argument of `RecurrentLanguageModel.forward`; None: PyTorch."""
        require_honoured(self.network)
        own, reason = gru_layers(self.network)
        self.last_choice = Choice(build.fp32_library() if own else None, reason)
        return self._fp32_layer if own is None and self._would_run_in_fp16() else own

    def _would_run_in_fp16(self) -> bool:
        """Whether autocast to bf16 is on, and the layers run on cuDNN. Autocast hands cuDNN's recurrent kernels fp16,
        whichever format was asked for: state and gradients, without a loss scale, then leave its range. PyTorch gives
        them bf16 only since cuDNN 9.13."""
        bf16 = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16
        return bf16 and self.network.embedding is not None and cell_difference(self.network) is None

    def _fp32_layer(self, number: int, features: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One layer on cuDNN in fp32, whose products are in TF32 (`loop.mixed_precision`)."""
        with torch.autocast("cuda", enabled=False):
            return self.network.fused_layer(number, features.float(), h.float(), c.float())

    def choice(self) -> Choice:
        require_honoured(self.network)
        own, reason = gru_layers(self.network)
        return Choice(build.fp32_library() if own else None, reason)


TrainingBackend = TranslatorBackend | LyricistBackend


def backend_of(task: object) -> TrainingBackend | None:
    """The task's backend; None if the task computes its loss itself."""
    backend: TrainingBackend | None = getattr(task, "backend", None)
    return backend


def kernels_of(task: object) -> str:
    """`Choice.kernels` of the next step; "" without a backend."""
    backend = backend_of(task)
    return backend.choice().kernels if backend else ""


def backend_description(task: object, number_format: str) -> str:
    """The backend of the last step, or before it of the first, and the reason, for the console and the model card; ""
    without a backend. number_format: of the forward pass."""
    backend = backend_of(task)
    if backend is None:
        return ""
    if backend.compiled:
        return f"PyTorch in {number_format}, compiled by torch.compile"
    eager = f"; torch.compile is not used, because {backend.why_eager}" if backend.why_eager else ""
    if number_format != "fp32":
        return f"PyTorch in {number_format}, because our kernels train in fp32 on CPUs{eager}"
    choice = backend.last_choice or backend.choice()
    return f"{'kernels in C' if choice.kernels else 'PyTorch'} in fp32, because {choice.reason}{eager}"
