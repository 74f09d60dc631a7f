"""Looks a model up on the Hugging Face Hub: its commit, and the files that an import needs, with their checksums.
Errors of the Hub and the network become one sentence."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from huggingface_hub import HfApi, constants, get_token, is_offline_mode
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    XetDownloadError,
)
from huggingface_hub.hf_api import ModelInfo

from models.model_names import FAMILIES, OPUS_MT, ModelName
from training.errors import TrainingError, unwritable_reason
from training.importers.marian.hub_folder import CARD_FILE, PICKLE, SAFETENSORS, first_line

CONFIG_FILE = "config.json"
SMALL_FILES = ("*.json", "*.spm", "*.model", CARD_FILE)
NEAR_NAMES = 3
BAD_CREDENTIALS = "Invalid credentials in Authorization header"  # other answers with 401 are for names of no model
BUSY = (408, 429, 500, 502, 503, 504)


class HubUnreachable(TrainingError):
    """No answer from the Hub: a later attempt may succeed."""

    exit_code = os.EX_TEMPFAIL


class UnknownRepository(TrainingError):
    """The Hub does not know the name, or shows it to its members only."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the Hub describes it. size: in bytes. digest: SHA-256 in 64 hexadecimal digits, or git's SHA-1 of a
    blob in 40; None if the Hub gives none."""

    name: str
    size: int
    digest: str | None


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


def look_up(name: ModelName, types: Collection[str]) -> HubModel:
    """The first repository that exists. types: of models that can be used. HubUnreachable without an answer;
    TrainingError for a name that the Hub does not know, another type, or a repository without weights that an import
    reads."""
    for repository in name.repositories:
        try:
            with hub_errors(repository, name.revision):
                timeout = float(constants.HF_HUB_ETAG_TIMEOUT)
                info = HfApi().model_info(repository, revision=name.revision, files_metadata=True, timeout=timeout)
        except UnknownRepository:
            continue
        kind = (info.config or {}).get("model_type")
        if kind is not None and kind not in types:
            listed = " or ".join(sorted(types))
            raise TrainingError(
                f"{info.id} is a model of type {kind}; only {listed} models, such as OPUS-MT's, can be used."
            )
        return _described(info, name.revision)
    raise UnknownRepository(_unknown(name))


def _described(info: ModelInfo, revision: str | None) -> HubModel:
    siblings = {sibling.rfilename: sibling for sibling in info.siblings or ()}
    weights = next((name for name in (SAFETENSORS, PICKLE) if name in siblings), None)
    if CONFIG_FILE not in siblings or weights is None:
        lacks = f"neither {SAFETENSORS} nor {PICKLE}" if CONFIG_FILE in siblings else f"no {CONFIG_FILE}"
        raise TrainingError(f"{info.id} has {lacks} on the hub: it is no model that can be imported.")
    small = [name for name in siblings if "/" not in name and any(fnmatch(name, pattern) for pattern in SMALL_FILES)]
    files = []
    for sibling in (siblings[name] for name in sorted({weights, *small})):
        lfs = sibling.lfs
        size, digest = (sibling.size, sibling.blob_id) if lfs is None else (lfs.size, lfs.sha256)
        files.append(HubFile(sibling.rfilename, size or 0, digest))
    assert info.sha is not None  # the answer to every look-up has it
    return HubModel(info.id, revision or constants.DEFAULT_REVISION, info.sha, tuple(files))


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
    try:
        for author, search in (*searches, (None, repository)):
            models = [model.id for model in HfApi().list_models(author=author, search=search, limit=100)]
            models = [model for model in models if model != given]
            if near := difflib.get_close_matches(given, models, NEAR_NAMES, 0.7):
                return near
    except (httpx2.HTTPError, OSError, ValueError):
        pass
    return []


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
    if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
        return TrainingError(f"{name} has changed on the hub during the download: try once more.")
    if isinstance(error, httpx2.TransportError | LocalEntryNotFoundError | ConnectionError):
        return HubUnreachable(f"The hub ({hub}){_proxy()} cannot be reached for {name} ({_innermost(error)}).")
    if isinstance(error, OSError) and (reason := unwritable_reason(error)) is not None:
        way = f"make room for {name}, or set HF_HOME to another folder"
        return TrainingError(f"The cache {constants.HF_HUB_CACHE} cannot be written ({reason}): {way}.")
    if broke_off(error):
        return HubUnreachable(f"The download of {name} from the hub broke off ({first_line(error)}).")
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


def broke_off(error: Exception) -> bool:
    """Whether a download ended early: in httpx2, in hf_xet, or with fewer bytes than announced, for which
    huggingface_hub has no type of its own."""
    short = isinstance(error, OSError) and "Consistency check failed" in str(error)
    return short or isinstance(error, httpx2.TransportError | XetDownloadError | RuntimeError)


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
