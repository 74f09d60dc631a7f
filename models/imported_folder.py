"""Checkpoint folders that were imported: from where, whether they are as they were, and how one is replaced.

A model is made in a hidden folder beside its place, which a server does not read, and then renamed: a server finds the
old model, the new one, or for an instant none, but never half of one."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from models.checkpoint import (
    CONFIG,
    CONFIG_CHECKSUM,
    STAND_INS,
    CheckpointConfig,
    CheckpointError,
    read_verified_config,
    sha256,
)
from models.model_card import CARD
from models.model_names import parse_model_name

ORIGINAL_CARD = "README.original.md"
IMPORTED_FROM, REVISION, CARDS = "imported_from", "revision", "cards"
"""What an import notes in a config's `training`: the repository, its commit, and the checksums of the cards."""


def origin_in_words(config: CheckpointConfig) -> str:
    """To follow a folder's name."""
    origin = config.training.get(IMPORTED_FROM)
    if origin is None:
        tuned = config.training.get("from")
        start = tuned.get("given") if isinstance(tuned, Mapping) else None
        return f"was tuned from {start}" if start else "was trained, not imported"
    return f"was imported from {origin}"


def stands_in(given: str, folder: Path, config: CheckpointConfig) -> str | None:
    """A sentence where `folder` answers for a name on the hub and was not imported from there; None where it was, or
    where `given` names the folder itself."""
    name = parse_model_name(given)
    names_it = given.strip().rstrip("/") == folder.name or (os.path.exists(given) and folder.samefile(given))  # noqa: PTH110
    if names_it or not name.repositories or config.training.get(IMPORTED_FROM) in name.repositories:
        return None
    return (
        f"{folder} is served for {given}, and it {origin_in_words(config)}: to have the model of the hub, give this"
        " folder another name."
    )


def reason_to_keep(folder: Path, repositories: Sequence[str]) -> str | None:
    """Why an import from one of `repositories` must not replace the folder, to follow its name; None for one that was
    imported from there, and in which nothing has changed since."""
    try:
        config = read_verified_config(folder)
    except CheckpointError as error:
        return f"cannot be told from a model of yours ({str(error).rstrip('.')})"
    if config.training.get(IMPORTED_FROM) not in repositories:
        return origin_in_words(config)
    own = {CONFIG, CONFIG_CHECKSUM, STAND_INS, CARD, ORIGINAL_CARD, *config.files}
    if more := sorted({path.name for path in folder.iterdir()} - own):
        return f"holds {more[0]}, which no import writes"
    if not (folder / CONFIG_CHECKSUM).is_file():
        return f"has been changed since its import ({CONFIG})"
    cards = config.training.get(CARDS)
    for name, digest in cards.items() if isinstance(cards, Mapping) else ():
        if name in own and (folder / name).is_file() and sha256(folder / name) != digest:
            return f"has been changed since its import ({name})"
    return None


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """One import of a name at a time; BlockingIOError for a second one. The lock is the operating system's, and ends
    with its process. What a killed import has left is cleared before."""
    place.parent.mkdir(parents=True, exist_ok=True)
    path = place.with_name(f".{place.name}.lock")
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            if path.stat().st_ino != os.fstat(file.fileno()).st_ino:  # another import has begun since
                raise BlockingIOError
        try:
            _clear(place)
            yield
        finally:
            path.unlink(missing_ok=True)


def beside(place: Path) -> tuple[Path, Path]:
    """The hidden folders of the new and the replaced model."""
    return place.with_name(f".{place.name}.new"), place.with_name(f".{place.name}.old")


def replace_folder(place: Path, new: Path) -> None:
    """Puts `new` in the place of what is there, if anything is; within `alone`."""
    old = beside(place)[1]
    if place.exists():
        place.rename(old)
    new.rename(place)
    _clear(place)
    descriptor = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _clear(place: Path) -> None:
    """Removes a half model, and puts back one whose replacement was ended between the two renames."""
    new, old = beside(place)
    shutil.rmtree(new, ignore_errors=True)
    if old.is_dir() and not place.exists():
        old.rename(place)
    elif old.is_symlink():
        old.unlink()
    else:
        shutil.rmtree(old, ignore_errors=True)


def clear_leftovers(checkpoints: Path) -> None:
    """Clears what imports into this folder have left that were killed, and that run no more."""
    for lock in checkpoints.glob(".*.lock"):
        with suppress(OSError):
            if lock.stat().st_size == 0:
                with alone(checkpoints / lock.name[1:].removesuffix(".lock")):
                    pass
