"""Models of the Hugging Face Hub: looked up, downloaded into its own cache, and verified. Errors of the Hub and the
network become one sentence.

The answer may come from a hostile mirror. Of all that it holds, paths are made of the commit and the digests alone,
which have to be hexadecimal; names of files are ours, and sizes are limited.

The requests are of huggingface_hub's client, so HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_OFFLINE and proxies hold as
everywhere, and the cache has the form that other programs read. huggingface_hub names a file in its cache by the ETag
that the server sends, which a hostile mirror may choose; removes its part of a file when a download fails; and writes
whatever comes. Here the names are the checked digest's, and the checksums are compared: the SHA-256 of files in LFS,
and git's SHA-1 of others."""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from huggingface_hub import constants, get_session, get_token, hf_hub_url, is_offline_mode, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # it has no __all__
    build_hf_headers,
    hf_raise_for_status,
    validate_repo_id,
)

from models.checkpoint import MOST_JSON_BYTES, MOST_TOKENIZER_BYTES
from models.model_card import CARD, MOST_CARD_BYTES
from models.model_names import FAMILIES, HUB_NAME, OPUS_MT, ModelName
from training.errors import TrainingError, unwritable_reason
from training.importers import download as downloads
from training.importers.download import (
    BUSY,
    UNPACKED,
    Part,
    Stalled,
    Watch,
    has_digest,
    run_watched,
    watch_of,
)
from training.importers.import_progress import ImportProgress
from training.importers.marian.hub_folder import MOST_WEIGHTS_BYTES, PICKLE, RAW_MARIAN, SAFETENSORS, first_line

CONFIG_FILE = "config.json"
OTHER_FILES = {  # of a Marian model, of an export of ours, and of a checkpoint of ours: name -> the most bytes
    **dict.fromkeys(("config", "generation_config", "tokenizer_config", "vocab", "target_vocab"), MOST_JSON_BYTES),
    **dict.fromkeys(("special_tokens_map", "added_tokens", "source", "target", "demo"), MOST_JSON_BYTES),
}
FILES = {
    **{f"{name}.json": most for name, most in OTHER_FILES.items()},
    **dict.fromkeys(("source.spm", "target.spm", "source.model", "target.model"), MOST_TOKENIZER_BYTES),
    **dict.fromkeys((SAFETENSORS, PICKLE), MOST_WEIGHTS_BYTES),
    CARD: MOST_CARD_BYTES,
}
"""What is fetched, if it is there: name -> the most bytes."""
DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
COMMIT = re.compile(r"[0-9a-f]{40}")
FILES_AT_ONCE = 4
NEAR_S = 5.0  # for the search for similar names
NEAR_NAMES = 3
BAD_CREDENTIALS = "Invalid credentials in Authorization header"  # other answers with 401 are for names of no model
ERROR_HEADERS = ("X-Error-Code", "X-Error-Message")
MOST_ANSWER_BYTES = 8_000_000  # of JSON; a repository of 10,000 files takes 3 MB


class HubUnreachable(TrainingError):
    """No answer from the Hub: a later attempt may succeed."""

    exit_code = os.EX_TEMPFAIL


