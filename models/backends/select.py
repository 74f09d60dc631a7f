"""Selects the backend of a network for its device and a precision.

PyTorch runs the network's own modules (`models.backends.torch`). On a CPU, C kernels (`models.backends.native`) replace
it for networks that they compute exactly: Transformers in int8, recurrent networks in fp32. On CUDA, Triton kernels
(`models.backends.cuda`) step unmodified Transformers. A selection is a snapshot: select again after a change of the
network."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from typing import Protocol, TypeVar, get_args, runtime_checkable

import torch
from torch import nn

from models.backends.cuda.selection import kernel_transformer
from models.backends.native import build
from models.backends.native.coverage import recurrent_difference, transformer_difference
from models.backends.native.fp32_recurrent import NativeRecurrent
from models.backends.native.gru_scan import ScannedGru, gru_layers
from models.backends.native.int8_transformer import NativeTransformer
from models.backends.torch.int8_linear import Int8Linear, exact_int8, quantize
from models.backends.torch.recurrent_step import EagerRecurrent
from models.backends.torch.transformer_step import EagerTransformer
from models.exactness import is_known, require_honoured
from models.interface import Decodable, Precision, Prompt, TeacherForced
from models.networks.loading import copied
from models.networks.recurrent import RecurrentLanguageModel
from models.networks.transformer import Transformer

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
DTYPES: dict[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
EXACT = "it is exactly the network that our kernels compute"
log = logging.getLogger(__name__)
WORTH_IT = 1.25  # minimum speedup; less is noise, and all processes of a service should choose alike
# Two first steps that are both so many times slower than the best precision's, and take so long, end a precision's
# trial. Two, and the second bound, keep a late wake-up on a busy machine from ending the trial of a fast precision.
HOPELESS, HOPELESS_MS = 10.0, 100.0
N = TypeVar("N", bound=nn.Module)


class RefusedError(ValueError):
    """The machine or device does not support the precision."""


@runtime_checkable
class SelfDecoding(Protocol):
    """Another kind of network, such as an ensemble, with its own `Decodable`."""

    def decodable(self, precision: Precision = "fp32") -> Decodable:
        """The network as it is now. ValueError for a precision that the network or its device does not support."""
        ...


Network = Transformer | RecurrentLanguageModel | SelfDecoding


@dataclass(frozen=True, slots=True)
class Selection:
    """precision: of the computation; native: by our kernels, in C on a CPU and in Triton on CUDA; reason: a clause with
    the reason for or against native. Of an edited network, the reason is the edit in every precision."""

    decodable: Decodable
    precision: str
    native: bool
    reason: str

    @property
    def label(self) -> str:
        """For example "int8 native" or "bf16"."""
        return f"{self.precision} native" if self.native else self.precision

    @property
    def backend(self) -> str:
        kernels = "kernels in C" if self.decodable.device.type == "cpu" else "Triton kernels"
        return f"{kernels if self.native else 'PyTorch'}, {self.precision}"


def decodable(network: Network, precision: Precision = "fp32") -> Decodable:
    """The `Decodable` of `select`."""
    return select(network, precision).decodable


def select(network: Network, precision: Precision = "fp32") -> Selection:
    """Selects a backend for the network as it is now, with weights in `precision`; unchanged tensors are shared. A
    recurrent network has no int8 and stays in fp32. RefusedError for a precision that the device does not support,
    ValueError for an unknown precision or an edit that steps would ignore."""
    if isinstance(network, SelfDecoding):
        return Selection(network.decodable(precision), precision, False, f"{type(network).__name__} brings its own")
    require_honoured(network)
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    if precision == "int8" and network.device.type != "cpu":
        raise RefusedError("int8 is for CPUs; use bf16 or fp16 on this device")
    recurrent = isinstance(network, RecurrentLanguageModel)
    if recurrent and precision == "int8":
        precision = "fp32"
    kernel_precision = "fp32" if recurrent else "int8"
    on_cpu = network.device.type == "cpu"
    kernels_fit = on_cpu and precision == kernel_precision
    floats = prepared(network, "fp32") if kernels_fit and _dtype(network) != torch.float32 else network
    edit = _difference(floats) if on_cpu else None
    reason = edit or f"our kernels step it in {kernel_precision} on CPUs"
    if kernels_fit and edit is None:
        library = build.fp32_library() if recurrent else build.library()
        if library is None:
            reason = build.why_none()
        elif isinstance(floats, RecurrentLanguageModel):
            return Selection(NativeRecurrent(floats, library), precision, True, EXACT)
        else:
            native = NativeTransformer(floats, library)
            has = "a vocabulary shortlist" if native.shortlist else "no vocabulary shortlist"
            return Selection(native, precision, True, f"{EXACT}; {has}: {native.shortlist_reason}")
    if precision == "int8" and not exact_int8():
        raise RefusedError("this CPU does not sum int8 products exactly; use fp32 or bf16")
    made = prepared(network, precision)
    label: str = precision
    if precision == "int8":  # edited maps, and maps without readable source, stay in fp32
        kinds = {type(module) for module in made.modules()}
        whole = getattr(made, "output", None) is not None and not any(issubclass(kind, nn.Linear) for kind in kinds)
        label = "fp32" if Int8Linear not in kinds else "int8" if whole else "int8 in part"
    if made.device.type == "cuda" and isinstance(made, Transformer):
        kernels_or_reason = kernel_transformer(made)
        if not isinstance(kernels_or_reason, str):
            return Selection(kernels_or_reason, label, True, EXACT)
        reason = kernels_or_reason
    eager: Decodable = EagerRecurrent(made) if isinstance(made, RecurrentLanguageModel) else EagerTransformer(made)
    return Selection(eager, label, False, reason)


def _difference(network: Transformer | RecurrentLanguageModel) -> str | None:
    """Why the C kernels cannot compute the network, in whichever precision; None if they can."""
    if isinstance(network, RecurrentLanguageModel):
        return recurrent_difference(network)
    return transformer_difference(network)


def _dtype(network: nn.Module) -> torch.dtype:
    return next(network.parameters()).dtype


def teacher_forced(network: TeacherForced) -> TeacherForced:
    """The network for scoring given texts, on our kernels if they compute it: a GRU in fp32 on a CPU."""
    require_honoured(network)
    if not isinstance(network, RecurrentLanguageModel) or recurrent_difference(network) is not None:
        return network
    scan = gru_layers(network)[0]
    return network if scan is None else ScannedGru(network, scan)


def prepared(network: N, precision: Precision) -> N:
    """The network in evaluation mode with weights in a precision: itself, or a copy that shares all other tensors."""
    dtype = DTYPES.get(precision, torch.float32)
    cast = _dtype(network) != dtype
    if not cast and not network.training and precision != "int8":
        return network
    shared = () if cast else (*network.parameters(), *network.buffers())
    try:
        made = copied(network, {id(tensor): tensor for tensor in shared}).to(dtype).eval()
    except ValueError as error:
        raise RefusedError(f"{error}: decode it in fp32 and in evaluation mode") from error
    if precision == "int8":
        quantize(made)
        if isinstance(made, Transformer) and made.output is None and is_known(made, "project"):
            made.output = Int8Linear(made.target_embedding.weight, None)  # type: ignore[assignment]
    return made


def candidates(device: torch.device) -> tuple[Precision, ...]:
    """Precisions that `fastest` chooses from; the first is the default unless another is much faster. CUDA uses bf16
    unmeasured, if supported. fp16 may overflow in networks trained without it, so it must be requested."""
    if device.type == "cpu":
        return ("fp32", "int8", "bf16")
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return ("bf16",) if has_bf16 else ("fp32",)


def fastest(network: Network, device: torch.device) -> tuple[Selection, dict[Precision, float]]:
    """The selection with clearly the fastest steps on this device, and milliseconds per precision, the selected one
    first: a step of one row plus a step of sixteen. Precisions whose first steps are hopelessly slow, or in which an
    edited network fails, are left out, except the first, where the exception is raised."""
    found: dict[Precision, Selection] = {}
    times: dict[Precision, float] = {}
    best_ms: dict[int, float] = {}  # by rows
    for precision in candidates(device):
        if precision == "int8" and isinstance(network, RecurrentLanguageModel):
            continue
        try:
            selection = select(network, precision)
            measured: dict[int, float] = {}
            for rows in (1, 16):
                limit_ms = max(HOPELESS * best_ms.get(rows, math.inf), HOPELESS_MS)
                measured[rows] = step_ms(selection.decodable, rows, give_up_ms=limit_ms)
                if measured[rows] > limit_ms:
                    log.info("%s is left out: its first steps took %.0f ms or more each", precision, measured[rows])
                    break
            else:
                best_ms = {rows: min(ms, best_ms.get(rows, math.inf)) for rows, ms in measured.items()}
                times[precision], found[precision] = sum(measured.values()), selection
        except RefusedError as error:
            log.info("%s is left out: %s", precision, error)
        except Exception as error:
            if not found:
                raise
            log.warning("%s is left out, the network fails in it: %s: %s", precision, type(error).__name__, error)
    chosen = next(iter(times))
    for name in times:
        if times[chosen] > WORTH_IT * times[name]:
            chosen = name
    return found[chosen], {chosen: times[chosen], **times}


def step_ms(decodable: Decodable, rows: int, steps: int = 4, give_up_ms: float = math.inf) -> float:
    """Milliseconds of the fastest of a few steps over `rows` rows; of the first two alone if both take longer
    than `give_up_ms`."""
    state = decodable.allocate(rows, 16, steps + 1)
    decodable.prefill(state, range(rows), [Prompt((1,) * 16, (1,))] * rows)
    tokens = torch.ones(rows, dtype=torch.long, device=decodable.device)
    durations = []
    for _ in range(steps):
        started = time.perf_counter()
        decodable.step(state, tokens)[0, 0].item()
        durations.append(time.perf_counter() - started)
        if len(durations) == 2 and min(durations) * 1000 > give_up_ms:
            break
    return min(durations) * 1000
