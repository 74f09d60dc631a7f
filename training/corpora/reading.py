"""An argument of the command line to Pairs, in whichever format it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from training.corpora.files import stem_suffix
from training.corpora.huggingface import PREFIX, read_huggingface
from training.corpora.jsonl import Languages, read_jsonl
from training.corpora.moses import read_moses
from training.corpora.pairs import Pairs, Row, collect, joined
from training.corpora.sides import facing
from training.corpora.tmx import read_tmx
from training.corpora.tsv import Columns, read_tsv
from training.errors import TrainingError

JSON_LINES = (".jsonl", ".ndjson", ".json")
FORMATS = "SOURCE,TARGET (two files), one file of tab-separated pairs, .jsonl, .tmx (each also .gz), or hf:NAME"


def read_pairs(argument: str, languages: Languages | None = None, columns: Columns | None = None) -> Pairs:
    """languages: codes of source and target, by which JSONL, TMX and data sets are read. columns: of a
    tab-separated file, whose order is otherwise found. TrainingError, in one sentence, for what is not pairs."""
    pairs = collect(_rows(argument, languages, columns), argument)
    if languages is None or not _goes_by_order(argument):
        return pairs
    return facing(pairs, languages, may_turn=columns is None and Path(argument).exists())


def read_corpora(arguments: Sequence[str], languages: Languages | None = None, columns: Columns | None = None) -> Pairs:
    """Several corpora as one, in their order."""
    return joined([read_pairs(argument, languages, columns) for argument in arguments])


def _rows(argument: str, languages: Languages | None, columns: Columns | None) -> Iterable[Row]:
    if argument.startswith(PREFIX):
        return read_huggingface(argument, languages)
    path = Path(argument)
    if not path.exists():
        return read_moses(*_two_files(argument))
    suffix = stem_suffix(path)
    if suffix in JSON_LINES:
        return read_jsonl(path, languages)
    if suffix == ".tmx":
        if languages is None:
            raise TrainingError(f"{argument} may hold many languages: say which with --source and --target.")
        return read_tmx(path, languages)
    return read_tsv(path, columns)


def _goes_by_order(argument: str) -> bool:
    """Whether nothing but the order of columns or files says which side is the source."""
    return not argument.startswith(PREFIX) and stem_suffix(Path(argument)) not in (*JSON_LINES, ".tmx")


def _two_files(argument: str) -> tuple[Path, Path]:
    names = argument.split(",")
    if len(names) != 2:
        what = "does not exist" if len(names) == 1 else f"names {len(names)} files"
        raise TrainingError(f"{argument} {what}: give {FORMATS}.")
    return Path(names[0]), Path(names[1])


def columns_of(text: str | None) -> Columns | None:
    """`2,4` of the option --columns. TrainingError if it is no two numbers from 1."""
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise TrainingError(f"--columns takes two numbers from 1, source first, such as 2,4, not {text!r}.")
    return int(parts[0]), int(parts[1])