class UnknownRepository(TrainingError):
    """The Hub does not know the name, or shows it to its members only."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the Hub describes it. size: in bytes. digest: SHA-256 in 64 hexadecimal digits, or git's SHA-1 of a
    blob in 40."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class HubModel:
    """A repository at one commit, and its files that an import needs. revision: the branch, tag or commit asked for."""

    name: str
    revision: str
    commit: str
    files: tuple[HubFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


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
    cache = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=model.name, repo_type="model")
    for attempt in (1, 2):
        with hub_errors(model.name, model.revision):
            _fetch(model, files, cache / "blobs", progress)
        files = _wrong_files(cache / "blobs", model, progress)
        if not files:
            with hub_errors(model.name, model.revision):
                return HubSnapshot(_snapshot(model, cache), model.name, model.commit)
        for file in files:
            (cache / "blobs" / file.digest).unlink(missing_ok=True)
        if attempt == 1:
            listed = ", ".join(file.name for file in files)
            progress.note(f"The checksum of {listed} in {model.name} is wrong: fetching it once more.")
    raise TrainingError(
        f"{files[0].name} of {model.name} does not match the checksum that the hub gives for it, after two downloads:"
        f" nothing was imported; a proxy or a mirror may change files on their way from {constants.ENDPOINT}."
    )


def _fetch(model: HubModel, files: Sequence[HubFile], blobs: Path, progress: ImportProgress) -> None:
    missing = sum(file.size for file in files if not (blobs / file.digest).exists())
    existing = next(folder for folder in blobs.parents if folder.exists())
    if missing > (free := shutil.disk_usage(existing).free):
        raise TrainingError(
            f"The files of {model.name} have {missing:,} bytes, and the disk of the cache ({constants.HF_HUB_CACHE})"
            f" has room for {free:,}: make room, or set HF_HOME to another folder."
        )
    progress.stage("download", model.name, sum(file.size for file in files))
    watch = watch_of(2.0 * constants.HF_HUB_DOWNLOAD_TIMEOUT)
    transfers = [partial(_fetch_blob, model, file, blobs / file.digest, progress, watch) for file in files]
    run_watched(transfers, watch, FILES_AT_ONCE)
    progress.close()


def _fetch_blob(model: HubModel, file: HubFile, blob: Path, progress: ImportProgress, watch: Watch) -> None:
    """Writes the file as `blob`, which the Hub's cache names by the file's digest, if it is not there. Its content is
    not verified."""
    lock = blob.parents[2] / ".locks" / blob.parents[1].name / f"{blob.name}.lock"  # huggingface_hub's own
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as held:
        while not blob.exists():
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another process downloads it
                watch.received(0)
                watch.restart()
                time.sleep(downloads.RETRY_AFTER_S)
                continue
            if not blob.exists():
                url = hf_hub_url(model.name, file.name, revision=model.commit)
                part = Part(file.name, blob.with_name(f"{blob.name}.incomplete"), partial(streamed, url), file.size)
                downloads.complete(part, watch, progress.advance)
                part.path.rename(blob)
                return
    progress.advance(file.size)


def _snapshot(model: HubModel, cache: Path) -> Path:
    """The folder of links to the verified files, and the entry that finds it without a network."""
    folder, reference = cache / "snapshots" / model.commit, cache / "refs" / model.revision
    for path in (folder, reference.parent):
        path.mkdir(parents=True, exist_ok=True)
    for file in model.files:
        link = folder / f".{file.name}.{os.getpid()}"
        link.unlink(missing_ok=True)
        try:
            link.symlink_to(Path("..", "..", "blobs", file.digest))
        except OSError:  # a file system without links
            shutil.copyfile(cache / "blobs" / file.digest, link)
        link.replace(folder / file.name)
    if model.revision != model.commit:
        reference.write_text(model.commit, encoding="utf-8")
    return folder


def _wrong_files(blobs: Path, model: HubModel, progress: ImportProgress) -> list[HubFile]:
    progress.stage("verify", model.name, model.size)
    return [file for file in model.files if not has_digest(blobs / file.digest, file.digest, progress.advance)]


def cached_snapshot(repository: str, revision: str | None, progress: ImportProgress) -> HubSnapshot | None:
    """A whole model in the Hub's cache, or None. Blobs there are named by their digests. TrainingError for a wrong
    one."""
    try:
        config = try_to_load_from_cache(repository, CONFIG_FILE, constants.HF_HUB_CACHE, revision)
    except (OSError, ValueError):  # the name cannot be one of the Hub's
        return None
    if not isinstance(config, str):
        return None
    folder = Path(config).parent
    if not any((folder / name).is_file() for name in (SAFETENSORS, PICKLE)):
        return None
    blobs = {path: path.resolve() for path in folder.iterdir() if path.is_file()}
    progress.stage("verify", repository, sum(blob.stat().st_size for blob in blobs.values()))
    for path, blob in blobs.items():
        named = DIGEST.fullmatch(blob.name)  # without symbolic links files have their names
        if named and not has_digest(blob, blob.name, progress.advance):
            raise TrainingError(
                f"The checksum of {path} is wrong: remove {folder.parent.parent}, and fetch {repository} once more."
            )
    return HubSnapshot(folder, repository, folder.name)


def look_up(name: ModelName, types: Collection[str]) -> HubModel:
    """The first repository that exists. types: of models that can be used. HubUnreachable without an answer;
    TrainingError for a name that the Hub does not know, another type, or a repository without weights that an import
    reads."""
    end_s = time.monotonic() + constants.HF_HUB_ETAG_TIMEOUT
    for repository in name.repositories:
        revision = f"/revision/{quote(name.revision, safe='')}" if name.revision else ""
        try:
            with hub_errors(repository, name.revision):
                validate_repo_id(repository)
                left_s = max(end_s - time.monotonic(), 0)
                info = ask(f"/api/models/{repository}{revision}", {"blobs": "true"}, left_s)
                return _described(info, repository, name.revision, types)
        except UnknownRepository:
            continue
    raise UnknownRepository(_unknown(name))


def _described(info: Any, name: str, revision: str | None, types: Collection[str]) -> HubModel:
    """name: as it was asked for; one that the answer gives would choose the folder that is written. ValueError for an
    answer that is not the Hub's."""
    _require(isinstance(info, dict), "its answer is no JSON object")
    commit, siblings = info.get("sha"), info.get("siblings")
    _require(isinstance(commit, str) and COMMIT.fullmatch(commit), f"{commit!r:.80} is no commit")
    _require(isinstance(siblings, list) and all(isinstance(each, dict) for each in siblings), "it lists no files")
    config = info.get("config")
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind is not None and (not isinstance(kind, str) or kind not in types):
        listed = " or ".join(sorted(types))
        shown = kind if isinstance(kind, str) and kind.isprintable() else repr(kind)
        raise TrainingError(
            f"{name} is a model of type {shown:.80}; only {listed} models, such as OPUS-MT's, can be used."
        )
    there = {each["rfilename"]: each for each in siblings if isinstance(each.get("rfilename"), str)}
    weights = next((file for file in (SAFETENSORS, PICKLE) if file in there), None)
    if CONFIG_FILE not in there and any(file.endswith(".npz") for file in there):
        raise TrainingError(f"{name} {RAW_MARIAN}")
    if CONFIG_FILE not in there or weights is None:
        lacks = f"neither {SAFETENSORS} nor {PICKLE}" if CONFIG_FILE in there else f"no {CONFIG_FILE}"
        raise TrainingError(f"{name} has {lacks} on the hub: it is no model that can be imported.")
    wanted = (file for file in sorted(FILES) if file in there and file not in {SAFETENSORS, PICKLE} - {weights})
    return HubModel(name, revision or constants.DEFAULT_REVISION, commit, tuple(_file(there[file]) for file in wanted))


