"""The checkpoints that the front end offers: their configs and tokenizers, never their weights.

A request takes its `ModelVersion` once and uses it to its end, so that it never mixes the tokenizer of one version with
the weights of another, whatever is loaded meanwhile or written to the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from app.engine.errors import CheckpointRefused, InvalidRequest, UnknownModel, UnknownPair
from app.engine.registry.model_card import licence
from app.engine.registry.pinned_files import PinnedFiles
from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, CheckpointError


@dataclass(frozen=True, slots=True)
class ModelVersion(Checkpoint):
    """One version of a checkpoint, as it was read. Versions count from 1 and are never used twice. kept: its files,
    for a device process that starts after the folder has changed. licence: as its model card had it."""

    version: int = 1
    kept: PinnedFiles | None = field(default=None, compare=False)
    licence: str | None = None
    loaded_at: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))

    @property
    def key(self) -> str:
        """The name under which the devices know it."""
        return f"{self.name}@{self.version}"


@dataclass(slots=True)
class ModelRegistry:
    """The editions that new requests get, by name. `problems` has a sentence for each folder that could not be used."""

    checkpoints: dict[str, ModelVersion] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> ModelRegistry:
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
        shown = os.fsencode(path).decode(errors="backslashreplace")
        try:
            if checkpoints.is_checkpoint(path):
                self.put(self.edition(path))
        except (CheckpointRefused, OSError) as error:  # such as the lost+found of a mounted disk
            name = path.name if shown == str(path) else shown
            self.problems[name] = refusal(path, error).message

    def edition(self, path: Path) -> ModelVersion:
        """Read and verify a folder as the next version of its name; CheckpointRefused says what is wrong with it."""
        try:
            str(path).encode()  # messages to devices and answers to clients are UTF-8; file names need not be
            found = checkpoints.read(path)
            kept = PinnedFiles(path, [checkpoints.CONFIG, *found.config.files])
        except (CheckpointError, OSError, UnicodeEncodeError) as error:
            raise refusal(path, error) from error
        version = self._versions.get(path.name, 0) + 1
        self._versions[path.name] = version
        return ModelVersion(found.folder, found.config, found.tokenizers, version, kept, licence(path))

    def put(self, edition: ModelVersion) -> None:
        """From now on new requests get this one. In order of names: of several that could answer the first does."""
        self.problems.pop(edition.name, None)
        self.checkpoints = dict(sorted({**self.checkpoints, edition.name: edition}.items()))

    def drop(self, name: str, problem: str | None = None) -> None:
        """It is not offered any more: no device could load it, or it was unloaded."""
        self.checkpoints.pop(name, None)
        if problem is not None:
            self.problems[name] = problem

    def of_kind(self, kind: str) -> Iterator[ModelVersion]:
        return (c for c in self.checkpoints.values() if c.config.kind == kind)

    def named(self, name: str | None, kind: str) -> ModelVersion:
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

    def for_pair(self, source: str, target: str, name: str | None) -> ModelVersion:
        """The translator of a pair of languages, of that name if one is given."""
        for checkpoint in self.of_kind("translator"):
            pair = (checkpoint.config.source_language, checkpoint.config.target_language)
            if pair == (source, target) and name in (None, checkpoint.name):
                return checkpoint
        pairs = {(c.config.source_language, c.config.target_language) for c in self.of_kind("translator")}
        if name is not None and (source, target) in pairs:
            raise UnknownModel(f"There is no translator {name!r} for {source} → {target} here.", field="model")
        listed = ", ".join(f"{s} → {t}" for s, t in sorted(pairs, key=str)) or "none"
        raise UnknownPair(f"There is no model for {source} → {target} here. Loaded pairs: {listed}.", field="target")


def refusal(path: Path, error: Exception) -> CheckpointRefused:
    """Why a folder cannot be served, in one sentence that any answer can carry."""
    shown = os.fsencode(path).decode(errors="backslashreplace")
    if isinstance(error, UnicodeEncodeError):
        return CheckpointRefused(f"The name {shown} is not UTF-8: rename it; the model was not loaded.")
    if isinstance(error, OSError):
        return CheckpointRefused(f"{shown} cannot be read ({error.strerror}); the model was not loaded.")
    return CheckpointRefused(str(error))
