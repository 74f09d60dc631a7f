"""Checks that a network is exactly the one that a faster implementation was written for.

A kernel that reads a network's weights computes the network only if it is unmodified. `difference` describes a change
of the modules (another class, an own `forward`, a hook, an additional parameter) or of the code (an edited, patched or
wrapped method, an edited helper). For changed networks, PyTorch runs the modules themselves."""

from __future__ import annotations

import ast
import collections
import copy
import dataclasses
import hashlib
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules import module as torch_module

from models.source_fingerprints import CODE
from models.undrawn import Undrawn

N = TypeVar("N", bound=nn.Module)
OURS = "models.networks"
IGNORED_FIELDS = {"annotation", "returns", "type_comment", "simple", "ctx", "kind"}
Name = tuple[Mapping[str, object], str, object]  # a namespace, a name in it, and its value
OWN_DIGITS = 8
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
DECORATED = torch.no_grad()(lambda: None).__code__  # shared by every function under PyTorch's gradient-mode decorators


PYTORCH: tuple[type[nn.Module], ...] = (
    *(nn.Linear, nn.LayerNorm, nn.Embedding, nn.Dropout, nn.Identity, nn.ModuleList),
    *(nn.RNN, nn.GRU, nn.LSTM),
)
FORWARDS = {kind: kind.forward for kind in PYTORCH}
CALL = nn.Module.__call__
NO_OPTIONS = {*vars(nn.Module()), "_flat_weights", "_flat_weight_refs"}  # attributes that are not options of a module
MISSING = object()
GENERATED = {"<string>", collections.__file__, dataclasses.__file__}  # files of generated methods
FUNCTIONS = {
    name: getattr(functional, name)
    for name in (
        *("relu", "gelu", "silu", "softmax", "dropout", "linear", "scaled_dot_product_attention", "layer_norm"),
        "embedding",
    )
}
"""Of torch.nn.functional, those that the networks use."""
METHODS: dict[str, set[str]] = {}
for _full in CODE:
    _kind, _, _name = _full.rpartition(".")
    METHODS.setdefault(_kind, set()).add(_name)


def as_written(network: nn.Module, kind: Callable[[Any], nn.Module]) -> nn.Module:
    """An unmodified network of the same config, without memory for its weights. kind: its constructor."""
    config, plain = _as_written.get(network, (None, None))
    if plain is None or config != network.config:
        with torch.device("meta"), Undrawn():
            plain = kind(network.config)
        _as_written[network] = network.config, plain
    return plain


_as_written: WeakKeyDictionary[nn.Module, tuple[object, nn.Module]] = WeakKeyDictionary()


def difference(network: nn.Module, plain: nn.Module, label: str = "") -> str | None:
    """How `network` and its modules differ from `plain` (of `as_written`), or their code from
    `models.source_fingerprints`; None if they do not. label: the name of `network` within a larger network."""
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
    for kind in kinds:
        yield from _changed_code(kind)


def differences_everywhere() -> Iterator[str]:
    """Changes of PyTorch that concern every network."""
    if any(getattr(torch_module, f"_global{name}") for name in HOOKS):
        yield "every module has a global hook"
    for name, function in FUNCTIONS.items():
        if getattr(functional, name) is not function:
            yield f"torch.nn.functional.{name} was patched"


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
        if getattr(tensor, "shape", None) != getattr(wanted["_parameters"][name], "shape", None):
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
    return kind is type(None) or kind in FORWARDS or (kind.__module__.startswith(OURS) and kind.__qualname__ in METHODS)


def methods(kind: type) -> set[str]:
    """The names of functions and properties defined in the body of a class."""
    kinds = (types.FunctionType, property, classmethod, staticmethod)
    return {name for name, value in vars(kind).items() if isinstance(value, kinds)}


def _changed_code(kind: type[nn.Module]) -> Iterator[str]:
    if kind.__call__ is not CALL:
        yield f"{kind.__qualname__}.__call__ was patched"
    if kind in FORWARDS:
        forward = kind.forward
        if forward is not FORWARDS[kind] or not forward.__module__.startswith("torch.nn.modules"):
            yield f"{kind.__qualname__}.forward was patched"
        return
    names = METHODS.get(kind.__qualname__, set()) | methods(kind)
    for name in sorted(names, key=lambda name: (name == "__init__", name)):
        full = f"{kind.__qualname__}.{name}"
        if changed := code_difference(inspect.getattr_static(kind, name, None), full, full):
            yield changed


def code_difference(function: object, known: str, label: str) -> str | None:
    """How a function differs from the fingerprint `CODE[known]`; None if it does not."""
    digits = fingerprint(function)
    if digits and digits == CODE.get(known):
        return None
    return f"{label} was edited" if digits else f"the source of {label} cannot be read"


def is_known(module: nn.Module, method: str) -> bool:
    """Whether a module's method matches its recorded fingerprint."""
    kind = type(module)
    full = f"{kind.__qualname__}.{method}"
    return method not in module.__dict__ and code_difference(getattr(kind, method, None), full, full) is None


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
    base = next((kind for kind in type(network).__mro__ if kind.__module__.startswith(OURS)), object)
    names, parts = WHOLE.get(base.__qualname__, ((), ""))
    kind, edited = type(network).__qualname__, [name for name in names if _own_code_differs(network, base, name)]
    edits = [f"{kind}.{name} was edited" for name in edited]
    if names and any(network.__dict__[hooks] for hooks in HOOKS):
        edits.append("The network as a whole has a hook")
    for edit in edits:
        raise ValueError(
            f"{edit}. Training, decoding, scoring and inspection do not all run it; they run {parts}: change these, or"
            " the modules inside. (After an edit that changes no number: python -m models.backends.native.coverage)"
        )


