"""Imports models by name into a folder of checkpoints, which a server may be serving from.

A model is made in a hidden folder beside its place, which a server does not read, and then renamed: a server finds the
old model, the new one, or for an instant none, but never half of one."""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from models.model_names import ModelName, checkpoint_folder, parse_model_name
from training.errors import TrainingError, unwritable_reason
from training.importers.hub_lookup import HubUnreachable
from training.importers.import_progress import ImportProgress
from training.importers.marian.convert_checkpoint import (
    MarianConversion,
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
    made from something else."""
    name = _checked_name(given)
    there = checkpoint_folder(given, into)
    if there is not None and _is_of(there, name) and not (update and name.repositories):
        progress.stage("done", there.name)
        return ImportedModel(given, there, imported=False)
    if not name.repositories and not Path(given).is_dir():
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
        imported = _import_folder(folder, place, name, progress, update=update)
    except OSError as error:
        if (reason := unwritable_reason(error)) is None:
            raise
        raise TrainingError(
            f"{into} cannot be written ({reason}): make room for {place.name}, or give another folder."
        ) from error
    progress.stage("done", place.name)
    return ImportedModel(given, place, imported)


def _import_folder(
    folder: MarianFolder, place: Path, name: ModelName, progress: ImportProgress, *, update: bool
) -> bool:
    """Returns False if the checkpoint is there already."""
    with _alone(place):
        _finish_replacement(place)
        if place.is_dir() and checkpoints.is_checkpoint(place):
            if not _is_of(place, name):
                origin = _recorded(place, "imported_from")
                raise TrainingError(f"{place} is {origin}: import {folder.name} under another name, with --out.")
            if not update or _recorded(place, "revision") == folder.commit:
                return False
        elif place.exists():
            raise TrainingError(f"{place} is in the way: it is no checkpoint; move it, or import with --out.")
        progress.stage("convert", folder.name)
        _replace(place, _convert(folder))
    return True


def _checked_name(given: str) -> ModelName:
    path = Path(given)
    if path.is_dir() and "/" in given:
        try:
            checkpoints.read_config(path)
        except CheckpointError:
            return ModelName(given, ())
        raise TrainingError(f"{given} is a checkpoint already: move it into the folder that the server reads.")
    return parse_model_name(given)


def _is_of(folder: Path, name: ModelName) -> bool:
    """False for a checkpoint that was imported from another repository than this name stands for."""
    origin = str(_recorded(folder, "imported_from"))
    return not name.repositories or "/" not in origin or origin in name.repositories


def _recorded(folder: Path, field: str) -> object:
    """An entry that only imports make in a checkpoint's config, such as "imported_from"; None without it."""
    try:
        return checkpoints.read_config(folder).training.get(field)
    except CheckpointError as error:
        raise TrainingError(str(error)) from error


def _convert(folder: MarianFolder) -> MarianConversion:
    """A model with several target languages keeps all of them."""
    try:
        return convert_marian(folder)
    except TokenNeeded:
        return convert_marian(folder, target="all")


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    """One import of a name at a time. The lock is the operating system's, and ends with its process."""
    place.parent.mkdir(parents=True, exist_ok=True)
    path = place.with_name(f".{place.name}.lock")
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TrainingError(
                f"Another process is importing {place.name} into {place.parent}; wait for it."
            ) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _beside(place: Path) -> tuple[Path, Path]:
    """The hidden folders of the new and the replaced model."""
    return place.with_name(f".{place.name}.new"), place.with_name(f".{place.name}.old")


def _replace(place: Path, made: MarianConversion) -> None:
    new, old = _beside(place)
    shutil.rmtree(new, ignore_errors=True)
    try:
        write_conversion(made, new)
        if place.exists():
            place.rename(old)
        new.rename(place)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    descriptor = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _finish_replacement(place: Path) -> None:
    """Puts back a model whose replacement was ended between the two renames."""
    old = _beside(place)[1]
    if old.is_dir() and not place.exists():
        old.rename(place)