def _file(sibling: dict[str, Any]) -> HubFile:
    name, lfs = sibling["rfilename"], sibling.get("lfs")
    if lfs is None:
        size, digest = sibling.get("size"), sibling.get("blobId")
    else:
        _require(isinstance(lfs, dict), f"it describes {name} by {lfs!r:.80}")
        size, digest = lfs.get("size"), lfs.get("sha256")
    if type(size) is not int or size < 0:
        raise ValueError(f"it gives {size!r:.80} for the size of {name}")
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        raise ValueError(f"it gives {digest!r:.80} for the checksum of {name}")
    if size > FILES[name]:
        raise TrainingError(
            f"{name} has {size:,} bytes on the hub, and the most that an import reads is {FILES[name]:,}."
        )
    return HubFile(name, size, digest)


def _require(sound: object, problem: str) -> None:
    if not sound:
        raise ValueError(problem)


def _unknown(name: ModelName) -> str:
    near = near_names(name)
    hint = f"did you mean {' or '.join(near)}?" if near else "check its spelling on the page of the model."
    if name.pair is not None and not near:
        hint = f"{constants.ENDPOINT}/{OPUS_MT} lists those that there are, some of them for several languages."
    listed = " nor ".join(name.repositories)
    if name.pair is not None:
        return f"The hub has no OPUS-MT model for {' → '.join(name.pair)}, neither {listed}; {hint}"
    private = "" if get_token() else ", or it is private and HF_TOKEN is not set"
    return f"The hub has no model {listed}{private}; {hint}"


def near_names(name: ModelName) -> list[str]:
    """Repositories with a similar name, of the same owner if it has any; [] if the Hub does not say."""
    given = name.repositories[0]
    owner, _, repository = given.partition("/")
    stem = re.split(r"[-_.][^-_.]*$", repository)[0]
    languages = re.search(r"[-_.][^-_.]*[-_.][^-_.]*$", repository)
    if name.pair:
        searches = [(owner, f"{family}{name.pair[0]}-") for family in FAMILIES]
    else:  # the same languages in another family come first: opus-mt-tc-big-en-pt for opus-mt-en-pt
        searches = [*([(owner, languages[0])] if languages else []), (owner, stem)]
    end_s = time.monotonic() + NEAR_S
    try:
        for author, search in (*searches, (None, repository)):
            query = {"search": search, "limit": "100"} | ({"author": author} if author else {})
            answer = ask("/api/models", query, max(end_s - time.monotonic(), 0))
            models = [str(each["id"]) for each in answer if HUB_NAME.fullmatch(str(each["id"])) and each["id"] != given]
            if near := difflib.get_close_matches(given, models, NEAR_NAMES, 0.7):
                return near
    except (httpx2.HTTPError, OSError, ValueError, TypeError, KeyError):
        pass
    return []


@contextmanager
def streamed(
    url: str, headers: Mapping[str, str] = UNPACKED, params: Mapping[str, str] | None = None
) -> Iterator[httpx2.Response]:
    """A successful response whose body is not read yet. Redirects are followed, http and https alone and at most 20;
    the token of the Hub goes to no other origin. The library's own errors; the body of a refusal is not read."""
    sent = {**build_hf_headers(), **headers}
    timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
    with get_session().stream("GET", url, params=params, headers=sent, timeout=timeout) as response:
        if response.is_error:
            said = {name: response.headers[name] for name in ERROR_HEADERS if name in response.headers}
            hf_raise_for_status(httpx2.Response(response.status_code, headers=said, json={}, request=response.request))
        yield response


