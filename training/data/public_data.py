"""Public corpora by name: `opus:CORPUS/de-en` and `mtdata:NAME`, through the index and the readers of mtdata.

mtdata downloads neither resumably nor with a check of what came, and goes on without a certificate that can be checked;
so `training.data.download` fetches the files of its entries."""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import logging
import os
import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.checkpoint import sha256
from training.data.cache_folder import cache_folder
from training.data.download import download
from training.data.sentence_pairs import Pairs, Row, collect_pairs
from training.errors import TrainingError

if TYPE_CHECKING:
    from mtdata.entry import Entry

OPUS, MTDATA = "opus:", "mtdata:"
OPUS_URL = "https://object.pouta.csc.fi/OPUS-{corpus}/{version}/moses/{first}-{second}.txt.zip"
OPUS_PAPER = "tiedemann2012parallel"  # its key in mtdata's bibliography
SUGGESTED = 4  # names, at most, in a message


def is_name(argument: str) -> bool:
    return argument.startswith((OPUS, MTDATA))


def read_public_pairs(argument: str, languages: tuple[str, str] | None) -> Pairs:
    """Downloads and reads a corpus. languages: of source and target, whichever side they have in the corpus; None: as
    they stand there. TrainingError for unknown names, other languages, and files that cannot be had or read."""
    entry = find_entry(argument)
    swap = languages is not None and _is_reversed(argument, entry, languages)
    files = corpus_files(argument, entry)
    pairs = collect_pairs(_rows(argument, entry, files, swap), argument)
    assert pairs.report is not None
    pairs.report.provenance.append(_provenance(argument, entry, files))
    return pairs


def find_entry(argument: str) -> Entry:
    return _opus_entry(argument) if argument.startswith(OPUS) else _mtdata_entry(argument)


def corpus_files(argument: str, entry: Entry) -> list[Path]:
    """The files of an entry on this machine, downloaded if they are not there."""
    if entry.in_ext == "opus_xces":
        urls = [entry.url, *(entry.in_paths or ())]
    else:
        urls = [entry.url] if isinstance(entry.url, str) else list(entry.url)
    if any("huggingface.co/" in url for url in urls):
        raise TrainingError(f"{argument} lies on the Hugging Face Hub: give it as hf:NAME instead.")
    return [download(url, argument) for url in urls]


def _library(argument: str) -> None:
    """Imports mtdata. It sets up the root logger when it is imported, and keeps its index in a folder of its own."""
    os.environ.setdefault("MTDATA", str(cache_folder() / "mtdata"))
    Path(os.environ["MTDATA"]).expanduser().mkdir(parents=True, exist_ok=True)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        import mtdata

        mtdata.pbar_man.enabled = False
    except ImportError:
        raise TrainingError(f"{argument} needs the mtdata library: pip install mtdata.") from None
    finally:
        root.handlers[:], root.level = handlers, level


def _opus_rows() -> Iterator[list[str]]:
    from mtdata import resource_dir

    with (resource_dir / "opus_index.tsv").open(encoding="utf-8") as lines:
        yield from (line.split() for line in lines if line.count("\t") == 3)


def _opus_entry(argument: str) -> Entry:
    """opus:CORPUS/de-en or opus:CORPUS/VERSION/de-en; either order of the languages; without a version the latest."""
    _library(argument)
    from mtdata.entry import DatasetId, Entry

    corpus, *version, pair = argument.removeprefix(OPUS).split("/") if "/" in argument else ("", "")
    codes = pair.split("-")
    if not corpus or len(version) > 1 or len(codes) != 2 or not all(codes):
        raise TrainingError(f"{argument} is no name of OPUS: write opus:CORPUS/de-en or opus:CORPUS/VERSION/de-en.")
    names: dict[str, None] = {}
    versions: dict[str, tuple[str, str, str]] = {}
    for name, release, first, second in _opus_rows():
        names[name] = None
        if name.lower() == corpus.lower() and {first, second} == set(codes):
            versions[release] = name, first, second
    if not versions:
        known = next((name for name in names if name.lower() == corpus.lower()), None)
        if known is None:
            raise TrainingError(f"OPUS has no corpus {corpus!r}{_suggestion(corpus, list(names))}")
        pairs = [both for name, _, *both in _opus_rows() if name == known and codes[0] in both]
        partners = sorted({code for both in pairs for code in both} - {codes[0]})
        there = f"with {codes[0]} it has {', '.join(partners[:12])}" if partners else f"it has no {codes[0]} at all"
        raise TrainingError(f"OPUS has no pair {pair} in {known}: {there}.")
    wanted = version[0] if version else max(versions, key=_version_key)
    if wanted not in versions:
        there = ", ".join(sorted(versions, key=_version_key))
        raise TrainingError(f"OPUS has no version {wanted} of {corpus}/{pair}: it has {there}.")
    name, first, second = versions[wanted]
    safe = re.sub(r"[^\w.]", "_", name.lower()), re.sub(r"[^\w.]", "", wanted.lower())
    return Entry(
        DatasetId("OPUS", *safe, _tags(argument, first, second)),
        OPUS_URL.format(corpus=name, version=wanted, first=first, second=second),
        in_paths=[f"*.{first}", f"*.{second}"],
        in_ext="txt",
        cite=(OPUS_PAPER,),
    )


def _version_key(version: str) -> tuple[int, ...]:
    """Orders v1, v2019, v20190709 and v2023-04-12 in this way: eight digits are a date, too."""
    dated = re.sub(r"(?<!\d)((?:19|20)\d\d)(\d\d)(\d\d)(?!\d)", r"\1-\2-\3", version)
    return tuple(int(number) for number in re.findall(r"\d+", dated))


