"""A corpus argument of the command line -> sentence pairs for a translator, or a text for a lyricist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.config.run_config import CleaningConfig
from training.data.cleaning import clean, hold_out
from training.data.corpus_readers import (
    BYTE_ORDER_MARK,
    HUGGINGFACE_PREFIX,
    Columns,
    Languages,
    Record,
    check_characters,
    dataset_records,
    decode_lines,
    json_records,
    open_corpus_file,
    read_moses,
    read_records,
    read_tsv,
    stem_suffix,
)
from training.data.sentence_pairs import Pairs, Row, collect_pairs, join_corpora
from training.data.tmx import read_tmx
from training.errors import TrainingError

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

FEWEST_PAIRS = 10  # pairs, for a judgement
SAMPLED_PAIRS = 100  # of each side, evenly spread
SAMPLED_CHARACTERS = 200  # of each of them


def swap_reversed_sides(pairs: Pairs, languages: Languages, *, may_swap: bool) -> Pairs:
    """The same pairs; where their sides are the other way around, swapped if `may_swap`, else with a question in their
    report. The order of two columns or two files alone is easily the wrong one: Anki's decks begin with English,
    whatever is to be translated."""
    if not are_reversed(pairs, languages):
        return pairs
    (source, target), report = languages, pairs.reported()
    if may_swap:
        note = f"holds {target} first and {source} second, and is read so; if that is wrong, say --columns"
        report.swap_sides()
        pairs = replace(pairs, sources=pairs.targets, targets=pairs.sources)
    else:
        note = f"reads as {target} on its source side and as {source} on its target side"
        note = f"{note}: are they the other way around?"
    report.notes.append(f"{pairs.origin} {note}")
    return replace(pairs, report=report)


def are_reversed(pairs: Pairs, languages: Languages) -> bool:
    """Whether, of all languages, the targets look most like the source language and the sources like the target's."""
    source, target = (code.lower().replace("_", "-").partition("-")[0] for code in languages)
    if len(pairs) < FEWEST_PAIRS or source == target:
        return False
    return _language_of(pairs.targets) == source and _language_of(pairs.sources) == target


def _language_of(texts: Sequence[str]) -> str:
    sample = texts[:: -(-len(texts) // SAMPLED_PAIRS)]
    return str(_identifier().rank(" ".join(text[:SAMPLED_CHARACTERS] for text in sample))[0][0])


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # a second and 100 MB, and many corpora need none

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=False)


JSON_LINES = (".jsonl", ".ndjson", ".json")
FORMATS = "SOURCE,TARGET (two files), one file of tab-separated pairs, .jsonl, .tmx (each also .gz), or hf:NAME"


def read_pairs(argument: str, languages: Languages | None = None, columns: Columns | None = None) -> Pairs:
    """languages: codes of source and target, by which JSONL, TMX and data sets are read. columns: of a
    tab-separated file, whose order is otherwise found. TrainingError, in one sentence, for what is not pairs."""
    pairs = collect_pairs(_rows(argument, languages, columns), argument)
    names_sides = argument.startswith(HUGGINGFACE_PREFIX) or stem_suffix(Path(argument)) in (*JSON_LINES, ".tmx")
    if languages is None or names_sides:
        return pairs
    return swap_reversed_sides(pairs, languages, may_swap=columns is None and Path(argument).exists())


def read_corpora(arguments: Sequence[str], languages: Languages | None = None, columns: Columns | None = None) -> Pairs:
    """Several corpora as one, in their order."""
    return join_corpora([read_pairs(argument, languages, columns) for argument in arguments])


def read_run_corpora(
    data: Mapping[str, Any], languages: tuple[str, str], cleaning: CleaningConfig, seed: int
) -> tuple[Pairs, Pairs | None, Pairs | None]:
    """Training pairs, cleaned; validation pairs, held out of them if none are given; test pairs. data: role ->
    corpus or columns, as the command line names them."""
    columns = parse_columns(data.get("columns"))
    valid, test = (read_pairs(data[role], languages, columns) if data.get(role) else None for role in ("valid", "test"))
    corpora = [data["train"]] if isinstance(data["train"], str) else data["train"]  # a run file may name a single one
    train = clean(read_corpora(corpora, languages, columns), cleaning, validation=valid, test=test)
    if valid is None:
        train, valid = hold_out(train, seed)
    return train, valid, test


def _rows(argument: str, languages: Languages | None, columns: Columns | None) -> Iterable[Row]:
    if argument.startswith(HUGGINGFACE_PREFIX):
        return read_records(dataset_records(argument), languages)
    path = Path(argument)
    if not path.exists():
        names = argument.split(",")
        if len(names) != 2:
            problem = "does not exist" if len(names) == 1 else f"names {len(names)} files"
            raise TrainingError(f"{argument} {problem}: give {FORMATS}.")
        return read_moses(Path(names[0]), Path(names[1]))
    suffix = stem_suffix(path)
    if suffix in JSON_LINES:
        return read_records(json_records(path), languages)
    if suffix == ".tmx":
        if languages is None:
            raise TrainingError(f"{argument} may hold many languages: say which with --source and --target.")
        return read_tmx(path, languages)
    return read_tsv(path, columns)


def parse_columns(text: str | None) -> Columns | None:
    """`2,4` of the option --columns. TrainingError if it is no two numbers from 1."""
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise TrainingError(f"--columns takes two numbers from 1, source first, such as 2,4, not {text!r}.")
    return int(parts[0]), int(parts[1])


TEXT_KEYS = ("text", "lyrics", "content")


def read_text(corpus: Path | str) -> str:
    """The whole text; the parts of a folder, of JSONL or of a data set are joined with a newline."""
    path = Path(corpus)
    if str(corpus).startswith(HUGGINGFACE_PREFIX):
        return _joined(_text_of(record, where) for _, where, record in dataset_records(str(corpus)))
    if path.is_dir():
        return _joined(read_file(part) for part in _folder_parts(path))
    if stem_suffix(path) in JSON_LINES:
        return _joined(_text_of(record, where) for _, where, record in json_records(path))
    return read_file(path)


def read_file(path: Path) -> str:
    with open_corpus_file(path) as file:
        return _line_feeds(decode_lines(file.read().removeprefix(BYTE_ORDER_MARK), path))


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _folder_parts(folder: Path) -> list[Path]:
    """Its text files by name, so that the order is the same on every machine; without hidden files."""
    texts = [p for p in folder.rglob("*") if p.is_file() and stem_suffix(p) == ".txt" and not p.name.startswith(".")]
    if not texts:
        raise TrainingError(f"{folder} has no .txt or .txt.gz file.")
    return sorted(texts, key=lambda part: part.relative_to(folder).parts)


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(part.removesuffix("\n") for part in parts) + "\n"


def _text_of(record: Record, where: str) -> str:
    text = next((record[key] for key in TEXT_KEYS if isinstance(record.get(key), str)), None)
    if text is None:
        there = ", ".join(map(repr, list(record)[:8])) or "none"
        raise TrainingError(f"{where} has the keys {there}; a text stands under 'text', 'lyrics' or 'content'.")
    check_characters(text, where)
    return _line_feeds(text)
