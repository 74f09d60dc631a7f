"""What the code of `models.networks` is, and how it differs from the code that the kernels compute: definitions that
were replaced at run time, or whose fingerprints in their files are not those of `networks/fingerprints.tsv`, as of the
last tests of the kernels against them.

After an edit that changes no number, `python -m models.backends.native.coverage` rewrites the table. After an edit that
does, the kernels decline the network until they implement the change."""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import sys
import types
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

TABLE = "fingerprints.tsv"  # module, definition and fingerprint
NO_CODE = {"annotation", "returns", "type_comment", "simple", "ctx", "kind"}  # fields of a syntax tree
OTHER = "the top level of the file"
_imported: dict[str, dict[str, object]] = {}  # module -> states
_sources: dict[str, str | None] = {}  # None for a module that is bytecode alone


def remember(module: str) -> None:
    """Called at the end of a module of `models.networks`: what is replaced in it from then on is an edit."""
    imported: Any = sys.modules[module]
    _imported[module] = _states(module)
    _sources[module] = imported.__spec__ and imported.__spec__.loader.get_source(module)


def function_of(value: Any) -> Any:
    """The function of a property, classmethod or staticmethod; anything else as it is."""
    return value.fget if isinstance(value, property) else getattr(value, "__func__", value)


def is_code(value: object) -> bool:
    return isinstance(value, types.FunctionType | property | classmethod | staticmethod)


def methods(kind: type) -> set[str]:
    """The names of functions and properties defined in the body of a class."""
    return {name for name, value in vars(kind).items() if is_code(value)}


def state(value: Any) -> object:
    """A definition with what can be changed in place: the code of a function, the entries of a table, the bases of a
    class."""
    function = value if isinstance(value, types.FunctionType) else function_of(value)
    if isinstance(function, types.FunctionType):
        return value, function.__code__, function.__defaults__, {**(function.__kwdefaults__ or {})}
    if isinstance(value, dict) and all(map(callable, value.values())):
        return value, {**value}
    return value, value.__mro__ if isinstance(value, type) else None


def _states(module: str) -> dict[str, object]:
    """Label -> state of each definition of a module of ours."""
    space = vars(sys.modules[module])
    kinds = [kind for kind in space.values() if isinstance(kind, type) and kind.__module__ == module]
    owners = {"": space, **{f"{kind.__name__}.": vars(kind) for kind in kinds}}
    return {
        f"{owner}{name}": state(value)
        for owner, names in owners.items()
        for name, value in names.items()
        if not name.startswith("__") or is_code(value)
    }


def is_ours(module: str) -> bool:
    return module in _imported


def edits(module: str) -> list[str]:
    """The labels of the definitions that are not those that the kernels compute, such as "FeedForward.forward", also of
    new ones that only edited code can find."""
    before, now = _imported[module], _states(module)
    replaced = [] if before == now else [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return [*dict.fromkeys([*replaced, *_edited_in_file(module)])]


def edits_reached(module: str, used: Iterable[object]) -> list[str]:
    """Of `edits`, those of definitions that are `reached`, and of the top level of the file."""
    found = edits(module)
    counts = {*reached(module, used), OTHER} if found else set()
    return [label for label in found if label.partition(".")[0] in counts]


def clause(module: str, label: str) -> str:
    """A label of `edits` in words."""
    return f"the source of {module} cannot be read" if _sources[module] is None else f"{label} was edited"


def reached(module: str, used: Iterable[object]) -> set[str]:
    """The names of a module that these functions and classes have or find, also through others of the module."""
    space, found, values = vars(sys.modules[module]), set[str](), [*used]
    for value in values:  # which grows
        if isinstance(value, type):
            values += filter(is_code, vars(value).values())
            names = {value.__qualname__}
        else:
            function: Any = inspect.unwrap(function_of(value))
            names = {*_globals(getattr(function, "__code__", None))} & space.keys()
        values += [space[name] for name in names - found if getattr(space.get(name), "__module__", "") == module]
        found |= names
    return found


@cache
def _globals(code: types.CodeType | None) -> frozenset[str]:
    if code is None:
        return frozenset()
    own = {found.argval for found in dis.get_instructions(code) if found.opname == "LOAD_GLOBAL"}
    return frozenset(own.union(*(_globals(inner) for inner in code.co_consts if isinstance(inner, types.CodeType))))


@cache
def recorded(module: str) -> dict[str, str]:
    """Label -> fingerprint of each definition of a module, as of the last tests of the kernels against it."""
    lines = (files("models.networks") / TABLE).read_text(encoding="utf-8").splitlines()
    return {label: digits for name, label, digits in (line.split("\t") for line in lines) if name == module}


@cache
def _edited_in_file(module: str) -> tuple[str, ...]:
    known, source = recorded(module), _sources[module]
    if source is None:
        return (OTHER,)
    own = definitions(source)
    return tuple(label for label in {**known, **own} if own.get(label) != known.get(label))


def definitions(source: str) -> dict[str, str]:
    """Label -> fingerprint of each function, method, class body, import and table of a file, and of all else."""
    parts = dict[str, str]()
    for node in ast.parse(source).body:
        for label, part in _parts(node):
            parts[label] = parts.get(label, "") + _dumped(part)
    return {label: fingerprint(text) for label, text in parts.items()}


def _parts(node: ast.stmt) -> Iterator[tuple[str, object]]:
    """What a statement of a file defines: label and syntax."""
    match node:
        case ast.ClassDef():
            yield node.name, [node.bases, node.decorator_list]
            for inner in node.body:
                yield (f"{node.name}.{inner.name}" if isinstance(inner, ast.FunctionDef) else node.name), inner
        case ast.FunctionDef():
            yield node.name, node
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((alias.asname or alias.name, [getattr(node, "module", ""), alias.name]) for alias in names)
        case ast.Assign() | ast.AnnAssign() if node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = (name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
            yield from ((name.id, node.value) for name in named)
        case _:
            yield OTHER, node


def _dumped(node: object) -> str:
    """A syntax tree without docstrings and annotations; unlike `ast.dump`, the same text in every version of Python."""
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


def fingerprint(value: Any) -> str:
    """Of a text, or of the source of a function; "" of anything else."""
    if not isinstance(value, str):
        try:
            value = inspect.getsource(function_of(value).__code__)
        except (AttributeError, OSError):
            return ""
    return hashlib.sha256(value.encode()).hexdigest()[:8]
