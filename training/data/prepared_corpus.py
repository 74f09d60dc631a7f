"""A large corpus, read, cleaned and split once: its texts in files of the cache folder, found again by digest."""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from array import array
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from models.checkpoint import sha256
from training.config.run_config import CleaningConfig
from training.config.run_file import corpus_parts
from training.data.sentence_pairs import CorpusReport, Pairs
from training.data.stored_corpus import OpenFile, TextArray, TextWriter, blocks, cache_folder, fill_folder, text_array
from training.errors import TrainingError

FORMAT = 1  # of the files below and of the cleaning rules; part of the digest
LEAST_BYTES = 8_000_000  # of files; a smaller corpus is small, whatever its compression
TEXTS, LENGTHS, LINES, DESCRIPTION = "{}.texts", "{}.lengths", "lines", "corpus.json"
SIDES = ("source", "target")


def prepared_folder(
    data: Mapping[str, Any], languages: tuple[str, str], cleaning: CleaningConfig, seed: int
) -> Path | None:
    """Where the training pairs of this run lie, if it has prepared them; None for a corpus that is small, or of which
    there is no file to tell by. seed: of the held-out pairs."""
    corpora = {role: data[role] for role in ("train", "valid", "test") if data.get(role)}
    files = {role: [Path(part) for part in corpus_parts(named)] for role, named in corpora.items()}
    if not all(path.is_file() for paths in files.values() for path in paths):
        return None
    if sum(path.stat().st_size for path in files["train"]) < LEAST_BYTES:
        return None
    digests = {role: [sha256(path) for path in paths] for role, paths in files.items()}
    what = FORMAT, unicodedata.unidata_version, corpora, digests, data.get("columns"), languages, asdict(cleaning)
    name = hashlib.sha256(repr((*what, None if data.get("valid") else seed)).encode()).hexdigest()[:16]
    return cache_folder() / "corpora" / name


def save_prepared(folder: Path, train: Pairs, valid: Pairs | None) -> None:
    """Writes the training pairs, and the validation pairs that were held out of them. The caller holds the lock."""

    def fill(aside: Path) -> None:
        for side, texts in zip(SIDES, (train.sources, train.targets), strict=True):
            writer = TextWriter(aside / TEXTS.format(side))
            for block in blocks(texts):
                writer.extend(block)
            writer.finish().bytes_of.tofile(aside / LENGTHS.format(side))
        with (aside / LINES).open("wb") as file:
            (train.lines or array("Q")).tofile(file)
        description = {
            "origin": train.origin,
            "files": train.files,
            "report": train.reported().as_json(),
            "valid": valid and [valid.origin, list(valid.sources), list(valid.targets)],
        }
        (aside / DESCRIPTION).write_text(json.dumps(description), encoding="utf-8")
        os.sync()

    fill_folder(folder, fill)


def load_prepared(folder: Path) -> tuple[Pairs, Pairs | None]:
    """TrainingError if the files are incomplete."""
    description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    lines = array("Q", (folder / LINES).read_bytes())
    sources, targets = (_texts(folder, side) for side in SIDES)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    report = CorpusReport.from_json(description["report"])
    report.notes.append(
        f"prepared in {folder} ({size / 1e9:.1f} GB), which later runs on the same corpus use; remove the folder to"
        " free the space"
    )
    train = Pairs(sources, targets, description["origin"], tuple(description["files"]), lines or None, report, folder)
    valid = description["valid"]
    return train, valid and Pairs(valid[1], valid[2], valid[0])


def _texts(folder: Path, side: str) -> TextArray:
    file = OpenFile(os.open(folder / TEXTS.format(side), os.O_RDONLY))
    lengths = np.fromfile(folder / LENGTHS.format(side), np.uint32)
    if os.fstat(file.number).st_size != int(lengths.sum(dtype=np.int64)):
        raise TrainingError(f"{folder} is damaged: remove it, and the run makes it again.")
    return text_array(file, lengths)
