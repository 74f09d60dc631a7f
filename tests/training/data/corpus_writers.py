"""Small corpora in files, and how a faulty one is refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from training.data.corpus_loading import read_pairs
from training.errors import TrainingError

PAIRS = [("Der Hund schläft.", "The dog is asleep."), ("Wo ist die Küche?", "Where is the kitchen?")]


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def refusal(read: Callable[..., Any], *arguments: Any) -> str:
    """The message, which must be one sentence on one line."""
    with pytest.raises(TrainingError) as excinfo:
        read(*arguments)
    message = str(excinfo.value)
    assert message.endswith((".", "?"))
    assert "\n" not in message
    assert len(message) < 500
    return message


def fault(argument: object, *options: Any) -> str:
    return refusal(read_pairs, str(argument), *options)


def tsv(pairs: Sequence[tuple[str, str]]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def jsonl(pairs: Sequence[tuple[str, str]]) -> str:
    return "".join(json.dumps({"de": source, "en": target}) + "\n" for source, target in pairs)


def tmx(
    pairs: Sequence[tuple[str, str]], codes: tuple[str, str] = ("de-DE", "en-GB"), attribute: str = "xml:lang"
) -> str:
    units = "".join(
        "<tu>"
        + "".join(f'<tuv {attribute}="{c}"><seg>{escape(t)}</seg></tuv>' for c, t in zip(codes, pair, strict=True))
        + "</tu>\n"
        for pair in pairs
    )
    return f'<?xml version="1.0"?>\n<tmx version="1.4"><header/><body>\n{units}</body></tmx>\n'
