"""Checks that a network is exactly the one that a faster implementation was written for.

A kernel that reads a network's weights computes the network only if it is unmodified. `difference` describes a change
of the modules (another class, an own `forward`, a hook, an additional parameter) or of the code
(`models.source_fingerprints`). For changed networks, PyTorch runs the modules themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules import module as torch_module
from torch.overrides import TorchFunctionMode

from models.source_fingerprints import OTHER, clause, edits, edits_reached, is_ours, reached, recorded, state

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
LAYERS = (nn.Linear, nn.LayerNorm, nn.Embedding, nn.Dropout, nn.Identity, nn.ModuleList, nn.RNN, nn.GRU, nn.LSTM)
CALLS = ("forward", "__call__", "_call_impl", "__getattr__")
NO_OPTIONS = {*vars(nn.Module()), "_flat_weights", "_flat_weight_refs"}  # attributes that are not options of a module
MISSING = object()
TENSORS = {type(None), nn.Parameter, torch.Tensor}  # a weight of another class may compute with code of its own
FUNCTION_NAMES = ("relu", "gelu", "silu", "softmax", "dropout", "linear", "layer_norm", "embedding")
FUNCTIONS = {name: getattr(functional, name) for name in (*FUNCTION_NAMES, "scaled_dot_product_attention")}
"""Of torch.nn.functional, those that the networks use."""
OPERATORS = ((torch, "relu"), (torch._VF, "rnn_tanh"), (torch._VF, "gru"), (torch._VF, "lstm"))
"""That FUNCTIONS and LAYERS call."""


DRAWS = {
    *(Tensor.normal_, Tensor.uniform_),
    *(nn.init.normal_, nn.init.uniform_, nn.init.trunc_normal_, nn.init.orthogonal_),
    *(nn.init.xavier_uniform_, nn.init.xavier_normal_, nn.init.kaiming_uniform_, nn.init.kaiming_normal_),
}


class Undrawn(TorchFunctionMode):
    """Skips random initialisation, for networks about to be loaded; computed tensors (zeros, tables) are unaffected. On
    the meta device, too: there, PyTorch draws through `torch._refs`, whose first use imports its compiler, 1.2 s of a
    CPU in every process that translates."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in DRAWS:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def as_written(network: nn.Module, kind: type[nn.Module]) -> nn.Module:
    """An unmodified network of the same config, without memory for its weights. Do not change it."""
    config, plain = _as_written.get(network, (None, None))
    if plain is None or config != network.config:
        plain = without_memory(kind, network.config)
        _as_written[network] = network.config, plain
    return plain


_as_written: WeakKeyDictionary[nn.Module, tuple[object, nn.Module]] = WeakKeyDictionary()


def without_memory(kind: Callable[[Any], nn.Module], config: Any) -> nn.Module:
    """A network on the meta device; of unedited code the same one for the same config, so do not change it."""
    build = _on_meta.__wrapped__ if not is_ours(kind.__module__) or edits(kind.__module__) else _on_meta
    return build(kind, config, repr(config))


@lru_cache(maxsize=8)
def _on_meta(kind: Callable[[Any], nn.Module], config: Any, spelt: str) -> nn.Module:
    """spelt: tells configs apart that are equal, such as those of a dropout of 0 and of 0.0."""
    with torch.device("meta"), Undrawn():
        return kind(config)


def states_of_pytorch() -> dict[str, object]:
    """Label -> state of what the networks use of PyTorch."""
    return {
        **{f"torch.nn.functional.{name}": state(getattr(functional, name)) for name in FUNCTIONS},
        **{f"torch.{name}": state(getattr(space, name)) for space, name in OPERATORS},
        **{f"{kind.__name__}.{name}": state(getattr(kind, name)) for kind in (nn.Module, *LAYERS) for name in CALLS},
    }


IMPORTED = states_of_pytorch()
FOREIGN = [kind for kind in LAYERS if not kind.forward.__module__.startswith("torch.nn.modules")]  # patched before


def differences_everywhere() -> Iterator[str]:
    """Changes of PyTorch that concern every network."""
    if any(getattr(torch_module, f"_global{name}") for name in HOOKS):
        yield "every module has a global hook"
    yield from (f"{label} was patched" for label, now in states_of_pytorch().items() if now != IMPORTED[label])
    yield from (f"{kind.__name__}.forward was patched" for kind in FOREIGN)


def difference(network: nn.Module, plain: nn.Module, label: str = "") -> str | None:
    """How `network` and its modules differ from `plain` (of `as_written`) or their code from the recorded one; None if
    they do not. label: the name of `network` within a larger network."""
    return next(differences(network, plain, label), None)