def _tags(argument: str, first: str, second: str) -> tuple[Any, Any]:
    from mtdata.iso.bcp47 import bcp47

    try:
        return bcp47(first), bcp47(second)
    except Exception as error:  # the library raises plain Exceptions
        raise TrainingError(f"{argument} names a language that mtdata does not know ({error}).") from None


def _mtdata_entry(argument: str) -> Entry:
    name = argument.removeprefix(MTDATA)
    entries = {str(did): entry for did, entry in mtdata_entries(argument).items() if len(did.langs) == 2}
    by_lower = {known.lower(): known for known in entries}
    if name.lower() not in by_lower:
        parts = name.lower().split("-")
        near = [one for one in by_lower if one.split("-")[1:2] == parts[1:2] and set(parts[3:]) <= set(one.split("-"))]
        raise TrainingError(f"mtdata has no data set {name!r}{_suggestion(name, near or list(by_lower), by_lower)}")
    return entries[by_lower[name.lower()]]


def mtdata_entries(argument: str) -> dict[Any, Entry]:
    """mtdata's index: identifier -> entry. Its first use makes the index, which takes a minute."""
    _library(argument)
    level = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        from mtdata.index import INDEX
    finally:
        logging.disable(level)
    return dict(INDEX.entries)


def _suggestion(name: str, known: list[str], shown: dict[str, str] | None = None) -> str:
    lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), lower, SUGGESTED, 0.5)
    near = near or [one for one in lower if name.lower() in one][:SUGGESTED]
    names = [(shown or {}).get(lower[one], lower[one]) for one in near]
    return f", did you mean {' or '.join(names)}?" if names else "."


def _is_reversed(argument: str, entry: Entry, languages: tuple[str, str]) -> bool:
    """Whether the entry's second side is the source. TrainingError if it has other languages."""
    from mtdata.iso.bcp47 import BCP47Tag, bcp47

    with contextlib.suppress(Exception):  # the library raises plain Exceptions and AssertionErrors
        compatible, swap = BCP47Tag.check_compat_swap((bcp47(languages[0]), bcp47(languages[1])), entry.did.langs)
        if compatible:
            return bool(swap)
    wanted = " and ".join(languages)
    raise TrainingError(
        f"{argument} holds {' and '.join(map(str, entry.did.langs))}, not {wanted}: name another data set, or other"
        " languages with --source and --target."
    )


def _rows(argument: str, entry: Entry, files: list[Path], swap: bool) -> Iterator[Row]:
    """Numbered pairs. Bytes that are no UTF-8 become U+FFFD, which cleaning leaves out."""
    from mtdata.parser import Parser

    try:
        paths: list[Any] = list(files)
        if entry.is_archive:
            paths = _members(argument, files[0], entry.in_paths or [])
        parser = Parser(paths, ext=entry.in_ext or None, ent=entry)
        for number, (first, second, *_) in enumerate(parser.read_segs(show_pbar=False), start=1):
            source, target = (second, first) if swap else (first, second)
            yield number, _line(source), _line(target)
    except (OSError, EOFError, ValueError, IndexError, AssertionError, zipfile.BadZipFile, tarfile.TarError) as error:
        if isinstance(error, TrainingError):
            raise
        raise TrainingError(f"{argument} cannot be read ({str(error) or type(error).__name__}).") from error
    except Exception as error:  # plain ones of the library
        if "unequal number" in str(error):
            sides = f"The two sides of {argument} have unequal numbers of lines"
            raise TrainingError(f"{sides}: name another version, or tell its maintainers.") from None
        if type(error) is not Exception:
            raise
        raise TrainingError(f"{argument} cannot be read ({error}).") from error


def _line(text: str | None) -> str:
    return " ".join((text or "").replace("\0", "\ufffd").splitlines())


def _members(argument: str, archive: Path, patterns: list[str]) -> list[Any]:
    """The files of an archive that the patterns name, one each."""
    from mtdata.utils import TarPath, ZipPath

    if not zipfile.is_zipfile(archive):
        return [TarPath(archive, pattern).child for pattern in patterns]
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
    members = []
    for pattern in patterns:
        matches = fnmatch.filter(names, pattern)
        if len(matches) != 1:
            raise TrainingError(f"{argument}: its archive has {len(matches)} files that match {pattern}, not one.")
        members.append(ZipPath(archive, matches[0]))
    return members


def _provenance(argument: str, entry: Entry, files: list[Path]) -> str:
    """The addresses, checksums and papers of a corpus, for the report and the model card."""
    urls = [entry.url] if isinstance(entry.url, str) else list(entry.url)
    digests = ", ".join(f"{file.name} sha256 {sha256(file)[:16]}…" for file in files)
    cited = "; ".join(filter(None, (_citation(key) for key in entry.cite or ())))
    return f"{argument}: {' and '.join(urls)} ({digests}){f'; cite {cited}' if cited else ''}; licence: see its source"


def _citation(key: str) -> str:
    """Author, title and year of a paper in mtdata's bibliography."""
    from mtdata import resource_dir
    from pybtex.database import parse_file

    with contextlib.suppress(Exception):  # a broken bibliography is no reason to end a run
        paper = parse_file(str(resource_dir / "refs.bib"), bib_format="bibtex").entries[key]
        names = [" ".join(person.last_names) for person in paper.persons.get("author", [])]
        title = re.sub(r"[{}]|\s+", lambda m: " " if m[0].isspace() else "", paper.fields.get("title", ""))
        authors = f"{names[0] if names else key}{' et al.' if len(names) > 1 else ''}"
        return f"{authors} {paper.fields.get('year', '')}, “{title}”"
    return key
