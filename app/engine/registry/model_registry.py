"""The checkpoints on offer in the front end: configs and tokenizers, never weights. A request holds one `ModelVersion`
from start to end, so that it never mixes the tokenizer of one version with the weights of another, whatever is loaded
or written to the folder in the meantime."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from app.engine.interface import ModelOrder
from app.errors import CheckpointRefused, EngineUnavailable, InvalidRequest, UnknownModel, UnknownPair
from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, CheckpointError
from models.checkpoint_trial import CheckpointTrials
from models.imported_folder import stands_in
from models.model_card import licence
from models.model_names import checkpoint_folder, parse_model_name

log = logging.getLogger(__name__)
Kind = Literal["translator", "lyrics"]
NOUNS = {"translator": "translator", "lyrics": "lyricist"}
TRIALS = CheckpointTrials()  # of the process, since a checkpoint that was sound once stays so


class PinnedFiles:
    """File descriptors of a checkpoint's files, open for the lifetime of this object. They preserve files that are
    replaced or removed, as `python -m training`, rsync and package managers do, but not files modified in place."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._files, closing = dict[str, int](), ExitStack()
        weakref.finalize(self, closing.close)
        for name in names:
            self._files[name] = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
            closing.callback(os.close, self._files[name])

    def paths(self) -> dict[str, str]:
        """Paths by which other processes of this user can open the files; {} on systems without /proc."""
        if sys.platform != "linux":
            return {}
        return {name: f"/proc/{os.getpid()}/fd/{number}" for name, number in self._files.items()}


@dataclass(frozen=True, slots=True)
class ModelVersion(Checkpoint):
    """One loaded version of a checkpoint. Versions count from 1 and are never reused. pinned: its files, for a device
    process that starts after the folder has changed. licence: from its model card. by_pair: a multilingual translator
    as one checkpoint for each of its language pairs, all with the key of this version; () for other models."""

    version: int = 1
    pinned: PinnedFiles | None = field(default=None, compare=False)
    licence: str | None = None
    loaded_at: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    by_pair: tuple[ModelVersion, ...] = field(default=(), compare=False, repr=False)

    @property
    def key(self) -> str:
        """The version's name on the devices, such as everyday@2."""
        return f"{self.name}@{self.version}"


