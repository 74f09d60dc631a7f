"""Downloads a model into the Hugging Face Hub's own cache, and verifies it.

huggingface_hub's client does the transfer, so HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_OFFLINE and proxies hold as
everywhere. It compares sizes only; the checksums are compared here: the SHA-256 of files in LFS, and git's SHA-1 of
others."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import constants, hf_hub_download, is_offline_mode

from models.model_names import ModelName
from training.errors import TrainingError
from training.importers.hub_lookup import (
    CONFIG_FILE,
    HubFile,
    HubModel,
    HubUnreachable,
    broke_off,
    hub_errors,
    look_up,
)
from training.importers.import_progress import ImportProgress
from training.importers.marian.hub_folder import PICKLE, SAFETENSORS
from training.importers.resumable_download import download_blob

ATTEMPTS = 3  # of a small file's download that the network breaks off, beside huggingface_hub's own
FILES_AT_ONCE = 4
BLOCK = 1 << 20
SHA256_DIGITS = 64


@dataclass(frozen=True, slots=True)
class HubSnapshot:
    """The verified files of a model at one commit, in a folder of the Hub's cache."""

    path: Path
    name: str
    commit: str


def fetch_model(name: ModelName, types: Collection[str], progress: ImportProgress) -> HubSnapshot:
    """Downloads what the cache does not hold, and verifies all. Errors as of `look_up` and `download`; a whole model in
    the cache is used where the Hub cannot be reached."""
    progress.stage("look_up", name.repositories[0])
    try:
        return download(look_up(name, types), progress)
    except HubUnreachable as error:
        for repository in name.repositories:
            if (snapshot := cached_snapshot(repository, name.revision, progress)) is not None:
                if not is_offline_mode():
                    progress.note(f"{error} The copy in the cache ({constants.HF_HUB_CACHE}) is used.")
                return snapshot
        raise


def download(model: HubModel, progress: ImportProgress) -> HubSnapshot:
    """A file with a wrong checksum is fetched once more, and then refused with a TrainingError. HubUnreachable if the
    network breaks off for good; the next attempt fetches only what is missing."""
    files: Sequence[HubFile] = model.files
    for attempt in (1, 2):
        with hub_errors(model.name, model.revision):
            folder = _fetch(model, files, progress)
        files = _wrong_files(folder, model, progress)
        if not files:
            return HubSnapshot(folder, model.name, model.commit)
        for file in files:
            _remove_from_cache(folder / file.name)
        if attempt == 1:
            listed = ", ".join(file.name for file in files)
            progress.note(f"The checksum of {listed} in {model.name} is wrong: fetching it once more.")
    raise TrainingError(
        f"{files[0].name} of {model.name} does not match the checksum that the hub gives for it, after two downloads:"
        f" nothing was imported; a proxy or a mirror may change files on their way from {constants.ENDPOINT}."
    )


def _fetch(model: HubModel, files: Sequence[HubFile], progress: ImportProgress) -> Path:
    """Returns the folder of the snapshot."""
    progress.stage("download", model.name, sum(file.size for file in files))
    stop = threading.Event()
    pool = ThreadPoolExecutor(FILES_AT_ONCE)
    try:
        downloads = [pool.submit(_fetch_file, model, file, _ByteCounter(progress, stop)) for file in files]
        ended, _ = wait(downloads, return_when=FIRST_EXCEPTION)
        paths = [download.result() for download in ended]
    finally:
        stop.set()  # after Ctrl-C or a failure the other downloads end too, instead of holding up the exit
        pool.shutdown(cancel_futures=True)
    progress.close()
    folder = paths[0].parent
    if folder.name != model.commit:
        raise TrainingError(f"{model.name} has changed on the hub during the download: try once more.")
    return folder


def _fetch_file(model: HubModel, file: HubFile, counter: _ByteCounter) -> Path:
    if file.digest and len(file.digest) == SHA256_DIGITS:  # in LFS: large
        download_blob(model, file, counter.add)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            path = hf_hub_download(model.name, file.name, revision=model.revision, tqdm_class=counter.bar_class())
            break
        except Exception as error:
            if attempt == ATTEMPTS or not broke_off(error) or not counter.done:
                raise
            counter.add(-counter.done)
            time.sleep(attempt)
    counter.add(file.size - counter.done)  # what the cache held already
    return Path(path)


class _Stopped(Exception):
    """Ends the download of a file in its thread."""


class _ByteCounter:
    """Counts the bytes of one file into the progress of all files. stop: ends the download at its next block."""

    def __init__(self, progress: ImportProgress, stop: threading.Event) -> None:
        self._progress, self._stop, self.done = progress, stop, 0
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        if self._stop.is_set():
            raise _Stopped
        with self._lock:
            self.done += size
        if size:
            self._progress.advance(size)

    def bar_class(self) -> type[Any]:
        """What huggingface_hub takes for a class of tqdm: its bars move this counter."""
        counter = self

        class Bar:
            def __init__(self, *_: object, initial: float = 0, total: float | None = None, **__: object) -> None:
                self.n, self.total, self.format_dict = initial, total, dict[str, object]()
                counter.add(int(initial))

            def update(self, n: float | None = 1) -> None:
                self.n += n or 0
                counter.add(int(n or 0))

            def update_transfer(self, n: float | None = 1) -> None:
                """Bytes on the wire: compression makes them another number than those of the file."""

            def __enter__(self) -> Bar:
                return self

            def __exit__(self, *_: object) -> None: ...

            def refresh(self, *_: object, **__: object) -> None: ...

            close = set_postfix_str = set_transfer_postfix_str = set_description = refresh

        return Bar


def _wrong_files(folder: Path, model: HubModel, progress: ImportProgress) -> list[HubFile]:
    progress.stage("verify", model.name, model.size)
    return [file for file in model.files if file.digest and not has_digest(folder / file.name, file.digest, progress)]


def has_digest(path: Path, digest: str, progress: ImportProgress) -> bool:
    """digest: as in `HubFile`."""
    if len(digest) == SHA256_DIGITS:
        made = hashlib.sha256()
    else:
        made = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            made.update(block)
            progress.advance(len(block))
    return made.hexdigest() == digest


def _remove_from_cache(path: Path) -> None:
    """Removes a file of a snapshot, and the blob that it links to."""
    blob = path.resolve()
    path.unlink(missing_ok=True)
    blob.unlink(missing_ok=True)


def cached_snapshot(repository: str, revision: str | None, progress: ImportProgress) -> HubSnapshot | None:
    """A whole model in the Hub's cache, or None. Blobs there are named by their digests. TrainingError for a wrong
    one."""
    try:
        config = hf_hub_download(repository, CONFIG_FILE, revision=revision, local_files_only=True)
    except (OSError, ValueError):  # it is not there, or the name cannot be one of the Hub's
        return None
    folder = Path(config).parent
    if not any((folder / name).is_file() for name in (SAFETENSORS, PICKLE)):
        return None
    blobs = {path: path.resolve() for path in folder.iterdir() if path.is_file()}
    progress.stage("verify", repository, sum(blob.stat().st_size for blob in blobs.values()))
    for path, blob in blobs.items():
        named = re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", blob.name)  # without symbolic links files have their names
        if named and not has_digest(blob, blob.name, progress):
            raise TrainingError(
                f"The checksum of {path} is wrong: remove {folder.parent.parent}, and fetch {repository} once more."
            )
    return HubSnapshot(folder, repository, folder.name)
