"""Downloads a large file of the Hub into the cache. A download that was interrupted, also by a kill of the process, is
continued behind its last byte by the next one.

huggingface_hub removes its part of a file when a download fails, and gives it another name in every process, so that it
begins each file anew. Here the part has one name, and the finished file is put where huggingface_hub looks for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from huggingface_hub import constants, get_hf_file_metadata, get_session, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # it has no __all__
    WeakFileLock,
    build_hf_headers,
    hf_raise_for_status,
)

from training.importers.hub_lookup import BUSY, HubFile, HubModel, broke_off

RETRIES = 5  # without a byte between them
RETRY_AFTER_S = 1.0


def download_blob(model: HubModel, file: HubFile, advance: Callable[[int], None]) -> None:
    """Writes the file into the cache's blobs, if it is not there. Its content is not verified. Does nothing where the
    Hub, or a mirror, calls the file something other than its digest: the cache would be asked for that.

    advance: gets the bytes that are there and then those that arrive, negative where the server begins anew; what it
    raises ends the download."""
    assert file.digest is not None, "a blob is named by its digest"
    name = repo_folder_name(repo_id=model.name, repo_type="model")
    cache = Path(constants.HF_HUB_CACHE)
    blob = cache / name / "blobs" / file.digest
    url = hf_hub_url(model.name, file.name, revision=model.commit)
    if blob.exists() or get_hf_file_metadata(url).etag != file.digest:
        return
    lock = cache / ".locks" / name / f"{file.digest}.lock"  # huggingface_hub's own
    for folder in (blob.parent, lock.parent):
        folder.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if blob.exists():
            return
        part = blob.with_name(f"{file.digest}.incomplete")
        if part.exists() and part.stat().st_size > file.size:
            part.unlink()
        _complete(part, url, file.size, advance)
        part.rename(blob)


def _complete(part: Path, url: str, size: int, advance: Callable[[int], None]) -> None:
    part.touch()
    advance(part.stat().st_size)
    failures = 0
    while (before := part.stat().st_size) < size:
        try:
            _append(part, url, before, advance)
            if part.stat().st_size < size:
                raise ConnectionError(f"{part.stat().st_size} of {size} bytes have arrived")
        except Exception as error:
            busy = isinstance(error, HfHubHTTPError) and error.response.status_code in BUSY
            failures = 1 if part.stat().st_size > before else failures + 1
            if failures > RETRIES or not (busy or broke_off(error)):
                raise
            time.sleep(RETRY_AFTER_S)


def _append(part: Path, url: str, start: int, advance: Callable[[int], None]) -> None:
    """The request follows redirects to the Hub's CDN, which gets no token: it is another origin."""
    headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with (
        part.open("ab") as stream,
        get_session().stream("GET", url, headers=headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT) as response,
    ):
        if response.is_error:
            response.read()  # for the sentence in it
        hf_raise_for_status(response)
        if start and response.status_code != 206:  # a server that knows no ranges
            stream.truncate(0)
            advance(-start)
        for block in response.iter_bytes():
            stream.write(block)
            advance(len(block))