def _own_code_differs(network: object, base: type, name: str) -> bool:
    """Compares a method without its helpers, whose edits apply everywhere; or, without source, its module."""
    function = getattr(type(network), name)
    digits = fingerprint(function)
    if name in vars(network) or not digits:
        return name in vars(network) or function.__module__ != base.__module__
    return digits[:OWN_DIGITS] != CODE[f"{base.__qualname__}.{name}"][:OWN_DIGITS]


def uncopyable(network: nn.Module) -> str | None:
    """The name of a module that has an own function in place of a method, which in a copy would still run the original
    module. "the network": the network itself."""
    for name, module in network.named_modules():
        for key, own in module.__dict__.items():
            if isinstance(own, types.FunctionType) and hasattr(type(module), key):
                return name or "the network"
    return None


def copied(network: N, memo: dict[int, object]) -> N:
    """A deep copy that shares the tensors in memo (by id). ValueError if a module cannot be copied."""
    if name := uncopyable(network):
        raise ValueError(f"{name} has a forward that no copy can have")
    try:
        return copy.deepcopy(network, memo)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"the network has a tensor or an object that no copy can have ({error})") from error


def fingerprint(function: object) -> str:
    """A hash of a function in hexadecimal, "" without Python source: `OWN_DIGITS` of its syntax tree without docstrings
    and annotations, then as many that include the functions and constants of `models.networks` in use, recursively."""
    if isinstance(function, property):
        function = function.fget
    if not isinstance(function, types.FunctionType):
        return ""
    if function.__code__ is DECORATED:
        return fingerprint(inspect.getclosurevars(function).nonlocals["func"])
    known = _fingerprints.get(function)
    state = function.__code__, function.__defaults__, function.__kwdefaults__
    if known is not None and known[1] == state and all(d.get(name) is value for d, name, value in known[2]):
        return known[0]
    read: list[Name] = []
    lines = list(_described(function, set(), read))
    texts = (lines[0], "\n".join(lines)) if all(lines) else ()
    digits = "".join(hashlib.sha256(text.encode()).hexdigest()[:OWN_DIGITS] for text in texts)
    if function.__closure__ is None:
        _fingerprints[function] = digits, state, read
    return digits


_fingerprints: WeakKeyDictionary[types.FunctionType, tuple[str, tuple[object, ...], list[Name]]]
_fingerprints = WeakKeyDictionary()  # digits; code, defaults and names read, to detect changes


def _described(function: types.FunctionType, seen: set[types.CodeType], read: list[Name]) -> Iterator[str]:
    """The lines of a fingerprint. read: collects the names looked up, with their namespaces and values."""
    if function.__code__ in seen:
        return
    seen.add(function.__code__)
    text, names = _syntax(function.__code__)
    yield text
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        simple = isinstance(default, bool | int | float | str | slice | tuple)
        yield f"default {default!r}" if simple else f"default {type(default).__qualname__}"
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    closure = {name: cell.cell_contents for name, cell in cells}
    for name in names:
        value = closure.get(name) if name in closure else function.__globals__.get(name)
        if name not in closure:
            read.append((function.__globals__, name, value))
        if isinstance(value, types.FunctionType) and (name in closure or value.__module__.startswith(OURS)):
            yield from _described(value, seen, read)
        elif isinstance(value, bool | int | float | str):
            yield f"{name} = {value!r}"
        elif isinstance(value, types.ModuleType):
            replaced = sys.modules.get(value.__name__) is not value
            yield f"{name}: {'another' if replaced else 'module'} {value.__name__}"
        elif isinstance(value, type) and value.__module__.startswith(OURS) and not issubclass(value, nn.Module):
            yield f"{name}: {value.__module__}.{value.__qualname__}"
            yield from _described_class(value, seen, read)
        else:
            kind = value if isinstance(value, type | types.FunctionType) else type(value)
            yield f"{name}: {kind.__module__}.{kind.__qualname__}"


def _described_class(kind: type, seen: set[types.CodeType], read: list[Name]) -> Iterator[str]:
    """The lines of a helper class: methods, fields and defaults."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    for name, member in sorted(vars(kind).items()):
        read.append((vars(kind), name, member))
        if name in ("_fields", "_field_defaults"):
            yield f"{kind.__qualname__}.{name} = {member!r}"
            continue
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not isinstance(function, types.FunctionType):
            continue
        if function.__code__.co_filename == file:
            yield from _described(function, seen, read)
        elif function.__code__.co_filename not in GENERATED:
            yield f"{kind.__qualname__}.{name}: {function.__module__}.{function.__qualname__}"


@cache
def _syntax(code: types.CodeType) -> tuple[str, tuple[str, ...]]:
    """A function's syntax tree as text ("" without source), and its free names."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(code))).body
    except (OSError, SyntaxError, ValueError):
        return "", ()
    names = set[str]()
    text = "".join(_dumped(tree, names))
    return text, tuple(sorted(names - {*code.co_varnames, *code.co_cellvars}))


def _dumped(node: object, names: set[str]) -> Iterator[str]:
    """names: collects the names in the tree."""
    if isinstance(node, ast.AST):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return  # a docstring
        if isinstance(node, ast.AnnAssign):
            if node.value is None:
                return
            node = ast.Assign(targets=[node.target], value=node.value)
        if isinstance(node, ast.Name):
            names.add(node.id)
        yield f"{type(node).__name__}("
        for name, value in ast.iter_fields(node):
            if name not in IGNORED_FIELDS and value not in (None, []):
                yield f"{name}="
                yield from _dumped(value, names)
        yield ")"
    elif isinstance(node, list):
        for part in node:
            yield from _dumped(part, names)
        yield ";"
    else:
        yield f"{node!r},"
