"""A tensor that claims a CUDA device and holds its numbers in a CPU tensor, and what PyTorch's operators do with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from models.backends.cuda.launch import Launch
from tests.cuda_simulator.counts import Copy
from tests.cuda_simulator.device import Memory, SimulatedDevice
from tests.cuda_simulator.graphs import Recorded
from tests.models.backends.cuda import reference

if TYPE_CHECKING:
    from tests.cuda_simulator.simulator import SimulatedCuda

Operator = Any  # torch._ops.OpOverload
SYNCHRONISING = {
    *("nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "bincount", "repeat_interleave"),
    *("equal", "_pack_padded_sequence"),
}
"""Operators whose result's size or value the host needs."""
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv"}
NO_LAUNCH = {"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "_unsafe_view", "record_stream"}
UNINITIALISED = NO_LAUNCH - {"_unsafe_view", "record_stream"}


class SimulatedTensor(torch.Tensor):
    """held: the numbers. memory: what it occupies on its device, shared with its views."""

    held: Tensor
    memory: Memory

    @staticmethod
    def __new__(cls, held: Tensor, memory: Memory) -> SimulatedTensor:
        made: SimulatedTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=memory.device.name,
        )
        made.held, made.memory = held, memory
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Operator, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in tensors_in((*args, *(kwargs or {}).values())):
            if isinstance(tensor, SimulatedTensor):
                return tensor.memory.device.cuda.operators.call(func, args, kwargs or {})
        raise AssertionError("no tensor of a simulated device")

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copied = self.detach().clone()
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, self.requires_grad)
        memo[id(self)] = copied
        return copied

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, **_: Any) -> Any:
        raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() first.")

    def __repr__(self, **_: Any) -> str:
        return f"SimulatedTensor({self.device}, {tuple(self.shape)}, {self.dtype})"

    # `Module.to` swaps the contents of parameters, which keeps tied ones tied, only for classes with these two methods
    def __tensor_flatten__(self) -> Any:
        raise NotImplementedError("the simulator does not compile")

    @staticmethod
    def __tensor_unflatten__(*_: Any) -> Any:
        raise NotImplementedError("the simulator does not compile")


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """The tensors of an operator's arguments."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += tensors_in(value)
    return found


def held_by(value: Any) -> Any:
    """The arguments with CPU tensors in place of the simulated ones."""
    if isinstance(value, SimulatedTensor):
        return value.held
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return type(value)(held_by(part) for part in value)
    return value


def is_number(argument: Any) -> bool:
    """Whether it is a tensor in the host's memory, which a kernel gets by value: a recorded kernel keeps the number."""
    return isinstance(argument, Tensor) and not isinstance(argument, SimulatedTensor) and argument.dim() == 0


@dataclass(frozen=True, slots=True)
class Traits:
    """What an operator's schema says. written: positions or names of arguments that it writes to; returned: per result
    the argument that it returns, or None. view: whether its results share the memory of its first argument."""

    name: str
    composite: bool
    written: tuple[int | str, ...]
    returned: tuple[int | str | None, ...]
    view: bool


@cache
def traits(func: Operator) -> Traits:
    schema = func._schema
    name = func.overloadpacket.__name__
    written: list[int | str] = []
    aliases: list[tuple[set[str], int | str]] = []
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None:
            place = argument.name if argument.kwarg_only else position
            aliases.append((argument.alias_info.before_set, place))
            if argument.alias_info.is_write:
                written.append(place)
    returned: list[int | str | None] = []
    for result in schema.returns:
        info = result.alias_info
        same = [place for sets, place in aliases if info is not None and info.is_write and sets & info.before_set]
        returned.append(same[0] if same else None)
    view = name == "_unsafe_view" or any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return Traits(name, composite, tuple(written), tuple(returned), view)


