"""Imports models by name into a folder of checkpoints, which a server may be serving from. A folder that is there is
replaced only by a newer model of the repository that it was imported from; see `models.imported_folder`."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from models.checkpoint_trial import problem_of
from models.imported_folder import (
    IMPORTED_FROM,
    REVISION,
    alone,
    beside,
    origin_in_words,
    reason_to_keep,
    replace_folder,
)
from models.model_names import ModelName, checkpoint_folder, parse_model_name, shipped_folder
from models.networks import loading
from training.errors import TrainingError, unwritable_reason
from training.importers.hub_download import HubUnreachable
from training.importers.import_progress import ImportProgress
from training.importers.marian.convert_checkpoint import (
    MarianConversion,
    careful,
    convert_marian,
    marian_folder,
    write_conversion,
)
from training.importers.marian.hub_folder import MarianFolder
from training.importers.marian.marian_languages import TokenNeeded

EXAMPLE_PAGE = "https://huggingface.co/Helsinki-NLP/opus-mt-de-en"


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """given: the name as it was asked for. folder: the checkpoint. imported: False if it was there already."""

    given: str
    folder: Path
    imported: bool


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    models: tuple[ImportedModel, ...]
    errors: tuple[TrainingError, ...]

    @property
    def gravest(self) -> TrainingError | None:
        """The first error that another attempt would not mend, or else the first."""
        lasting = [error for error in self.errors if not isinstance(error, HubUnreachable)]
        return next(iter(lasting or self.errors), None)


def import_models(names: Sequence[str], into: Path, progress: ImportProgress, *, update: bool = False) -> ImportOutcome:
    """Imports each model that is not in `into` yet, and goes on after one that fails. names: as in
    `models.model_names`, or local Marian folders. update: import those again whose repository has changed."""
    models, errors = list[ImportedModel](), list[TrainingError]()
    for name in names:
        try:
            models.append(import_model(name, into, progress, update=update))
        except TrainingError as error:
            errors.append(error)
        finally:
            progress.close()
    return ImportOutcome(tuple(models), tuple(errors))


def import_model(given: str, into: Path, progress: ImportProgress, *, update: bool = False) -> ImportedModel:
    """The folder is named like the repository, such as opus-mt-de-en. TrainingError, also if a folder of that name was
    made from something else, or changed since its import."""
    name = _checked_name(given)
    local = not name.repositories and Path(given).is_dir()
    there = checkpoint_folder(given, into)
    if there is not None and not local:
        if name.repositories:
            _require_origin(there, name, update=update)
        if not (update and name.repositories):
            return _there_already(given, there, progress)
    if not local and (shipped := shipped_folder(given)):
        return _copied(shipped, into, progress)
    if not name.repositories and not local:
        if "://" in given:
            raise TrainingError(f"{given} is no address of a model's page on the hub, such as {EXAMPLE_PAGE}.")
        if "/" in given:
            raise TrainingError(f"There is no folder {given}.")
        near = difflib.get_close_matches(given, [folder.name for folder in into.glob("*/")], 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise TrainingError(
            f"{given} is no model in {into}{hint}, and no name on the hub such as Helsinki-NLP/opus-mt-de-en or de-en."
        )
    folder = marian_folder(given, progress)
    place = into / folder.name.rpartition("/")[2]
    try:
        with alone(place), careful(folder):
            if place.exists() or place.is_symlink():
                if not checkpoints.is_checkpoint(place):
                    raise TrainingError(f"{place} is in the way: it is no checkpoint; move it, or import with --out.")
                origin = ModelName(given, (folder.name,)) if local else name
                _require_origin(place, origin, update=update)
                if not update or local or _config(place).training.get(REVISION) == folder.commit:
                    return _there_already(given, place, progress)
            progress.stage("convert", folder.name)
            _replace(place, _convert(folder))
    except OSError as error:
        raise _unwritable(place, error) from error
    progress.stage("done", place.name)
    return ImportedModel(given, place, imported=True)


def _copied(shipped: Path, into: Path, progress: ImportProgress) -> ImportedModel:
    """A copy of a model that comes with this project, which can be tuned or removed like any other."""
    place = into / shipped.name
    new, _ = beside(place)
    try:
        with alone(place):
            if place.exists() or place.is_symlink():
                raise TrainingError(f"{place} is in the way: move it, or give another folder.")
            try:
                shutil.copytree(shipped, new)
                replace_folder(place, new)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise _unwritable(place, error) from error
    progress.note(f"{place.name} comes with Parlance; {place} is a copy of it.")
    progress.stage("done", place.name)
    return ImportedModel(place.name, place, imported=True)


def _unwritable(place: Path, error: OSError) -> Exception:
    """The error of an import into a folder that cannot be written; `error` itself where it is another one."""
    if isinstance(error, BlockingIOError):
        return TrainingError(f"Another process is importing {place.name} into {place.parent}; wait for it.")
    if (reason := unwritable_reason(error)) is None:
        return error
    return TrainingError(
        f"{place.parent} cannot be written ({reason}): make room for {place.name}, or give another folder."
    )


def _there_already(given: str, folder: Path, progress: ImportProgress) -> ImportedModel:
    config = _config(folder)
    revision = config.training.get(REVISION)
    at = f" at commit {revision}" if isinstance(revision, str) else ""
    progress.note(f"{folder} is there already: it {origin_in_words(config)}{at}.")
    progress.stage("done", folder.name)
    return ImportedModel(given, folder, imported=False)


def _require_origin(folder: Path, name: ModelName, *, update: bool) -> None:
    """TrainingError for a checkpoint that was not imported from the repository that the name stands for, and for one
    that an update must not replace."""
    if update:
        reason = reason_to_keep(folder, name.repositories)
    else:
        config = _config(folder)
        reason = None if config.training.get(IMPORTED_FROM) in name.repositories else origin_in_words(config)
    if reason is not None:
        raise TrainingError(
            f"{folder} {reason}: it stays as it is; import {name.given} under another name, with --out."
        )


def _checked_name(given: str) -> ModelName:
    path = Path(given)
    if path.is_dir() and "/" in given:
        try:
            checkpoints.read_config(path)
        except CheckpointError:
            return ModelName(given, ())
        raise TrainingError(f"{given} is a checkpoint already: move it into the folder that the server reads.")
    return parse_model_name(given)


def _config(folder: Path) -> checkpoints.CheckpointConfig:
    try:
        return checkpoints.read_config(folder)
    except CheckpointError as error:
        raise TrainingError(str(error)) from error


def _convert(folder: MarianFolder) -> MarianConversion:
    """A model with several target languages keeps all of them."""
    try:
        return convert_marian(folder)
    except TokenNeeded:
        return convert_marian(folder, target="all")


def _replace(place: Path, made: MarianConversion) -> None:
    """What is there stays until the new model has been read and loaded from its folder."""
    new, _ = beside(place)
    try:
        write_conversion(made, new)
        try:
            if (problem := problem_of(new)) is not None:
                raise CheckpointError(problem)
            loading.load_network(checkpoints.read(new))
        except CheckpointError as error:
            raise TrainingError(f"{place.name} was not imported, since it cannot be loaded: {error}") from error
        replace_folder(place, new)
    finally:
        shutil.rmtree(new, ignore_errors=True)
