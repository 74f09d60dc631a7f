"""The checkpoints that the front end knows: their configs and tokenizers, never their weights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.engine.errors import InvalidRequest, UnknownModel, UnknownPair
from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, CheckpointError


@dataclass(slots=True)
class Library:
    """Filled once at start. `problems` has a sentence for each folder that could not be used."""

    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Library:
        """Every sub-folder with a config.json, in order of their names. One bad folder spoils no other."""
        library = cls()
        try:
            folders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        except OSError as error:
            library.problems[str(folder)] = f"{folder} cannot be read ({error.strerror}); no model was loaded."
            return library
        for path in folders:
            library._add(path)
        if not library.checkpoints and not library.problems:
            library.problems[str(folder)] = (
                f"{folder} holds no checkpoint: make some with `python -m training demo --out {folder}`."
            )
        return library

    def _add(self, path: Path) -> None:
        try:
            if checkpoints.is_checkpoint(path):
                str(path).encode()  # messages to devices and answers to clients are UTF-8; file names need not be
                self.checkpoints[path.name] = checkpoints.read(path)
        except CheckpointError as error:
            self.problems[path.name] = str(error)
        except OSError as error:  # such as the lost+found of a mounted disk
            self.problems[path.name] = f"{path} cannot be read ({error.strerror}); the model was not loaded."
        except UnicodeEncodeError:
            shown = os.fsencode(path).decode(errors="backslashreplace")
            self.problems[shown] = f"The name {shown} is not UTF-8: rename it; the model was not loaded."

    def drop(self, name: str, problem: str) -> None:
        """A device could not load it: it is not offered any more."""
        self.checkpoints.pop(name, None)
        self.problems[name] = problem

    def of_kind(self, kind: str) -> Iterator[Checkpoint]:
        return (c for c in self.checkpoints.values() if c.config.kind == kind)

    def named(self, name: str | None, kind: str) -> Checkpoint:
        """The model of that name and kind; without a name, the only one of its kind."""
        candidates = {c.name: c for c in self.of_kind(kind)}
        noun = {"translator": "translator", "lyrics": "lyricist"}[kind]
        if name is not None and name in candidates:
            return candidates[name]
        listed = ", ".join(candidates) or "none"
        if name is not None:
            raise UnknownModel(f"There is no {noun} called {name!r} here. Loaded: {listed}.", field="model")
        if not candidates:
            raise UnknownModel(f"No {noun} is loaded here.", field="model")
        if len(candidates) > 1:
            raise InvalidRequest(f"Several {noun}s are loaded: name one of {listed} as model.", field="model")
        return next(iter(candidates.values()))

    def for_pair(self, source: str, target: str, name: str | None) -> Checkpoint:
        """The translator of a pair of languages, of that name if one is given."""
        pairs = {(c.config.source_language, c.config.target_language) for c in self.of_kind("translator")}
        for checkpoint in self.of_kind("translator"):
            pair = (checkpoint.config.source_language, checkpoint.config.target_language)
            if pair == (source, target) and name in (None, checkpoint.name):
                return checkpoint
        if name is not None and (source, target) in pairs:
            raise UnknownModel(f"There is no translator {name!r} for {source} → {target} here.", field="model")
        listed = ", ".join(f"{s} → {t}" for s, t in sorted(pairs, key=str)) or "none"
        raise UnknownPair(f"There is no model for {source} → {target} here. Loaded pairs: {listed}.", field="target")
