"""Every key of a configuration, such as `optimizer.rate`: its type, its default and what its comment says."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, get_type_hints

from models.recurrent import RecurrentConfig
from models.transformer_config import TransformerConfig
from training.configuration.lyrics import LyricsConfig
from training.configuration.translator import TranslatorConfig

type_of_network: dict[type, type] = {TranslatorConfig: TransformerConfig, LyricsConfig: RecurrentConfig}
FROM_THE_DATA = {"vocabulary", "source_vocabulary", "target_vocabulary", "pad"}  # no user sets these


@dataclass(frozen=True, slots=True)
class Key:
    """annotation: the type, resolved; default: MISSING where there is none."""

    annotation: Any
    default: Any
    comment: str


def keys(kind: type) -> Mapping[str, Key]:
    """Dotted names in the order of the fields, a part's behind those of the whole."""
    return dict(sorted(_keys(kind), key=lambda item: item[0].count(".")))


def _keys(kind: type) -> Iterator[tuple[str, Key]]:
    hints, said = get_type_hints(kind), comments(kind)
    for field in fields(kind):
        part = type_of_network.get(kind) if field.name == "network" else hints[field.name]
        if part is not None and is_dataclass(part):
            assert isinstance(part, type)
            yield from ((f"{field.name}.{name}", key) for name, key in _keys(part) if name not in FROM_THE_DATA)
        else:
            default = field.default if field.default_factory is MISSING else field.default_factory()
            yield field.name, Key(hints[field.name], default, said.get(field.name, ""))


def comments(kind: type) -> Mapping[str, str]:
    """What the source says of each field: the comment on its line, or the docstring behind `name:`."""
    source = inspect.getsource(kind)
    names = [field.name for field in fields(kind)]
    paragraphs = [" ".join(part.split()) for part in (inspect.getdoc(kind) or "").split("\n\n")]
    mark = re.compile(rf"(?:^|(?<=[.;] ))(?=(?:{'|'.join(names)})(?:, \w+)*: )")
    said = {}
    for part in (part for paragraph in paragraphs for part in mark.split(paragraph)):
        heading, colon, text = part.partition(": ")
        if colon:
            said.update(dict.fromkeys(set(heading.split(", ")) & set(names), text.strip().rstrip(".;")))
    lines = source.splitlines()
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            _, hash_, text = lines[(node.end_lineno or 1) - 1][node.end_col_offset or 0 :].partition("#")
            if hash_:
                said[node.target.id] = "; ".join(filter(None, [said.get(node.target.id), text.strip()]))
    return said
