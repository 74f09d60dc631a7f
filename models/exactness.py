"""Checks that a network is exactly the one that a faster implementation was written for.

A kernel that reads a network's weights computes the network only if it is unmodified. `difference` describes a change
of the modules (another class, an own `forward`, a hook, an additional parameter) or of the code of `models.networks`:
what was replaced at run time, or has another fingerprint in its file than in `networks/fingerprints.tsv`, as of the
last tests of the kernels against it. For changed networks, PyTorch runs the modules themselves.

After an edit that changes no number, `python -m models.backends.native.coverage` rewrites the table."""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules import module as torch_module
from torch.overrides import TorchFunctionMode

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
TABLE = "fingerprints.tsv"  # module, definition and fingerprint
NO_CODE = {"annotation", "returns", "type_comment", "simple", "ctx", "kind"}  # fields of a syntax tree
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


_as_written: WeakKeyDictionary[nn.Module, tuple[object, nn.Module]] = WeakKeyDictionary()


def as_written(network: nn.Module, kind: type[nn.Module]) -> nn.Module:
    """An unmodified network of the same config, without memory for its weights. Do not change it."""
    config, plain = _as_written.get(network, (None, None))
    if plain is None or config != network.config:
        plain = without_memory(kind, network.config)
        _as_written[network] = network.config, plain
    return plain


def without_memory(kind: Callable[[Any], nn.Module], config: Any) -> nn.Module:
    """A network on the meta device; of unedited code the same one for the same config, so do not change it."""
    build = _on_meta.__wrapped__ if not is_ours(kind.__module__) or edits(kind.__module__) else _on_meta
    return build(kind, config, repr(config))


@lru_cache(maxsize=8)
def _on_meta(kind: Callable[[Any], nn.Module], config: Any, spelt: str) -> nn.Module:
    """spelt: tells configs apart that are equal, such as those of a dropout of 0 and of 0.0."""
    with torch.device("meta"), Undrawn():
        return kind(config)


# Code


_imported: dict[str, dict[str, object]] = {}  # module of `models.networks` -> states of its definitions
_sources: dict[str, str | None] = {}  # None for a module that is bytecode alone


def remember(module: str) -> None:
    """Called at the end of a module of `models.networks`: what is replaced in it from then on is an edit."""
    imported: Any = sys.modules[module]
    _imported[module] = _states(module)
    _sources[module] = imported.__spec__ and imported.__spec__.loader.get_source(module)


def is_ours(module: str) -> bool:
    return module in _imported


def is_code(value: object) -> bool:
    return isinstance(value, types.FunctionType | property | classmethod | staticmethod)


def methods(kind: type) -> set[str]:
    """The names of functions and properties defined in the body of a class."""
    return {name for name, value in vars(kind).items() if is_code(value)}


def _function(value: Any) -> Any:
    """The function of a property, classmethod or staticmethod; anything else as it is."""
    return value.fget if isinstance(value, property) else getattr(value, "__func__", value)


def state(value: Any) -> object:
    """A definition with what can be changed in place: the code of a function, the entries of a table, the bases of a
    class."""
    function = _function(value)
    if isinstance(function, types.FunctionType):
        return value, function.__code__, function.__defaults__, {**(function.__kwdefaults__ or {})}
    if isinstance(value, dict) and all(map(callable, value.values())):
        return value, {**value}
    return value, value.__mro__ if isinstance(value, type) else None


def _states(module: str) -> dict[str, object]:
    """Label, such as "sinusoids" or "FeedForward.forward" -> state of each definition of a module."""
    space = vars(sys.modules[module])
    kinds = [kind for kind in space.values() if isinstance(kind, type) and kind.__module__ == module]
    owners = {"": space, **{f"{kind.__name__}.": vars(kind) for kind in kinds}}
    return {
        f"{owner}{name}": state(value)
        for owner, names in owners.items()
        for name, value in names.items()
        if is_code(value) or not name.startswith("__")
    }


