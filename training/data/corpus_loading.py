"""Loads a corpus argument as sentence pairs for a translator or text for a lyricist.

Formats: text files, JSONL, TSV, Moses' parallel files, TMX, Hugging Face data sets. Every error is one sentence that
names the file and the line."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from training.config.run_config import CleaningConfig
from training.data.cleaning import clean, hold_out
from training.data.sentence_pairs import Pairs, Row, collect_pairs, join_corpora, shortened
from training.data.tmx import translation_units
from training.errors import TrainingError, os_error_reason, pluralize

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

JSON_LINES = (".jsonl", ".ndjson", ".json")
FORMATS = "SOURCE,TARGET (two files), one file of tab-separated pairs, .jsonl, .tmx (each also .gz), or hf:NAME"


def read_pairs(argument: str, languages: Languages | None = None, columns: Columns | None = None) -> Pairs:
    """Reads a corpus of pairs. languages: codes that select the sides in JSONL, TMX and data sets. columns: of a TSV
    file; None: inferred. TrainingError for an invalid corpus."""
    path, records = Path(argument), records_of(argument)
    if records is not None:
        rows = ((number, *pair_of(record, languages, where)) for number, where, record in records)
        return collect_pairs(rows, argument)
    if path.exists() and stem_suffix(path) == ".tmx":
        if languages is None:
            raise TrainingError(f"{argument} may hold many languages: say which with --source and --target.")
        return collect_pairs(read_tmx(path, languages), argument)
    if path.exists():
        pairs = collect_pairs(read_tsv(path, columns), argument)
    else:
        names = argument.split(",")
        if len(names) != 2:
            problem = "does not exist" if len(names) == 1 else f"names {len(names)} files"
            raise TrainingError(f"{argument} {problem}: give {FORMATS}.")
        pairs = collect_pairs(read_moses(Path(names[0]), Path(names[1])), argument)
    if languages is None:
        return pairs
    return swap_reversed_sides(pairs, languages, may_swap=columns is None and path.exists())


def read_corpora(arguments: Sequence[str], languages: Languages | None = None, columns: Columns | None = None) -> Pairs:
    return join_corpora([read_pairs(argument, languages, columns) for argument in arguments])


def read_run_corpora(
    data: Mapping[str, Any], languages: tuple[str, str], cleaning: CleaningConfig, seed: int
) -> tuple[Pairs, Pairs | None, Pairs | None]:
    """Cleaned training pairs; validation pairs, given or split off; test pairs. data: role -> corpus or columns."""
    columns = parse_columns(data.get("columns"))
    valid, test = (read_pairs(data[role], languages, columns) if data.get(role) else None for role in ("valid", "test"))
    corpora = [data["train"]] if isinstance(data["train"], str) else data["train"]  # run files may name only one
    train = clean(read_corpora(corpora, languages, columns), cleaning, validation=valid, test=test)
    if valid is None:
        train, valid = hold_out(train, seed)
    return train, valid, test


def parse_columns(text: str | None) -> Columns | None:
    """`2,4` of the option --columns. TrainingError unless it is two numbers from 1."""
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise TrainingError(f"--columns takes two numbers from 1, source first, such as 2,4, not {text!r}.")
    return int(parts[0]), int(parts[1])


TEXT_KEYS = ("text", "lyrics", "content")


def read_text(corpus: Path | str) -> str:
    """The whole text; parts of a folder, JSONL file or data set are joined by newlines."""
    path, records = Path(corpus), records_of(str(corpus))
    if records is not None:
        return _joined(_text_of(record, where) for _, where, record in records)
    return _joined(map(read_file, _folder_parts(path))) if path.is_dir() else read_file(path)


def read_file(path: Path) -> str:
    with open_corpus_file(path) as file:
        return _line_feeds(decode_lines(file.read().removeprefix(BYTE_ORDER_MARK), path))


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _folder_parts(folder: Path) -> list[Path]:
    """The folder's text files without hidden files, sorted by name for the same order on every machine."""
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


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@contextlib.contextmanager
def open_corpus_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file's bytes, decompressed. TrainingError if it is missing, unreadable, or turns out damaged."""
    try:
        with path.open("rb") as file:
            if path.suffix == ".gz":
                yield cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=file)))
            else:
                yield file
    except (FileNotFoundError, IsADirectoryError) as error:
        raise TrainingError(f"{os_error_reason(error)}.") from None
    except gzip.BadGzipFile:
        raise TrainingError(f"{path} cannot be read (no gzip file, or a damaged one): get it once more.") from None
    except (OSError, EOFError, zlib.error) as error:
        said = getattr(error, "strerror", None) or error  # without errno and path, which the message already has
        raise TrainingError(f"{path} cannot be read ({said}).") from error


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line), streamed. Only LF and CRLF end a line: Unicode separators cannot shift parallel texts."""
    with open_corpus_file(path) as file:
        for number, raw in enumerate(file, start=1):
            line = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
            yield number, decode_lines(line.removesuffix(b"\n").removesuffix(b"\r"), path, number)


def decode_lines(data: bytes, path: Path, first: int = 1) -> str:
    """Decodes UTF-8. first: the number of the first line. TrainingError names the line of invalid UTF-8."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = first + data.count(b"\n", 0, error.start)
        raise TrainingError(f"{path} is not valid UTF-8: line {line} has a broken character; convert it.") from None
    if "\0" in text:
        line = first + text.count("\n", 0, text.index("\0"))
        raise TrainingError(f"{path} holds a NUL character in line {line}: is it a text file?")
    return text


