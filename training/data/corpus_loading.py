"""Loads a corpus argument as sentence pairs for a translator or text for a lyricist.

Formats: text files, JSONL, TSV, CSV, Moses' parallel files, TMX, Hugging Face data sets, and the corpora that come with
this project. Every error is one sentence that names the file and the line."""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.config.corpus_languages import base_language, find_language
from training.config.shipped_corpora import LANGUAGES, ShippedCorpus, shipped_corpus, shipped_text
from training.data.corpus_files import (
    BYTE_ORDER_MARK,
    decode_lines,
    numbered_lines,
    open_corpus_file,
    read_moses,
    readable_lines,
    stem_suffix,
)
from training.data.sentence_pairs import (
    CorpusNote,
    LeftOutRow,
    Pairs,
    Row,
    collect_pairs,
    join_corpora,
    malformed,
    one_line,
)
from training.data.substitution import substituted_lines
from training.data.tables import CSV, Columns, read_table
from training.data.tmx import read_tmx
from training.errors import TrainingError

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

Languages = tuple[str, str]  # source, target
JSON_LINES = (".jsonl", ".ndjson", ".json")
TEXT_FORMATS = (".txt", ".text", "")  # a text, or pairs with a tab between, as .tsv and unknown suffixes are


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """A format of files of pairs. suffixes: of its files, each also with .gz. read: the rows of a file, called as
    (path, languages, columns, skip_malformed). names_languages: whether the file itself says which side is which."""

    suffixes: tuple[str, ...]
    read: Callable[[Path, Languages | None, Columns | None, bool], Iterator[Row | LeftOutRow | CorpusNote]]
    names_languages: bool = False


def _read_memory(
    path: Path, languages: Languages | None, _: Columns | None, skip_malformed: bool
) -> Iterator[Row | LeftOutRow]:
    if languages is None:
        raise TrainingError(f"{path} may hold many languages: say which with --source and --target.")
    return read_tmx(path, languages, skip_malformed=skip_malformed)


def _read_json_lines(
    path: Path, languages: Languages | None, _: Columns | None, skip_malformed: bool
) -> Iterator[Row | LeftOutRow]:
    return _pairs_of(json_records(path, skip_malformed), languages, skip_malformed)


def _read_table(
    path: Path, languages: Languages | None, columns: Columns | None, skip_malformed: bool
) -> Iterator[Row | LeftOutRow | CorpusNote]:
    return read_table(path, columns, languages, skip_malformed=skip_malformed)


# Every format of one file but tab-separated pairs, which files of other suffixes are. A new one is a row here, a sample
# in tests/training/data/test_corpus_formats.py and a row of the table in docs/training.md.
CORPUS_FILES = (
    CorpusFile((CSV,), _read_table),
    CorpusFile(JSON_LINES, _read_json_lines, names_languages=True),
    CorpusFile((".tmx",), _read_memory, names_languages=True),
)
TAB_SEPARATED = CorpusFile((), _read_table)
PAIR_FORMATS = tuple(suffix for row in CORPUS_FILES for suffix in row.suffixes)  # never a text, a sentence on a line
FORMATS = (
    "SOURCE,TARGET (two files), one file of tab-separated pairs,"
    f" {', '.join(row.suffixes[0] for row in CORPUS_FILES)} (each also .gz), hf:NAME or everyday"
)


def read_pairs(
    argument: str, languages: Languages | None = None, columns: Columns | None = None, *, skip_malformed: bool = False
) -> Pairs:
    """Reads a corpus of pairs, of any form of `FORMATS`.

    languages: codes that select the sides where the corpus names them: in keys of JSONL, titles of a CSV, a TMX or a
    data set. Elsewhere the order of columns or files counts, and with `languages` reversed sides are
    swapped, or reported where the user chose the order. columns: of a TSV or CSV file; None: inferred. skip_malformed:
    leaves lines out that cannot be read, and reports them. TrainingError for an invalid corpus."""
    if shipped := shipped_corpus(argument):
        return _shipped_pairs(shipped, argument, languages)
    path = Path(argument)
    if argument.startswith(HUGGINGFACE_PREFIX):
        return collect_pairs(_pairs_of(dataset_records(argument), languages, skip_malformed), argument)
    names_languages = False
    rows: Iterator[Row | LeftOutRow | CorpusNote]
    if not path.exists():
        rows = read_moses(*moses_files(argument), skip_malformed=skip_malformed)
    else:
        suffix = stem_suffix(path)
        corpus_file = next((row for row in CORPUS_FILES if suffix in row.suffixes), TAB_SEPARATED)
        rows = corpus_file.read(path, languages, columns, skip_malformed)
        names_languages = corpus_file.names_languages
    pairs = collect_pairs(rows, argument)
    if languages is None or names_languages:
        return pairs
    return swap_reversed_sides(pairs, languages, may_swap=columns is None and path.exists())