def edits(module: str) -> dict[str, str]:
    """What is not as the kernels compute it: label of each definition that was replaced at run time or edited in its
    file, and the module's name for the rest of the file -> fingerprint of what is there now, "" of what is gone."""
    before, now = _imported[module], _states(module)
    changed = [] if before == now else [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return _edits_of_file(module) | {label: fingerprint(now.get(label, (None,))[0]) for label in changed}  # type: ignore[index]


def is_unreadable(module: str) -> bool:
    """Whether there is no source of a module to compare."""
    return _sources[module] is None


def clause(label: str) -> str:
    """A label of `edits` in words."""
    return f"the source of {label} cannot be read" if _sources.get(label, "") is None else f"{label} was edited"


def edits_of(kinds: Iterable[type], names: Collection[str] | None = None) -> dict[str, str]:
    """Of `edits`, those that concern these classes of ours: their methods, what these find in their file, and the rest
    of it. names: of the methods that count; None: all."""
    found = dict[str, str]()
    for kind in kinds:
        if not (edited := edits(module := kind.__module__)):
            continue
        counted = methods(kind) if names is None else {*names}
        used = _reached(module, [inspect.getattr_static(kind, name) for name in counted])
        for label, digits in edited.items():
            owner, _, name = label.partition(".")
            own = owner == kind.__name__ and (names is None or name in counted or not name)
            if own or label == module or owner in used - {kind.__name__}:
                found[label] = digits
    return found


def _reached(module: str, values: list[Any]) -> set[str]:
    """The names of a module that functions and classes find, also through others of the module."""
    space, found, values = vars(sys.modules[module]), set[str](), [*values]
    for value in values:  # which grows
        if isinstance(value, type):
            values += filter(is_code, vars(value).values())
        else:
            new = _globals(getattr(inspect.unwrap(_function(value)), "__code__", None)) - found
            values += [space[name] for name in new if getattr(space.get(name), "__module__", "") == module]
            found |= new
    return found


@cache
def _globals(code: types.CodeType | None) -> frozenset[str]:
    if code is None:
        return frozenset()
    own = {found.argval for found in dis.get_instructions(code) if found.opname == "LOAD_GLOBAL"}
    return frozenset(own.union(*(_globals(inner) for inner in code.co_consts if isinstance(inner, types.CodeType))))


@cache
def _edits_of_file(module: str) -> dict[str, str]:
    if (source := _sources[module]) is None:
        return {module: ""}
    rows = (files("models.networks") / TABLE).read_text(encoding="utf-8").splitlines()
    known = {label: digits for name, label, digits in (row.split("\t") for row in rows) if name == module}
    own = definitions(source)
    return {label or module: own.get(label, "") for label in {**known, **own} if own.get(label) != known.get(label)}


def definitions(source: str) -> dict[str, str]:
    """Label -> fingerprint of each function and method of a file, of the rest of each class, and of the rest of the
    file (label ""), without comments, docstrings and annotations."""
    parts = dict[str, str]()
    for node in ast.parse(source).body:
        own = getattr(node, "name", "")
        pieces: list[tuple[str, object]] = [(own, node)]
        if isinstance(node, ast.ClassDef):
            labels = (f"{own}.{part.name}" if isinstance(part, ast.FunctionDef) else own for part in node.body)
            pieces = [(own, [node.bases, node.decorator_list]), *zip(labels, node.body, strict=True)]
        for label, part in pieces:
            parts[label] = parts.get(label, "") + _dumped(part)
    return {label: _digits(text) for label, text in parts.items()}


def fingerprint(value: Any) -> str:
    """Of the source of a function; "" of anything else."""
    try:
        return _digits(inspect.getsource(_function(value).__code__))
    except (AttributeError, OSError):
        return ""


def _digits(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _dumped(node: object) -> str:
    """A syntax tree; unlike `ast.dump`, the same text in every version of Python."""
    if isinstance(node, list):
        return "".join(map(_dumped, node)) + ";"
    if not isinstance(node, ast.AST):
        return f"{node!r},"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return ""  # a docstring
    if isinstance(node, ast.AnnAssign):
        node = ast.Assign(targets=[node.target], value=node.value)  # type: ignore[arg-type]  # None: a field
    fields = ((name, field) for name, field in ast.iter_fields(node) if field not in (None, []))
    text = "".join(f"{name}={_dumped(field)}" for name, field in fields if name not in NO_CODE)
    return f"{type(node).__name__}({text})"


# Modules


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
    """How `network` and its modules differ from `plain` (of `as_written`) or their code from the known one; None if
    they do not. label: the name of `network` within a larger network."""
    return next(differences(network, plain, label), None)


def differences(network: nn.Module, plain: nn.Module, label: str = "") -> Iterator[str]:
    """As `difference`: one for each module that differs, and one for each definition."""
    yield from differences_everywhere()
    modules, others = (dict(each.named_modules(remove_duplicate=False)) for each in (network, plain))
    for name, module in modules.items():
        parent, _, last = name.rpartition(".")
        where, container = (".".join(filter(None, (label, each))) or "the network" for each in (name, parent))
        if (other := others.get(name)) is None:
            continue  # the module that contains it has other modules inside
        if type(module) is not type(other) or not _is_known(type(module)):  # `plain` was made by edited code, too
            kind = type(module).__qualname__
            yield f"{container} has a {kind} as its {last}" if name else f"{where} is a {kind}"
        elif found := module_difference(module, other):
            yield f"{where} {found}"
        elif odd := dict(module.named_children()).keys() ^ dict(other.named_children()).keys():
            yield f"{where} has other modules inside: {', '.join(sorted(odd))}"
    kinds = dict.fromkeys(type(module) for name, module in modules.items() if name in others)
    edited = edits_of(kind for kind in kinds if is_ours(kind.__module__))
    yield from map(clause, sorted(edited, key=lambda label: label.endswith(".__init__")))  # what it makes says more


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
        shapes = [None if each is None else each.shape for each in (tensor, wanted["_parameters"][name])]
        if type(tensor) not in TENSORS or shapes[0] != shapes[1]:
            return f"has another {name}"
    return None


def _is_known(kind: type) -> bool:
    return kind in LAYERS or is_ours(kind.__module__)


def is_known(module: nn.Module, *names: str) -> bool:
    """Whether these methods of a module, and all that they name in its file, are as the kernels were written for."""
    own = not vars(module).keys().isdisjoint(names)
    return is_ours(type(module).__module__) and not own and not edits_of([type(module)], names)


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
    edited = edits(base.__module__) if names else {}
    found = "The network as a whole has a hook" if names and any(vars(network)[hooks] for hooks in HOOKS) else ""
    for name in names:
        own = name in vars(network) or getattr(type(network), name) is not vars(base)[name]
        if own or f"{base.__qualname__}.{name}" in edited:
            found = f"{type(network).__qualname__}.{name} was edited"
    if found:
        raise ValueError(
            f"{found}. Training, decoding, scoring and inspection do not all run it; they run {parts}: change these, or"
            " the modules inside. (After an edit that changes no number: python -m models.backends.native.coverage)"
        )
