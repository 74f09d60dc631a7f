"""How people name a translator to import, and the checkpoint folder that belongs to the name. No torch, no network.

Helsinki-NLP/opus-mt-de-en      a name on the Hugging Face Hub, with @REVISION for a branch, tag or commit
https://huggingface.co/…        the address of its page, on the Hub or a mirror, or of its git repository
opus-mt-de-en                   of Helsinki-NLP
de-en, de_en, de2en, de:en      OPUS-MT for this pair: opus-mt-de-en, or else opus-mt-tc-big-de-en
everyday                        a model that comes with this project
my-de-en                        a checkpoint that is there already"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

SHIPPED = Path(__file__).with_name("shipped")
OPUS_MT = "Helsinki-NLP"
FAMILIES = ("opus-mt-", "opus-mt-tc-big-")  # in the order in which a pair of languages is looked for
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_PLAIN = re.compile(r"[\w.-]+")
_LANGUAGE = r"[a-z]{2,3}(?:_[a-z]{2,5})?"
_PAIR = re.compile(rf"({_LANGUAGE})(?:->|-to-|[-→–>_:/2])({_LANGUAGE})", re.IGNORECASE)
_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")  # that are told from folders without https:// before them
_OTHER_PAGES = ("datasets", "spaces", "collections", "papers", "docs")


@dataclass(frozen=True, slots=True)
class ModelName:
    """given: as a person has written it, without the user, password and query of an address, which may be a token of
    the Hub and would get into logs, answers and command lines. repositories: names on the Hub, the first that exists is
    meant; () for something that cannot be on the Hub. revision: a branch, tag or commit; None: the newest of the main
    branch. pair: the languages, where only these were given."""

    given: str
    repositories: tuple[str, ...]
    revision: str | None = None
    pair: tuple[str, str] | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        """Names of the checkpoint folders that the model may have, the likeliest first."""
        return tuple(repository.rpartition("/")[2] for repository in self.repositories) or (self.given,)


def parse_model_name(given: str) -> ModelName:
    given = _without_credentials(given.strip())
    name, revision = _without_address(given)
    name, _, behind = name.partition("@")
    name = name if name.startswith(("/", ".")) else name.rstrip("/").removesuffix(".git")
    revision = behind or revision
    if pair := _PAIR.fullmatch(name):
        source, target = pair[1].lower(), pair[2].lower()
        repositories = tuple(f"{OPUS_MT}/{family}{source}-{target}" for family in FAMILIES)
        return ModelName(given, repositories, revision, (source, target))
    if _PLAIN.fullmatch(name) and name.lower().startswith("opus-mt"):
        name = f"{OPUS_MT}/{name}"
    # the Hub's client keeps a file of the revision's name; git has no such names (git-check-ref-format)
    is_path = revision is not None and (".." in revision or revision.startswith("/"))
    if HUB_NAME.fullmatch(name) and not is_path:
        return ModelName(given, (_as_opus_mt_spells_it(name),), revision)
    return ModelName(given, ())


def _as_opus_mt_spells_it(name: str) -> str:
    """Owner and family of an OPUS-MT model in their own case; the languages of its name keep theirs (ROMANCE)."""
    owner, _, repository = name.partition("/")
    if owner.lower() != OPUS_MT.lower():
        return name
    family = re.match(r"opus-mt(?:-tc)?(?:-big|-base|-bible)*", repository, re.IGNORECASE)
    start = family[0] if family else ""
    return f"{OPUS_MT}/{start.lower()}{repository[len(start) :]}"


def _without_credentials(given: str) -> str:
    if "://" not in given:
        return given
    address = urlsplit(given)
    return urlunsplit((address.scheme, address.netloc.rpartition("@")[2], address.path, "", ""))


def _without_address(given: str) -> tuple[str, str | None]:
    """(owner/name, revision) of a page's address; others as they are. A mirror's addresses may have more before the
    owner, which HF_ENDPOINT tells."""
    bare = given.partition("/")[0].lower() in _HOSTS
    if not bare and "://" not in given:
        return given, None
    address = urlsplit(f"https://{given}" if bare else given)
    if address.scheme not in ("https", "http", "hf", "git", "ssh"):  # file:///etc/x is no page
        return given, None
    mirror = urlsplit(os.environ.get("HF_ENDPOINT", "").strip().rstrip("/"))
    path = address.path.removeprefix(f"{mirror.path}/") if address.netloc == mirror.netloc else address.path
    parts = [part for part in path.split("/") if part]
    if address.scheme == "hf":  # hf://owner/name
        parts = [address.netloc, *parts]
    if parts[:1] == ["models"]:
        parts = parts[1:]
    if parts and parts[0] in _OTHER_PAGES:
        return given, None
    shown = len(parts) > 3 and parts[2] in ("tree", "blob", "resolve", "commit")
    return "/".join(parts[:2]), parts[3] if shown else None


def checkpoint_folder(given: str, checkpoints: Path) -> Path | None:
    """The folder in `checkpoints` that a name stands for, if it is there."""
    names = (given.strip().rstrip("/").rpartition("/")[2], *parse_model_name(given).folders)
    folders = (checkpoints / name for name in names if Path(name).name == name)
    return next((folder for folder in folders if os.path.isfile(folder / "config.json")), None)  # noqa: PTH113 (raises)


def shipped_folder(given: str) -> Path | None:
    """The folder of a model that comes with this project."""
    folder = SHIPPED / given.strip()
    return folder if folder.parent == SHIPPED and os.path.isfile(folder / "config.json") else None  # noqa: PTH113


def shipped_names() -> list[str]:
    return sorted(path.parent.name for path in SHIPPED.glob("*/config.json"))


def split_names(text: str) -> Sequence[str]:
    """The names in a list with commas or spaces between them, each once."""
    return tuple(dict.fromkeys(name for name in re.split(r"[\s,]+", text) if name))