def stem_suffix(path: Path) -> str:
    """The suffix of the format, in lower case: ".tsv" of "pairs.TSV.gz"."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


@lru_cache(maxsize=1024)  # lines of a file share a few sets of codes
def find_language(wanted: str, present: tuple[str, ...]) -> str | None:
    """The code in `present` for `wanted`, ignoring case and hyphens; else the bare language, else its first region."""
    codes = {_normal(code): code for code in reversed(present)}  # the first of two spellings wins
    normal = _normal(wanted)
    language = normal.partition("-")[0]
    for candidate in (normal, language):
        if candidate in codes:
            return codes[candidate]
    regions = (codes[code] for code in reversed(codes) if code.partition("-")[0] == language)
    return next(regions, None) if normal == language else None


def _normal(code: str) -> str:
    return code.strip().lower().replace("_", "-")


Languages = tuple[str, str]  # source, target
Record = Mapping[str, Any]
"""A JSON object, or a row of a data set."""
PlacedRecord = tuple[int, str, Record]  # line or row; its location, for messages


def records_of(corpus: str) -> Iterator[PlacedRecord] | None:
    """Records of a data set or JSONL file; None for other formats."""
    if corpus.startswith(HUGGINGFACE_PREFIX):
        return dataset_records(corpus)
    path = Path(corpus)
    return json_records(path) if path.exists() and stem_suffix(path) in JSON_LINES else None


def json_records(path: Path) -> Iterator[PlacedRecord]:
    """JSON objects by line; skips blank lines. TrainingError for a line that is not a JSON object."""
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        where = f"{path} line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            wanted = 'one object, such as {"source": "…", "target": "…"}'
            raise TrainingError(f"{where} is not JSON ({error}): every line must be {wanted}.") from None
        if not isinstance(record, dict):
            raise TrainingError(f"{where} is a JSON {_kind(record)}: every line must be one object.")
        yield number, where, record


def pair_of(record: Record, languages: Languages | None, where: str) -> tuple[str, str]:
    """Source and target of a record. TrainingError, starting with `where`, if it has none."""
    inner = record.get("translation")
    for candidate in (inner, record) if isinstance(inner, Mapping) else (record,):
        source, target = (find_language(code, tuple(candidate)) for code in languages or ("", ""))
        if source and target and source != target:
            return text_of(candidate, source, where), text_of(candidate, target, where)
    if "source" in record and "target" in record:
        return text_of(record, "source", where), text_of(record, "target", where)
    there = ", ".join(map(repr, [*record, *(inner if isinstance(inner, Mapping) else ())][:8])) or "none"
    named = f"{languages[0]!r} and {languages[1]!r}, or " if languages else ""
    raise TrainingError(f"{where} has the keys {there}; a pair needs {named}'source' and 'target'.")


def text_of(record: Record, key: str, where: str) -> str:
    """The text under a key, on one line; null is an empty text."""
    text = record[key]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise TrainingError(f"{where} has a {_kind(text)} under {key!r}; it must be a text.")
    check_characters(text, where)
    return one_line(text)


def check_characters(text: str, where: str) -> None:
    """Rejects characters that JSON can escape and UTF-8 cannot encode."""
    if "\0" in text:
        raise TrainingError(f"{where} holds a NUL character.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TrainingError(f"{where} has a broken character: half of a surrogate pair.") from None


def one_line(text: str) -> str:
    """Replaces white space with a line break in it by one space, since other formats hold a sentence per line."""
    return re.sub(r"\s*[\r\n]\s*", " ", text) if "\n" in text or "\r" in text else text


def _kind(value: object) -> str:
    kinds = {dict: "object", list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return kinds.get(type(value), "null")


Columns = tuple[int, int]  # source and target, from 1


def read_tsv(path: Path, columns: Columns | None = None) -> Iterator[Row]:
    """Skips blank lines. Without `columns` the first line decides, and every line must match its layout. TrainingError
    if the layout is ambiguous or a line has another number of columns."""
    width = None  # of every line, if the first line decided
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        cells = line.split("\t")
        if columns is None:
            columns, width = _choose(path, number, cells), len(cells)
        if len(cells) != width if width else len(cells) < max(columns):
            raise _other_width(path, number, len(cells), columns, width)
        yield number, cells[columns[0] - 1], cells[columns[1] - 1]


def _choose(path: Path, number: int, cells: list[str]) -> Columns:
    if len(cells) == 2:
        return 1, 2
    if len(cells) == 1:
        raise _other_width(path, number, 1, (1, 2), 2)
    ids = [cell.strip().isdecimal() for cell in cells]
    if ids == [True, False, True, False]:
        return 2, 4
    if len(cells) == 3 and "attribution:" in cells[2].lower():
        return 1, 2
    shown = ", ".join(f"{place} {shortened(cell, 20)!r}" for place, cell in enumerate(cells[:6], start=1))
    raise TrainingError(
        f"{path} line {number} has {len(cells)} columns ({shown}{', …' if len(cells) > 6 else ''}): say which hold"
        " the source and the target, such as --columns 1,2."
    )


def _other_width(path: Path, number: int, count: int, columns: Columns, width: int | None) -> TrainingError:
    has = f"{path} line {number} has {count} column{'' if count == 1 else 's'}"
    if width == 2:
        return TrainingError(f"{has}; a pair is two texts with one tab between.")
    if width:
        return TrainingError(f"{has} where the lines before have {width}.")
    return TrainingError(f"{has}; --columns {columns[0]},{columns[1]} asks for column {max(columns)}.")


HUGGINGFACE_PREFIX = "hf:"
SPLIT = re.compile(r"(train|validation|valid|val|dev|test)(\[.*\])?")


def dataset_records(argument: str) -> Iterator[PlacedRecord]:
    name, config, split = parse_dataset_name(argument)
    try:
        import datasets
    except ImportError:
        raise TrainingError(f"{argument} needs the datasets library: pip install datasets.") from None
    try:
        data_set = datasets.load_dataset(name, config, split=split)
    except Exception as error:  # the library raises many kinds of errors, its own and its file readers'
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise TrainingError(f"{argument} cannot be loaded ({reason}).") from error
    for number, record in enumerate(data_set, start=1):
        yield number, f"{argument} row {number}", record


def parse_dataset_name(argument: str) -> tuple[str, str | None, str]:
    """(name, config, split). A single word after the name is a split if named like one, else a config; the default
    split is train, and splits may be sliced: hf:NAME:train[:1000]."""
    name, *rest = re.split(r":(?![^\[]*\])", argument.removeprefix(HUGGINGFACE_PREFIX))
    if not name or len(rest) > 2 or "" in rest:
        raise TrainingError(f"{argument} is no data set's name: write hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT.")
    if len(rest) == 2:
        return name, rest[0], rest[1]
    if rest and SPLIT.fullmatch(rest[0]):
        return name, None, rest[0]
    return name, rest[0] if rest else None, "train"


def read_tmx(path: Path, languages: Languages) -> Iterator[Row]:
    """One row per translation unit, with the line of its start; a missing side is empty. TrainingError for malformed
    XML, or if no unit has both languages: it names the languages that occur."""
    segments: Counter[str] = Counter()
    whole = False
    with open_corpus_file(path) as file:
        for line, texts in translation_units(file, path):
            there = tuple(texts)
            segments.update(there)
            keys = [find_language(language, there) for language in languages]
            source, target = (one_line(texts[key]) if key is not None else "" for key in keys)
            whole = whole or None not in keys
            yield line, source, target
    if not whole:
        known = ", ".join(f"{code} ({count:,})" for code, count in segments.most_common(12)) or "none"
        wanted = " and ".join(languages)
        raise TrainingError(f"{path} has no unit with both {wanted}; its languages and their segments: {known}.")


CLEARLY = 0.8  # ratio by which a shift must improve the length fit before its line is named
WORST = 3.0  # maximum cost of a line: bounds outliers, and blank lines against texts


def read_moses(source: Path, target: Path) -> Iterator[Row]:
    """Pairs of parallel lines. TrainingError if the files differ in length, with the likely line of divergence."""
    for line, other in zip_longest(numbered_lines(source), numbered_lines(target)):
        if line is not None and other is not None:
            yield *line, other[1]
            continue
        texts, others = ([text for _, text in numbered_lines(path)] for path in (source, target))
        counts = f"{source} has {pluralize(len(texts), 'line')} and {target} has {len(others):,}"
        most, place = min(len(texts), len(others)) + 1, parting(texts, others)
        where = f"most likely at line {place:,}" if place < most else f"at line {most:,} at the latest"
        raise TrainingError(f"{counts}: line n of one must translate line n of the other, and they part {where}.")


def parting(texts: Sequence[str], others: Sequence[str]) -> int:
    """The line, from 1, where the longer file most likely has its surplus lines. Translations have similar lengths
    (Gale and Church 1993), so it is the split where "aligned before, shifted behind" fits the lengths best; the first
    line behind the shorter file's end unless another fits clearly better."""
    longer, shorter = (texts, others) if len(texts) > len(others) else (others, texts)
    long = np.log1p(np.fromiter(map(len, longer), float))
    short = np.log1p(np.fromiter(map(len, shorter), float))
    surplus = len(long) - len(short)
    if not len(short):
        return 1
    typical = float(np.median(long)) - float(np.median(short))
    before = _cost(long[: len(short)] - short - typical, long[: len(short)], short)
    behind = _cost(long[surplus:] - short - typical, long[surplus:], short)
    # costs[k]: lines 1..k aligned, the rest shifted
    costs = np.concatenate([[0.0], np.cumsum(before)]) + np.concatenate([np.cumsum(behind[::-1])[::-1], [0.0]])
    best = int(np.argmin(costs))
    tail = slice(best, None)
    clear = best < len(short) and behind[tail].mean() < CLEARLY * before[tail].mean()
    return (best if clear else len(short)) + 1