class ModelRegistry:
    """The models on offer. folder: its sub-folders are the checkpoints, by their names. models: the ones to read, named
    as in `models.model_names`; (), or if none of them is there: all. versions: the current version by name; the first
    match answers: first `models`, then others, then those of Parlance, each sorted by name. problems: one sentence per
    unusable folder or missing model. stand_ins: one per folder that answers for a name on the hub and is not from
    there, by the folder's name."""

    def __init__(self, folder: Path, models: Sequence[str] = ()) -> None:
        self.folder = folder
        self._models = tuple(models)
        self._ranks: dict[str, int] = {}
        self.versions: dict[str, ModelVersion] = {}
        self.problems: dict[str, str] = {}
        self.stand_ins: dict[str, str] = {}
        self.was_read = False
        self._last_versions: dict[str, int] = {}
        self.users: Counter[str] = Counter()  # requests by key of the version that they use
        self._unused: dict[str, asyncio.Event] = {}

    def read(self) -> None:
        """Reads every checkpoint sub-folder; an unusable one does not affect the others. Slow: call it in a thread."""
        versions, problems = dict[str, ModelVersion](), dict[str, str]()
        folder = self.folder
        try:
            paths = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        except OSError as error:
            problems[str(folder)] = f"{folder} cannot be read ({error.strerror}); no model was loaded."
            paths = []
        chosen = {name: checkpoint_folder(name, folder) for name in self._models}
        problems |= {name: self._missing(name) for name, path in chosen.items() if path is None}
        found = list(dict.fromkeys(path for path in chosen.values() if path is not None))
        self._ranks = {path.name: rank for rank, path in enumerate(found)}
        paths = found or paths

        def refuse(path: Path, error: Exception) -> None:
            shown = os.fsencode(path).decode(errors="backslashreplace")
            problems[path.name if shown == str(path) else shown] = refusal(path, error).message

        folders = list[Path]()
        for path in paths:
            try:
                folders += [path] if checkpoints.is_checkpoint(path) else []
            except OSError as error:  # such as the lost+found of a mounted disk
                refuse(path, error)
        TRIALS.begin(folders)  # the child reads the next folders while this process computes checksums
        for path in folders:
            try:
                versions[path.name] = self.read_version(path)
            except CheckpointRefused as error:
                refuse(path, error)
        if not versions and not problems:
            problems[str(folder)] = (
                f"{folder} holds no checkpoint: `parlance import everyday --into {folder}` copies one into it."
            )
        self.stand_ins = self._stand_ins(versions.values())
        self.versions, self.problems, self.was_read = self._in_order(versions), problems, True

    def _naming(self, version: ModelVersion) -> list[str]:
        """The names in `models` that mean this model."""
        return [name for name in self._models if checkpoint_folder(name, self.folder) == version.folder]

    def _stand_ins(self, versions: Iterable[ModelVersion]) -> dict[str, str]:
        return {
            version.name: sentence
            for version in versions
            for name in self._naming(version)
            if (sentence := stands_in(name, version.folder, version.config)) is not None
        }

    @property
    def lacks_named(self) -> bool:
        """Whether one of `models` cannot be had."""
        return any(name in self.problems for name in (*self._models, *self._ranks))

    def _missing(self, name: str) -> str:
        if not parse_model_name(name).repositories:
            return f"{name} is not in {self.folder}, and no name on the hub."
        return f"{name} is not in {self.folder}: fetch it with `parlance import {name} --into {self.folder}`."

    def _in_order(self, versions: Mapping[str, ModelVersion]) -> dict[str, ModelVersion]:
        last = len(self._ranks)
        places = {
            name: (self._ranks.get(name, last), self.order_of(version) == "demo", name)
            for name, version in versions.items()
        }
        return {name: versions[name] for name in sorted(versions, key=places.__getitem__)}

    def order_of(self, version: ModelVersion) -> ModelOrder:
        """Why a model has its place: it was named at the start, it comes with Parlance, or else by its name."""
        if version.name in self._ranks:
            return "named"
        return "demo" if version.demo else "name"

    def require_read(self) -> None:
        """Raises EngineUnavailable until the checkpoints are read: before that, no name is known to be wrong."""
        if not self.was_read:
            raise EngineUnavailable("Models are still loading; try again in a few seconds.", reason="loading")

    def read_version(self, path: Path) -> ModelVersion:
        """Reads and verifies a folder as the next version of its name. Raises CheckpointRefused."""
        try:
            str(path).encode()  # messages and answers are UTF-8; file names need not be
            config = checkpoints.read_verified_config(path)
            TRIALS.require(path)
            demo = checkpoints.read_demo_card(path)
            notices = checkpoints.read_notice_record(path)
            tokenizers, stand_ins = checkpoints.read_tokenizers(path, config), checkpoints.read_stand_ins(path, config)
            read = Checkpoint(path, config, tokenizers, demo, notices, stand_ins)
            pinned = PinnedFiles(path, [checkpoints.CONFIG, *read.config.files])
        except (CheckpointError, OSError, UnicodeEncodeError) as error:
            raise refusal(path, error) from error
        version = self._last_versions[path.name] = self._last_versions.get(path.name, 0) + 1
        own = (read.folder, read.config, read.tokenizers, read.demo, read.notices, read.stand_ins)
        model = ModelVersion(*own, version, pinned, licence(path))
        return replace(model, by_pair=model.single_pairs()) if read.config.language_pairs else model

    def offer(self, version: ModelVersion) -> None:
        """Makes a version the current one for new requests."""
        for name in (version.name, str(self.folder), *self._naming(version)):
            self.problems.pop(name, None)
        self.stand_ins.pop(version.name, None)
        self.stand_ins |= self._stand_ins([version])
        self.versions = self._in_order({**self.versions, version.name: version})

    async def record_stand_ins(self, name: str, version: int, pair: tuple[str, str], kinds: tuple[str, ...]) -> None:
        """Adds what was tried of a version to it, and to its folder where that can be written; without effect where the
        version is not the current one any more."""
        current = self.versions.get(name)
        if current is None or current.version != version:
            return
        known = {**current.stand_ins, pair: kinds}
        self.versions[name] = replace(current, stand_ins=known)
        try:
            await asyncio.to_thread(checkpoints.record_stand_ins, current.folder, current.config, known)
        except OSError as error:  # such as a folder that a container mounts read-only
            log.info("%s keeps no %s (%s)", current.folder, checkpoints.STAND_INS, error.strerror)

    def withdraw(self, name: str, problem: str | None = None) -> None:
        """Stops offering a model, which was unloaded or which no device could load (problem)."""
        self.versions.pop(name, None)
        self.stand_ins.pop(name, None)
        if problem is not None:
            self.problems[name] = problem

    def offered(self, name: str) -> ModelVersion:
        """The current version of a model. Raises UnknownModel."""
        self.require_read()
        if name not in self.versions:
            listed = ", ".join(self.versions) or "none"
            raise UnknownModel(f"No model {name} is loaded. Loaded: {listed}.", field="name")
        return self.versions[name]

    def named(self, name: str | None, kind: Kind, refusal: str = "", field_name: str = "model") -> ModelVersion:
        """The model of that name, or the only one of its kind. refusal: message for a name of the other kind."""
        self.require_read()
        candidates = {version.name: version for version in self.versions.values() if version.config.kind == kind}
        if name is not None and name in candidates:
            return candidates[name]
        if refusal and name in self.versions:
            raise InvalidRequest(f"{name} {refusal}", field=field_name)
        noun, listed = NOUNS[kind], ", ".join(candidates) or "none"
        if name is not None:
            raise UnknownModel(f"There is no {noun} called {name!r} here. Loaded: {listed}.", field="model")
        if not candidates:
            raise UnknownModel(f"No {noun} is loaded here.", field="model")
        if len(candidates) > 1:
            raise InvalidRequest(f"Several {noun}s are loaded: name one of {listed} as model.", field="model")
        return next(iter(candidates.values()))

    def for_pair(self, source: str, target: str, name: str | None) -> ModelVersion:
        """The translator of a language pair, and of that name if not None. Raises UnknownPair, UnknownModel."""
        self.require_read()
        pairs = set()
        for version in self.versions.values():
            for single in version.by_pair or (version,):
                config = single.config
                if config.kind == "translator":
                    pair = (config.source_language, config.target_language)
                    if pair == (source, target) and name in (None, version.name):
                        return single
                    pairs.add(pair)
        if name is not None and (source, target) in pairs:
            raise UnknownModel(f"There is no translator {name!r} for {source} → {target} here.", field="model")
        listed = ", ".join(f"{s} → {t}" for s, t in sorted(pairs, key=str)) or "none"
        raise UnknownPair(f"There is no model for {source} → {target} here. Loaded pairs: {listed}.", field="target")

    def translator(self, name: str | None, target: str | None, refusal: str, field_name: str = "model") -> ModelVersion:
        """The translator of that name, or the only one, into `target`; None: the only target language of the model.
        Raises like `named`; UnknownPair, and InvalidRequest where a multilingual model needs a target."""
        version = self.named(name, "translator", refusal, field_name)
        singles = version.by_pair or (version,)
        targets = {single.config.target_language: single for single in reversed(singles)}
        if target in targets:
            return targets[target]
        listed = ", ".join(sorted(map(str, targets)))
        if target is not None:
            raise UnknownPair(f"{version.name} does not translate into {target}: {listed}.", field="target_language")
        if len(targets) > 1:
            message = f"{version.name} translates into several languages: give one as target_language: {listed}."
            raise InvalidRequest(message, field="target_language")
        return singles[0]

    @contextmanager
    def in_use(self, versions: Sequence[ModelVersion]) -> Iterator[None]:
        """Keeps versions on the devices while a request uses them: from before tokenization to its last token."""
        keys = {version.key for version in versions}
        self.users.update(keys)
        try:
            yield
        finally:
            self.users.subtract(keys)
            for key in keys:
                if not self.users[key]:
                    del self.users[key]
                    if key in self._unused:
                        self._unused[key].set()

    async def unused(self, version: ModelVersion, timeout_s: float) -> None:
        """Waits until no request uses the version. Raises TimeoutError."""
        if self.users[version.key]:
            self._unused[version.key] = asyncio.Event()
            try:
                await asyncio.wait_for(self._unused[version.key].wait(), timeout_s)
            finally:
                del self._unused[version.key]


def refusal(path: Path, error: Exception) -> CheckpointRefused:
    """The error, in one sentence, for a folder that cannot be served."""
    shown = os.fsencode(path).decode(errors="backslashreplace")
    if isinstance(error, UnicodeEncodeError):
        return CheckpointRefused(f"The name {shown} is not UTF-8: rename it; the model was not loaded.")
    if isinstance(error, OSError):
        return CheckpointRefused(f"{shown} cannot be read ({error.strerror}); the model was not loaded.")
    return CheckpointRefused(str(error))