def ask(path: str, params: Mapping[str, str], within_s: float) -> Any:
    """The JSON of the Hub's answer. ValueError for any other or a larger one; `Stalled` after `within_s`."""
    content, watch = bytearray(), Watch(within_s)

    def transfer() -> None:
        with streamed(f"{constants.ENDPOINT}{path}", params=params) as response:
            for block in response.iter_raw():
                watch.received(len(block))
                content.extend(block)
                if len(content) > MOST_ANSWER_BYTES:
                    raise ValueError(f"its answer has more than {MOST_ANSWER_BYTES:,} bytes")

    run_watched([transfer], watch)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("its answer is no JSON that can be read") from None


@contextmanager
def hub_errors(repository: str, revision: str | None = None) -> Iterator[None]:
    """Raises errors of the library and the network as TrainingError."""
    try:
        yield
    except Exception as error:
        if (refusal := _refusal(error, repository, revision)) is None:
            raise
        raise refusal from error


def _refusal(error: Exception, name: str, revision: str | None) -> TrainingError | None:
    hub = constants.ENDPOINT
    if isinstance(error, TrainingError):
        return None
    if isinstance(error, GatedRepoError):
        account = "the account of your HF_TOKEN" if get_token() else "an account, and set HF_TOKEN to a token of it"
        return TrainingError(f"{name} is gated: accept its terms on {hub}/{name} with {account}.")
    if isinstance(error, RepositoryNotFoundError):
        return UnknownRepository(f"The hub has no model {name}.")
    if isinstance(error, RevisionNotFoundError):
        return TrainingError(f"{name} has no revision {revision}: give a branch, a tag or a commit of it.")
    if isinstance(error, HFValidationError):
        return TrainingError(f"{name} cannot be the name of a model on the hub.")
    if isinstance(error, HfHubHTTPError) and not isinstance(error, EntryNotFoundError):
        if error.response.status_code == 401 and error.response.headers.get("X-Error-Message") != BAD_CREDENTIALS:
            return UnknownRepository(f"The hub has no model {name}.")  # the library knows that of https alone
        return _status_refusal(error.response.status_code, name)
    if isinstance(error, OfflineModeIsEnabled) or is_offline_mode():
        return HubUnreachable(f"{name} is not in the cache ({constants.HF_HUB_CACHE}), and HF_HUB_OFFLINE is set.")
    if isinstance(error, EntryNotFoundError):
        return TrainingError(f"{name} has changed on the hub during the download: try once more.")
    if isinstance(error, Stalled):
        return HubUnreachable(f"The hub ({hub}){_proxy()} sends {name} too slowly ({error}): try again later.")
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.TooManyRedirects | httpx2.InvalidURL):
        return TrainingError(f"The hub ({hub}) sends the download of {name} to an address that is not followed.")
    if isinstance(error, httpx2.TransportError | ConnectionError):
        return HubUnreachable(f"The hub ({hub}){_proxy()} cannot be reached for {name} ({_innermost(error)}).")
    if isinstance(error, OSError) and (reason := unwritable_reason(error)) is not None:
        way = f"make room for {name}, or set HF_HOME to another folder"
        return TrainingError(f"The cache {constants.HF_HUB_CACHE} cannot be written ({reason}): {way}.")
    if isinstance(error, ValueError):
        return TrainingError(f"The answer of the hub ({hub}) for {name} cannot be used: {first_line(error)}.")
    return None


def _status_refusal(status: int, name: str) -> TrainingError:
    hub = constants.ENDPOINT
    if status == 401:
        return TrainingError(f"The hub refuses the token in HF_TOKEN: make a new one on {hub}/settings/tokens.")
    if status == 403:
        return TrainingError(f"The hub does not give {name} to this account (403): ask its owner for access.")
    if status in BUSY:
        return HubUnreachable(f"The hub ({hub}) cannot give {name} now (status {status}).")
    return TrainingError(f"The hub ({hub}) answers for {name} with status {status}.")


def _proxy() -> str:
    """ " through the proxy ADDRESS", without a password, or ""."""
    hub = urlsplit(constants.ENDPOINT)
    proxies = getproxies()
    address = proxies.get(hub.scheme) or proxies.get("all")
    if not address or proxy_bypass(hub.hostname or ""):
        return ""
    return f" through the proxy {address.rpartition('@')[2].rpartition('//')[2]}"


def _innermost(error: BaseException) -> str:
    """The first cause in the system's words, such as: Connection refused."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return re.sub(r"^\[[^]]*\] ", "", (str(error).splitlines() or [type(error).__name__])[0]).rstrip(" .")