def differences(network: nn.Module, plain: nn.Module, label: str = "") -> Iterator[str]:
    """As `difference`: one for each module that differs, and one for each method."""
    yield from differences_everywhere()
    plain_modules, kinds = dict(plain.named_modules(remove_duplicate=False)), dict[type[nn.Module], None]()
    for name, module in network.named_modules(remove_duplicate=False):
        wanted = plain_modules.get(name)
        if name and (type(module) is not type(wanted) or not _known(type(module))):
            continue  # the module that contains it is the one that differs
        kinds[type(module)] = None
        if wanted is not None and (found := module_difference(module, wanted) or _child_difference(module, wanted)):
            yield f"{'.'.join(filter(None, (label, name))) or 'the network'} {found}"
        elif not _known(type(module)):  # plain was made by edited code, too
            yield f"{label or 'the network'} is a {type(module).__qualname__}"
    for module in dict.fromkeys(kind.__module__ for kind in kinds if is_ours(kind.__module__)):
        used = [kind for kind in kinds if kind.__module__ == module]
        yield from (clause(module, label) for label in edits_reached(module, used))


def module_difference(module: nn.Module, plain: nn.Module) -> str | None:
    """How a module differs from `plain` in its class, hooks, options and tensors, without the modules inside and
    without its code; None if it does not."""
    if type(module) is not type(plain):
        return f"is a {type(module).__qualname__}"
    own, wanted = vars(module), vars(plain)
    if any(own[name] for name in HOOKS):
        return "has a hook"
    for kind in ("_parameters", "_buffers"):  # a weight that became a buffer, or the reverse, differs too
        if odd := own[kind].keys() ^ wanted[kind].keys():
            return f"has other tensors: {', '.join(sorted(odd))}"
    for name in sorted((wanted.keys() | own.keys()) - NO_OPTIONS):
        option, plain_option = own.get(name, MISSING), wanted.get(name, MISSING)
        if plain_option is MISSING and not callable(option) and not hasattr(type(module), name):
            continue  # a note on the module, which no known code reads
        if option is not plain_option and (type(option) is not type(plain_option) or option != plain_option):
            return f"has another {name}"
    for name, tensor in own["_parameters"].items():
        plain_tensor = wanted["_parameters"][name]
        if type(tensor) not in TENSORS or (tensor is None) is not (plain_tensor is None):
            return f"has another {name}"
        if tensor is not None and tensor.shape != plain_tensor.shape:
            return f"has another {name}"
    return None


def _child_difference(module: nn.Module, plain: nn.Module) -> str | None:
    own, wanted = vars(module)["_modules"], vars(plain)["_modules"]
    if odd := own.keys() ^ wanted.keys():
        return f"has other modules inside: {', '.join(sorted(odd))}"
    for name, child in own.items():
        if type(child) is not type(wanted[name]) or not _known(type(child)):
            return f"has a {type(child).__qualname__} as its {name}"
    return None


def _known(kind: type) -> bool:
    return kind is type(None) or kind in LAYERS or kind.__qualname__ in recorded(kind.__module__)


def is_known(module: nn.Module, *names: str) -> bool:
    """Whether these methods of a module, and all that they find in its file, are as recorded."""
    kind = type(module)
    if not is_ours(kind.__module__) or not _known(kind) or not vars(module).keys().isdisjoint(names):
        return False
    edited = edits(kind.__module__)
    own = {OTHER, kind.__qualname__, *(f"{kind.__qualname__}.{name}" for name in names)}
    found = edited and reached(kind.__module__, [inspect.getattr_static(kind, name) for name in names])
    return not any(label in own or label.partition(".")[0] in found for label in edited)


WHOLE = {
    "Transformer": (("forward", "features", "decode"), "encode, decode_over and project"),
    "RecurrentLanguageModel": (
        ("forward", "features", "sequence", "_all_layers", "fused_layer"),
        "inputs, run, scan, dropped and project",
    ),
}
"""Methods that some uses of a network pass by, such as a cached step, and the methods that every use runs."""


def require_honoured(network: object) -> None:
    """ValueError for an edited method or a whole-network hook that some uses of the network would bypass."""
    base = next((kind for kind in type(network).__mro__ if is_ours(kind.__module__)), object)
    names, parts = WHOLE.get(base.__qualname__, ((), ""))
    edited = edits(base.__module__) if names else []
    for name in names:
        own = name in vars(network) or getattr(type(network), name) is not vars(base)[name]
        if own or f"{base.__qualname__}.{name}" in edited:
            _refuse(f"{type(network).__qualname__}.{name} was edited", parts)
    if names and any(vars(network)[hooks] for hooks in HOOKS):
        _refuse("The network as a whole has a hook", parts)


def _refuse(edit: str, parts: str) -> None:
    raise ValueError(
        f"{edit}. Training, decoding, scoring and inspection do not all run it; they run {parts}: change these, or"
        " the modules inside. (After an edit that changes no number: python -m models.backends.native.coverage)"
    )