EACH_CARELESS = 16
_FINAL = re.compile(r"[.!?。！？]+$")


def _shipped_pairs(corpus: ShippedCorpus, argument: str, languages: Languages | None) -> Pairs:
    named = corpus.languages or languages
    if named is None:
        raise TrainingError(f"{argument} has several languages: say which with --source and --target.")
    if languages and languages != named:
        wanted, other = "-".join(languages), "-".join(named)
        raise TrainingError(f"{argument} names {other}, and this run reads {wanted}.")
    if corpus.part == "substituted":
        source, target = (LANGUAGES.index(code) for code in named)
        texts = substituted_lines()
        pairs = Pairs([line[source] for line in texts], [line[target] for line in texts], argument)
    else:
        topics = []
        for file in corpus.files:
            rows = (row for row in read_table(file, languages=named) if not isinstance(row, CorpusNote))  # on titles
            topics.append(collect_pairs(rows, str(file)))
        pairs = join_corpora(topics)
    if corpus.part == "careless":
        some = pairs.only(range(0, len(pairs), EACH_CARELESS), argument)
        pairs = replace(some, sources=[_FINAL.sub("", text).lower() for text in some.sources])
    return replace(pairs, origin=argument, report=replace(pairs.reported(), origin=argument))


def is_monolingual(argument: str) -> bool:
    """Whether a corpus argument is a text, a sentence on each line, and no pairs: an existing file without a format of
    pairs, whose first line that is not empty has no tab. TrainingError if that line cannot be read."""
    path = Path(argument)
    if not path.is_file() or stem_suffix(path) in PAIR_FORMATS:
        return False
    first = next((line for _, line in numbered_lines(path) if line.strip()), None)
    return first is not None and "\t" not in first


def moses_files(argument: str) -> tuple[Path, Path]:
    """The two files that an argument SOURCE,TARGET names. TrainingError if it names one or more than two."""
    names = argument.split(",")
    if len(names) != 2:
        if len(names) == 1 and (near := near_names(Path(argument))):
            raise TrainingError(f"{argument} does not exist, did you mean {near}?")
        problem = "does not exist" if len(names) == 1 else f"names {len(names)} files"
        raise TrainingError(f"{argument} {problem}: give {FORMATS}.")
    return Path(names[0]), Path(names[1])


def near_names(missing: Path) -> str:
    """The file beside a missing one whose name is the likest; "" if none is like it."""
    beside = [path.name for path in missing.parent.iterdir() if path.is_file()] if missing.parent.is_dir() else []
    return "".join(str(missing.with_name(name)) for name in get_close_matches(missing.name, beside, 1, 0.8))


def read_corpora(
    arguments: Sequence[str],
    languages: Languages | None = None,
    columns: Columns | None = None,
    *,
    skip_malformed: bool = False,
) -> Pairs:
    return join_corpora([read_pairs(name, languages, columns, skip_malformed=skip_malformed) for name in arguments])


def parse_columns(text: str | None) -> Columns | None:
    """`2,4` of the option --columns. TrainingError unless it is two numbers from 1."""
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise TrainingError(f"--columns takes two numbers from 1, source first, such as 2,4, not {text!r}.")
    return int(parts[0]), int(parts[1])


JQ = "jq -c 'if type == \"array\" then .[] else . end' rewrites a file so"
TEXT_KEYS = ("text", "lyrics", "content")


def read_text(corpus: Path | str) -> str:
    """The whole text; parts of a folder, JSONL file or data set are joined by newlines."""
    if (shipped := shipped_text(str(corpus))) is not None:
        return shipped
    path, records = Path(corpus), records_of(str(corpus))
    if records is not None:
        with contextlib.closing(records):  # also where a record is refused
            return _joined(_text_of(record, where) for _, where, record in _all_read(records))
    return _joined(map(read_file, _folder_parts(path))) if path.is_dir() else read_file(path)


def read_file(path: Path) -> str:
    with open_corpus_file(path) as file:
        return _one_spelling(decode_lines(file.read().removeprefix(BYTE_ORDER_MARK), path))


