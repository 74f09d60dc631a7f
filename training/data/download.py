"""Downloads into the cache folder: resumed after a break, of the announced size, and whole by their own checksums."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from training.data.cache_folder import VARIABLE, cache_folder, locked
from training.data.progress_bar import ProgressBar, progress_bar
from training.errors import TrainingError

TRIES = 4  # without a byte in between
WAIT_S = 1.0  # before another try, doubled each time
TIMEOUT_S = 30.0  # without a byte
CHUNK = 1 << 18  # bytes
OPENERS: dict[str, Any] = {".gz": gzip.open, ".tgz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
REASONS = {  # a word of the library's error -> what to say
    "certificate": "its certificate is not valid",
    "refused": "connection refused",
    "resolve": "unknown host",
    "timed out": "no answer in time",
}


class BrokenOff(Exception):
    """A download that ended early and may go on."""


def local_path(url: str) -> Path:
    parts = urlparse(url)
    digest = hashlib.sha256(url.encode()).hexdigest()[:12]
    return (
        cache_folder() / "downloads" / (parts.hostname or "host") / digest / (Path(unquote(parts.path)).name or "file")
    )


def download(url: str, what: str) -> Path:
    """The file at this address, from the cache folder if it is there. what: names it in messages. TrainingError says
    what went wrong and what to do."""
    path = local_path(url)
    with locked(path):
        if path.is_file():
            return path
        part = path.with_name(f"{path.name}.part")
        _fetch(url, part, what)
        try:
            _verify(part, path.suffix)
        except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
            part.unlink()
            _state(part).unlink(missing_ok=True)
            raise TrainingError(
                f"{what} came damaged from {url} ({error}) and is removed: run the command again, and if that does not"
                " help, the file is damaged at its source."
            ) from None
        part.rename(path)
        _state(part).unlink(missing_ok=True)
    return path


def _fetch(url: str, part: Path, what: str) -> None:
    import requests
    from urllib3.exceptions import HTTPError

    tries, wait = 0, WAIT_S
    with progress_bar(f"downloading {what}", None, "B") as bar, requests.Session() as session:
        while True:
            before = part.stat().st_size if part.exists() else 0
            try:
                _continue(session, url, part, what, bar)
                return
            except (requests.ConnectionError, requests.Timeout, HTTPError, BrokenOff) as error:
                there = part.stat().st_size if part.exists() else 0
                tries = 1 if there > before else tries + 1
                if tries >= TRIES:
                    raise TrainingError(_unreachable(url, part, what, there, error)) from None
                time.sleep(wait if there == before else 0)
                wait = wait * 2 if there == before else WAIT_S
            except requests.RequestException as error:
                raise TrainingError(f"{what} cannot be downloaded from {url} ({type(error).__name__}).") from None


def _unreachable(url: str, part: Path, what: str, there: int, error: Exception) -> str:
    host = urlparse(url).netloc
    if there:
        return (
            f"The download of {what} broke off after {there:,} bytes ({_reason(error)}): run the command again, and it"
            " goes on from there."
        )
    return (
        f"{what} cannot be downloaded, since {host} cannot be reached ({_reason(error)}): check the network, or put the"
        f" file of {url} at {local_path(url)} yourself ({VARIABLE} names another folder)."
    )


def _reason(error: Exception) -> str:
    text = str(error)
    known = next((reason for sign, reason in REASONS.items() if sign in text.lower()), "the connection ended")
    return text if isinstance(error, BrokenOff) else known


def _state(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _continue(session: Any, url: str, part: Path, what: str, bar: ProgressBar) -> None:
    """Requests the rest of the file, or all of it if the server's file is another one by now."""
    there = part.stat().st_size if part.exists() else 0
    state = json.loads(_state(part).read_text()) if there and _state(part).exists() else {}
    validator = state.get("validator")
    headers = {"Accept-Encoding": "identity"}  # sizes and ranges of the file itself
    if there and validator:
        headers |= {"Range": f"bytes={there}-", "If-Range": validator}
    with session.get(url, headers=headers, stream=True, timeout=TIMEOUT_S) as response:
        if response.status_code == 416 and there == state.get("size"):
            return
        if response.status_code not in (200, 206):
            if response.status_code in (416, 429) or response.status_code >= 500:
                raise BrokenOff(f"its server answers {response.status_code}")
            raise TrainingError(
                f"{what} cannot be downloaded: {url} answers {response.status_code} {response.reason}; the data set may"
                " have moved, so look it up at its source and give its files."
            )
        resumed = response.status_code == 206
        length = response.headers.get("Content-Length")
        size = int(length) + (there if resumed else 0) if length else None
        tag = response.headers.get("ETag", "")
        validator = tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")
        part.parent.mkdir(parents=True, exist_ok=True)
        _state(part).write_text(json.dumps({"validator": validator, "size": size}))
        bar.total = size
        bar.n = there if resumed else 0
        with part.open("ab" if resumed else "wb") as file:
            while chunk := response.raw.read1(CHUNK):  # what has come before a break is kept
                file.write(chunk)
                bar.update(len(chunk))
            end = file.tell()
    if size is not None and end != size:
        raise BrokenOff(f"{end:,} of {size:,} bytes came")


def _verify(path: Path, suffix: str) -> None:
    """Reads an archive to its end, so that its own checksums are compared."""
    if suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            if damaged := archive.testzip():
                raise zipfile.BadZipFile(f"the checksum of {damaged} differs")
    elif suffix in OPENERS:
        with OPENERS[suffix](path) as file:
            while file.read(1 << 20):
                pass