def _cost(difference: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    cost: NDArray[np.float64] = np.minimum(np.abs(difference), WORST)
    cost[(a == 0) != (b == 0)] = WORST
    return cost


FEWEST_PAIRS = 10  # minimum for a decision
SAMPLED_PAIRS = 100  # of each side, evenly spaced
SAMPLED_CHARACTERS = 200  # of each sampled sentence


def swap_reversed_sides(pairs: Pairs, languages: Languages, *, may_swap: bool) -> Pairs:
    """Detects pairs in the opposite order: swaps them if `may_swap`, else adds a question to the report. Sides count as
    reversed if, among all languages, the targets look most like the source language and the sources like the target's.
    File and column order is error-prone: Anki's decks begin with English in either direction."""
    source, target = (code.lower().replace("_", "-").partition("-")[0] for code in languages)
    if len(pairs) < FEWEST_PAIRS or source == target:
        return pairs
    if _language_of(pairs.targets) != source or _language_of(pairs.sources) != target:
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


def _language_of(texts: Sequence[str]) -> str:
    sample = texts[:: -(-len(texts) // SAMPLED_PAIRS)]
    return str(_identifier().rank(" ".join(text[:SAMPLED_CHARACTERS] for text in sample))[0][0])


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # takes a second and 100 MB, and many corpora need none

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=False)