def _one_spelling(text: str) -> str:
    """Of what editors and Unicode spell in several ways: LF ends a line, and é is one character (NFC)."""
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))


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
    return _one_spelling(text)


Record = Mapping[str, Any]
"""A JSON object, or a row of a data set."""
PlacedRecord = tuple[int, str, Record]  # line or row; its location, for messages
Records = Generator[PlacedRecord | LeftOutRow, None, None]


def records_of(corpus: str, skip_malformed: bool = False) -> Records | None:
    """Records of a data set or JSONL file; None for other formats."""
    if corpus.startswith(HUGGINGFACE_PREFIX):
        return dataset_records(corpus)
    path = Path(corpus)
    return json_records(path, skip_malformed) if path.exists() and stem_suffix(path) in JSON_LINES else None


def json_records(path: Path, skip_malformed: bool = False) -> Records:
    """JSON objects by line; skips blank lines. TrainingError for a line that is not a JSON object, unless skipped."""
    for line in readable_lines(path, skip_malformed):
        if isinstance(line, LeftOutRow):
            yield line
        elif line[1].strip():
            where = f"{path} line {line[0]}"
            try:
                yield line[0], where, _json_object(line[1], where)
            except TrainingError as error:
                if not skip_malformed:
                    raise
                yield malformed(line[0], "no JSON object", line[1], error)


def _json_object(line: str, where: str) -> Record:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        wanted = 'one object, such as {"source": "…", "target": "…"}'
        if where.endswith(" line 1") and line.strip() in ("{", "["):
            raise TrainingError(f"{where} holds a part of an object: every line must be a whole one; {JQ}.") from None
        raise TrainingError(f"{where} is not JSON ({error}): every line must be {wanted}.") from None
    if not isinstance(record, dict):
        way = f"; {JQ}" if where.endswith(" line 1") and isinstance(record, list) else ""
        raise TrainingError(f"{where} is a JSON {_kind(record)}: every line must be one object{way}.")
    return record


def _all_read(records: Iterable[PlacedRecord | LeftOutRow]) -> Iterator[PlacedRecord]:
    return (record for record in records if not isinstance(record, LeftOutRow))


def _pairs_of(
    records: Iterable[PlacedRecord | LeftOutRow], languages: Languages | None, skip_malformed: bool
) -> Iterator[Row | LeftOutRow]:
    for placed in records:
        if isinstance(placed, LeftOutRow):
            yield placed
            continue
        number, where, record = placed
        try:
            yield number, *pair_of(record, languages, where)
        except TrainingError as error:
            if not skip_malformed:
                raise
            shown = json.dumps(record, ensure_ascii=False, default=str)
            yield malformed(number, "no pair of texts", shown.encode(errors="replace").decode(), error)


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


def _kind(value: object) -> str:
    kinds = {dict: "object", list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return kinds.get(type(value), "null")


HUGGINGFACE_PREFIX = "hf:"
SPLIT = re.compile(r"(train|validation|valid|val|dev|test)(\[.*\])?")


def dataset_records(argument: str) -> Records:
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


FEWEST_PAIRS = 10  # minimum for a decision
SAMPLED_PAIRS = 100  # of each side, evenly spaced
SAMPLED_CHARACTERS = 200  # of each sampled sentence


def swap_reversed_sides(pairs: Pairs, languages: Languages, *, may_swap: bool) -> Pairs:
    """Detects pairs in the opposite order: swaps them if `may_swap`, else adds a question to the report. Sides count as
    reversed if, among all languages, the targets look most like the source language and the sources like the target's.
    File and column order is error-prone: Anki's decks begin with English in either direction."""
    source, target = map(base_language, languages)
    if len(pairs) < FEWEST_PAIRS or source == target:
        return pairs
    if _language_of(pairs.targets) != source or _language_of(pairs.sources) != target:
        return pairs
    source, target = languages
    if may_swap:
        note = f"holds {target} first and {source} second, and is read so; if that is wrong, say --columns"
        pairs = pairs.swapped()
    else:
        note = f"reads as {target} on its source side and as {source} on its target side"
        note = f"{note}: are they the other way around?"
    report = pairs.reported()
    report.notes.append(f"{pairs.origin} {note}")
    return replace(pairs, report=report)


def _language_of(texts: Sequence[str]) -> str:
    sample = texts[:: -(-len(texts) // SAMPLED_PAIRS)]
    return str(_identifier().rank(" ".join(text[:SAMPLED_CHARACTERS] for text in sample))[0][0])


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # takes a second and 100 MB, and many corpora need none

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=False)
