"""The models of a run in one folder: a translator with natural lengths and a lyricist of width 256."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.corpora import SOURCE, TARGET, Sentences, training
from benchmarks.shapes import write
from models.checkpoint import CheckpointConfig
from models.networks import loading
from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel
from training.data.corpus_loading import read_text
from training.data.tokenizer_training import PAD, character_tokenizer

TRANSLATOR, LYRICIST = "bench-de-en", "bench-lyrics"
PROMPT = "分开"


@dataclass(frozen=True, slots=True)
class Served:
    """folder: what our server is given. origin: where the translator comes from, for the report."""

    folder: Path
    origin: str

    @property
    def translator(self) -> Path:
        return self.folder / TRANSLATOR

    @property
    def lyricist(self) -> Path:
        return self.folder / LYRICIST


def prepare(folder: Path, given: Path | None, sentences: Sentences, minutes: float) -> Served:
    """`given` is copied; without one, recipe `tiny` is trained for `minutes`: its lengths are what matters here."""
    if given is not None:
        shutil.copytree(given, folder / TRANSLATOR, ignore=shutil.ignore_patterns("resume"))
        origin = f"{given.name}, as given"
    else:
        _train(folder / TRANSLATOR, sentences, minutes)
        origin = f"recipe tiny, trained for {minutes:g} minutes on {sentences.corpus}"
    _write_lyricist(folder)
    return Served(folder, origin)


def _train(out: Path, sentences: Sentences, minutes: float) -> None:
    command = ["translator", "--source", SOURCE, "--target", TARGET, "--train", sentences.train, "--recipe", "tiny"]
    command += ["--valid", sentences.valid] if sentences.valid else []
    training(*command, "--max-minutes", f"{minutes:g}", "--out", str(out))


def _write_lyricist(folder: Path) -> None:
    """A GRU of width 256 over the characters of our songs, with random weights; requests set the lengths of texts."""
    torch.manual_seed(0)
    tokenizer = character_tokenizer(read_text("songs-zh"), unknown=True)
    shape = RecurrentConfig(vocabulary=tokenizer.size, embedding=128, hidden=256)
    draft = CheckpointConfig(
        kind="lyrics", architecture=loading.architecture("recurrent", shape), suppressed=(PAD,), max_new_tokens=1024
    )
    write(folder / LYRICIST, RecurrentLanguageModel(shape), draft, {"target": tokenizer})