class Operators(TorchDispatchMode):
    """Runs operators on simulated devices: checks devices, counts, records captures. As a mode it also sees operators
    that create tensors."""

    def __init__(self, cuda: SimulatedCuda) -> None:
        super().__init__()
        self.cuda = cuda
        self._special: dict[str, Callable[..., Any]] = {
            "_to_copy": self._to_copy,
            "copy_": self._copy_,
            "_local_scalar_dense": self._item,
            "is_pinned": lambda func, tensor, *_, **__: self.cuda.is_pinned(tensor),
            "_pin_memory": lambda func, tensor, *_, **__: self.cuda.pin(tensor.clone()),
            "pin_memory": lambda func, tensor, *_, **__: self.cuda.pin(tensor.clone()),
            "scaled_dot_product_attention": self._attention,
            "_fused_sdp_choice": lambda *_, **__: 0,  # decomposed, so that autograd sees parts it can differentiate
            "_thnn_fused_gru_cell": self._gru_cell,
            "_thnn_fused_lstm_cell": self._lstm_cell,
            "record_stream": lambda *_, **__: None,
            "detach_": lambda func, tensor: tensor,
        }

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """PyTorch would import its compiler, for seconds, to keep it away from this class; nothing here is compiled."""
        return False

    def __torch_dispatch__(self, func: Operator, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.call(func, args, kwargs or {})

    def call(self, func: Operator, args: Any, kwargs: dict[str, Any]) -> Any:
        """Runs one operator, on whatever device its arguments say."""
        tensors = tensors_in((*args, *kwargs.values()) if kwargs else args)
        simulated = [tensor for tensor in tensors if isinstance(tensor, SimulatedTensor)]
        wanted = kwargs.get("device")
        wanted = None if wanted is None else torch.device(wanted)
        known = traits(func)
        if not simulated and not (wanted is not None and wanted.type == "cuda"):
            if known.composite and any(isinstance(arg, torch.device) and arg.type == "cuda" for arg in args):
                return self._decomposed(func, args, kwargs)
            return self._on_the_cpu(func, known, args, kwargs)
        if known.name in self._special:
            return self._special[known.name](func, *args, **kwargs)
        if known.composite:  # inference mode passes these on undecomposed
            return self._decomposed(func, args, kwargs)
        if wanted is not None and wanted.type != "cuda":
            raise NotImplementedError(f"{known.name} of a CUDA tensor for {wanted}")
        device = self.cuda.device(wanted) if wanted is not None else self._common_device(known, tensors, simulated)
        if known.name in SYNCHRONISING:
            self._wait(device, known.name)
        if func is torch.ops.aten.mm.dtype:
            func = product_in  # a CPU build has none
        return self._run(device, known, func, args, kwargs, simulated)

    def _decomposed(self, func: Operator, args: Any, kwargs: dict[str, Any]) -> Any:
        with self:
            return func.decompose(*args, **kwargs)

    def _on_the_cpu(self, func: Operator, known: Traits, args: Any, kwargs: dict[str, Any]) -> Any:
        if known.name in ("is_pinned", "_pin_memory", "pin_memory"):
            return self._special[known.name](func, *args)
        pinned = kwargs.get("pin_memory")
        if pinned:
            kwargs = {**kwargs, "pin_memory": False}
        result = func(*args, **kwargs)
        return self.cuda.pin(result) if pinned else result

    def _common_device(self, known: Traits, tensors: list[Tensor], simulated: list[SimulatedTensor]) -> SimulatedDevice:
        """RuntimeError unless all tensors are on one device; a CPU tensor of one number may stand beside them, and CPU
        indices are copied."""
        device = simulated[0].memory.device
        written = known.name in ("index_put", "index_put_", "_index_put_impl_")
        indices: list[Tensor] = []
        if written or known.name in ("index", "_unsafe_index"):
            indices = tensors[1:-1] if written else tensors[1:]
        for tensor in tensors:
            if isinstance(tensor, SimulatedTensor):
                if tensor.memory.device is not device:
                    raise self._mixed(known, device.name, tensor.device)
            elif any(tensor is index for index in indices) and isinstance(tensors[0], SimulatedTensor):
                self._copied(device, Copy("H2D", self.cuda.is_pinned(tensor), True))
            elif tensor.dim():
                raise self._mixed(known, device.name, tensor.device)
        filled = written and tensors[-1].numel() == 1  # one number into the places of a mask needs no count of them
        if not filled and any(index.dtype in (torch.bool, torch.uint8) for index in indices):
            self._wait(device, "boolean mask")
        return device

    def _mixed(self, known: Traits, one: torch.device, other: torch.device) -> RuntimeError:
        return RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {one} and {other}!"
            f" (when checking an argument of {known.name})"
        )

    def _run(
        self,
        device: SimulatedDevice,
        known: Traits,
        func: Operator,
        args: Any,
        kwargs: dict[str, Any],
        simulated: Iterable[SimulatedTensor],
    ) -> Any:
        """Runs the operator on the held tensors and wraps its results. In a capture it is recorded. There it runs only
        if it writes to the capture's own memory: that gives its results their shapes, and leaves the rest as it is."""
        device.check()
        held_args = tuple(held_by(arg) for arg in args)
        options = {name: held_by(value) for name, value in kwargs.items() if name != "pin_memory"}
        if "device" in options:
            options["device"] = torch.device("cpu")
        if known.name not in NO_LAUNCH and not known.view:
            self._launched(device, known.name)
        capture = device.stream.capture
        scratch = device.workspace() if known.name in PRODUCTS else None
        targets = [args[place] if isinstance(place, int) else kwargs[place] for place in known.written]
        runs = capture is None or all(
            tensor.memory in capture.own for tensor in tensors_in(targets) if isinstance(tensor, SimulatedTensor)
        )
        result = func(*held_args, **options) if runs else None
        if known.view:
            base = args[0]
            with torch.inference_mode(base.is_inference()):  # a view in inference mode is what its base is
                return self._wrapped(result, lambda held: base.memory)  # type: ignore[no-any-return]
        outputs: list[Tensor] = []

        def new(held: Tensor) -> Memory:
            memory = Memory(device, held.untyped_storage().nbytes(), None if capture is None else capture.pool)
            if capture is not None:
                capture.made(memory, held)
                outputs.append(held)
            elif known.name in UNINITIALISED:
                _poison(held)
            return memory

        if known.written:
            wrapped = [None if place is None else self._given(place, args, kwargs) for place in known.returned]
            returned: Any = wrapped[0] if len(wrapped) == 1 else tuple(wrapped) or None
        else:
            returned = self._wrapped(result, new)
        if capture is not None and known.name not in UNINITIALISED:
            for tensor in simulated:
                capture.uses(known.name, tensor.memory)
            if scratch is not None:
                capture.uses(f"{known.name}'s workspace", scratch, lasting=True)
            frozen = tuple(arg.clone() if is_number(arg) else held for arg, held in zip(args, held_args, strict=True))
            capture.operators.append(Recorded(known.name, func, frozen, options, tuple(outputs)))
        return returned

    def _given(self, place: int | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[place] if isinstance(place, int) else kwargs[place]

    def _wrapped(self, result: Any, memory: Callable[[Tensor], Memory]) -> Any:
        if isinstance(result, Tensor):
            return SimulatedTensor(result, memory(result))
        if isinstance(result, list | tuple):
            return type(result)(self._wrapped(part, memory) for part in result)
        return result

    def _launched(self, device: SimulatedDevice, name: str) -> None:
        if device.stream.capture is None:
            device.counts.kernels[name] += 1

    def _wait(self, device: SimulatedDevice, cause: str) -> None:
        """The host waits for the device's stream."""
        device.check()
        if device.stream.capture is not None:
            raise device.stream.capture.illegal(cause)
        self.cuda.check_synchronisation(cause)
        device.counts.synchronised(cause)
        device.stream.finish()

    def _copied(self, device: SimulatedDevice, copy: Copy) -> None:
        device.check()
        if device.stream.capture is not None:
            if copy.blocking or not copy.pinned:
                raise device.stream.capture.illegal(f"a {'blocking ' if copy.blocking else ''}copy ({copy.direction})")
            return
        if copy.blocking:
            self.cuda.check_synchronisation("a blocking copy")
            device.stream.finish()
        device.counts.copied(copy)

    def _item(self, func: Operator, tensor: SimulatedTensor) -> Any:
        self._wait(tensor.memory.device, "item")
        return func(tensor.held)

    def _to_copy(self, func: Operator, source: Tensor, **options: Any) -> Tensor:
        """Between devices and dtypes. An asynchronous copy to the host lands in pinned memory, as in PyTorch."""
        wanted, non_blocking = options.pop("device", None), bool(options.pop("non_blocking", False))
        options.pop("pin_memory", None)
        target = source.device if wanted is None else torch.device(wanted)
        if target.type == "cuda":
            device = self.cuda.device(target)
            if isinstance(source, SimulatedTensor):
                if source.memory.device is device:
                    known = traits(func)
                    return self._run(device, known, func, (source,), options, [source])  # type: ignore[no-any-return]
                self._launched(device, "copy between devices")
                made = func(source.held, **options)
                return SimulatedTensor(made, Memory(device, made.untyped_storage().nbytes(), None))
            made = func(source, **options)
            wrapped = SimulatedTensor(made, self._memory(device, made))
            self._from_host(wrapped, source, non_blocking)
            return wrapped
        assert isinstance(source, SimulatedTensor)
        made = func(source.held, **options)
        self._to_host(self.cuda.pin(made) if non_blocking else made, source, non_blocking)
        return made

    def _memory(self, device: SimulatedDevice, held: Tensor) -> Memory:
        device.check()
        capture = device.stream.capture
        memory = Memory(device, held.untyped_storage().nbytes(), None if capture is None else capture.pool)
        if capture is not None:
            capture.made(memory, held)
        return memory

    def _copy_(self, func: Operator, target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
        if isinstance(target, SimulatedTensor) and isinstance(source, SimulatedTensor):
            device = target.memory.device
            if source.memory.device is device:
                return self._run(device, traits(func), func, (target, source), {}, [target, source])  # type: ignore[no-any-return]
            self._launched(device, "copy between devices")
            target.held.copy_(source.held)
        elif isinstance(target, SimulatedTensor):
            if source.dim() == 0 and not self.cuda.is_pinned(source):
                fill = torch.ops.aten.fill_.Tensor  # a number in host memory is a parameter of a kernel that fills
                return self._run(target.memory.device, traits(fill), fill, (target, source.clone()), {}, [target])  # type: ignore[no-any-return]
            self._from_host(target, source, non_blocking)
        else:
            assert isinstance(source, SimulatedTensor)
            self._to_host(target, source, non_blocking)
        return target

    def _from_host(self, target: SimulatedTensor, source: Tensor, non_blocking: bool) -> None:
        device, pinned = target.memory.device, self.cuda.is_pinned(source)
        self._copied(device, Copy("H2D", pinned, not non_blocking))
        held = target.held

        def copy() -> None:
            held.copy_(source)
            if pinned and non_blocking:
                device.stream.copy_from_host(source)

        if (capture := device.stream.capture) is not None:
            capture.uses("copy from the host", target.memory)
            capture.operators.append(Recorded("copy from the host", copy, (), {}, ()))
        else:
            copy()

    def _to_host(self, target: Tensor, source: SimulatedTensor, non_blocking: bool) -> None:
        device, pinned = source.memory.device, self.cuda.is_pinned(target)
        waits = not (non_blocking and pinned)  # a copy to pageable memory returns when it has ended
        self._copied(device, Copy("D2H", pinned, waits))
        held = source.held

        def copy() -> None:
            if waits:
                target.copy_(held)
            else:
                device.stream.copy_to_host(target, held.to(target.dtype, copy=True))

        if (capture := device.stream.capture) is not None:
            capture.uses("copy to the host", source.memory)
            capture.operators.append(Recorded("copy to the host", copy, (), {}, ()))
        else:
            copy()

    def _attention(self, func: Operator, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
        """One kernel, as PyTorch's fused attention is."""
        names = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
        return self._fused("attention", attention, (query, key, value), dict(zip(names, args, strict=False)) | kwargs)

    def _gru_cell(self, func: Operator, *args: Any) -> Any:
        hidden = self._fused("_thnn_fused_gru_cell", gru_cell, args, {})
        return hidden, hidden

    def _lstm_cell(self, func: Operator, *args: Any) -> Any:
        both = self._fused("_thnn_fused_lstm_cell", lstm_cell, args, {})
        hidden, cell = both.unbind(0)
        return hidden, cell, hidden

    def _fused(self, name: str, function: Callable[..., Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors = tensors_in((*args, *kwargs.values()) if kwargs else args)
        simulated = [tensor for tensor in tensors if isinstance(tensor, SimulatedTensor)]
        known = Traits(name, False, (), (None,), False)
        device = self._common_device(known, tensors, simulated)
        return self._run(device, known, function, args, kwargs, simulated)

    def launch(self, call: Launch) -> None:
        """A `models.backends.cuda.launch.Launcher`: one kernel, computed by its reference in PyTorch."""
        simulated = [argument for argument in call.arguments if isinstance(argument, SimulatedTensor)]
        known = Traits(call.kernel, False, (), (), False)
        device = self._common_device(known, tensors_in(call.arguments), simulated)
        device.check()
        self._launched(device, call.kernel)
        on_the_cpu = replace(call, arguments=held_by(call.arguments))
        if (capture := device.stream.capture) is not None:
            for tensor in simulated:
                capture.uses(call.kernel, tensor.memory)
            capture.operators.append(Recorded(call.kernel, reference.launch, (on_the_cpu,), {}, ()))
        else:
            with _disable_current_modes(), torch.inference_mode():
                reference.launch(on_the_cpu)


class DeviceIndices(TorchFunctionMode):
    """Puts the current device's index into "cuda": PyTorch asks the device guard for it, which is the one of `meta`."""

    def __init__(self, cuda: SimulatedCuda) -> None:
        super().__init__()
        self.cuda = cuda

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.device:
            return func(*args, **kwargs)
        for arg in args:
            if type(arg) is str or type(arg) is torch.device:
                args = tuple(self._indexed(arg) for arg in args)
                break
        if "device" in kwargs:
            kwargs = {**kwargs, "device": self._indexed(kwargs["device"])}
        return func(*args, **kwargs)

    def _indexed(self, arg: Any) -> Any:
        if arg == "cuda" if isinstance(arg, str) else isinstance(arg, torch.device) and arg == torch.device("cuda"):
            return self.cuda.current.name
        return arg


def _poison(held: Tensor) -> None:
    """Fills memory that the program has yet to write, so that reading it shows."""
    held.fill_(torch.nan if held.is_floating_point() else 1 if held.dtype == torch.bool else 113)


def product_in(one: Tensor, other: Tensor, dtype: torch.dtype) -> Tensor:
    """The product of two matrices, whose sums are not rounded to the dtype of the matrices."""
    return one.to(dtype) @ other.to(dtype)


def attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """[B, H, Q, D] in the layout of CUDA's kernels: the heads of a position side by side."""
    result = F.scaled_dot_product_attention(query, key, value, **options)
    return result.transpose(1, 2).contiguous().transpose(1, 2)


def gru_cell(
    inputs: Tensor, hidden_gates: Tensor, hidden: Tensor, bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> Tensor:
    inputs = inputs if bias is None else inputs + bias
    hidden_gates = hidden_gates if hidden_bias is None else hidden_gates + hidden_bias
    i, h = inputs.chunk(3, 1), hidden_gates.chunk(3, 1)
    reset, update = (i[0] + h[0]).sigmoid(), (i[1] + h[1]).sigmoid()
    new = (i[2] + reset * h[2]).tanh()
    return (hidden - new) * update + new


def lstm_cell(
    inputs: Tensor, hidden_gates: Tensor, cell: Tensor, bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> Tensor:
    """[2, B, N]: hidden state and cell."""
    gates = inputs + hidden_gates
    for added in (bias, hidden_bias):
        gates = gates if added is None else gates + added
    enter, forget, new, out = gates.chunk(4, 1)
    cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return torch.stack([out.sigmoid() * cell.tanh(), cell])
