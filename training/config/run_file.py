"""run.toml: configuration, data and machine of a run, to repeat it exactly; and any file that --config names."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import torch

from training.config.overrides import NONE, Option, options_of
from training.config.run_config import LyricsConfig, TranslatorConfig
from training.errors import TrainingError, os_error_reason


def toml_literal(value: Any) -> str:
    """A TOML value. None is the text "none"."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_literal, value))}]"
    text = json.dumps(NONE if value is None else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")  # which JSON may hold as it is and TOML may not


def toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_literal(key)


def toml_lines(values: Mapping[str, Any], comments: Mapping[str, str] | None = None, prefix: str = "") -> Iterator[str]:
    """Lines: a table's own values first, then its tables."""
    for name, value in values.items():
        if not isinstance(value, Mapping):
            comment = (comments or {}).get(prefix + name, "")
            yield f"{toml_key(name)} = {toml_literal(value)}" + (f"  # {comment}" if comment else "")
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield f"\n[{'.'.join(toml_key(part) for part in [*filter(None, prefix.split('.')), name])}]"
            yield from toml_lines(value, comments, f"{prefix}{name}.")


def explained_config(config: TranslatorConfig | LyricsConfig) -> str:
    """Every option of a config with what it means, those of the network that keep their default too."""
    known = options_of(type(config))
    values = asdict(config)
    values["network"] = {**_network_defaults(known), **values["network"]}
    return "\n".join(toml_lines(values, {name: _comment(key) for name, key in known.items()})) + "\n"


def _comment(key: Option) -> str:
    """The choices, where there is a choice, and what the source says."""
    choices = " | ".join(map(str, get_args(key.annotation))) if get_origin(key.annotation) is Literal else ""
    return "; ".join(filter(None, [choices, key.help]))


def _network_defaults(known: Mapping[str, Option]) -> dict[str, Any]:
    inside = ((name.removeprefix("network."), key) for name, key in known.items() if name.startswith("network."))
    return {name: key.default for name, key in inside if key.default is not MISSING}


RUN_FILE = "run.toml"
COMMANDS = {TranslatorConfig: "translator", LyricsConfig: "lyrics"}
DATA_ROLES = ("train", "valid", "test", "columns", "corpus")
CorpusArgument = str | list[str]
"""A corpus as the command line names it: a file, two with a comma between, a folder, or several of these."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """options: the tables as they stand in the file. name "" where there is no file."""

    name: str = ""
    folder: Path = Path()
    complete: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)

    def located(self, role: str) -> Any:
        """What the file names for `role`, relative to the working folder, or else to the file itself."""
        named = self.data.get(role)
        if isinstance(named, list):
            return [self._located(one) for one in named]
        return self._located(named) if isinstance(named, str) else named

    def _located(self, named: str) -> str:
        if any(Path(part).exists() for part in corpus_parts(named)):
            return named
        beside = ",".join(str(self.folder / part) for part in named.split(","))
        return beside if any(Path(part).exists() for part in beside.split(",")) else named

    def problems(self, given: Mapping[str, CorpusArgument | None]) -> Iterator[str]:
        """What is wrong beside the options. given: the data that the command line names instead."""
        for role, named in self.data.items():
            if role not in (*DATA_ROLES, "sha256"):
                yield f"data.{role} is no option, which are {', '.join(DATA_ROLES)} ({self.name})"
            elif role != "sha256" and not _is_named(named, several=role == "train"):
                what = "a text or a list of texts" if role == "train" else "a text"
                yield f"data.{role} must be {what}, not {named!r} ({self.name})"
            elif role != "sha256" and not given.get(role):
                yield from self._changes(role)
        for name, value in self.machine.items():
            if name not in ("device", "threads"):
                yield f"machine.{name} is no option, which are device and threads ({self.name})"
            elif name == "threads" and (type(value) is not int or value < 1):
                yield f"machine.threads must be a whole number of at least 1, not {value!r} ({self.name})"
            elif name == "device" and value not in ("cpu", "cuda"):
                yield f"machine.device must be one of cpu, cuda, not {value!r} ({self.name})"

    def _changes(self, role: str) -> Iterator[str]:
        recorded = self.data.get("sha256", {})
        located = self.located(role) or ""
        for part, digest in file_digests(located).items():
            name = next((name for name in recorded if f"/{Path(part).as_posix()}".endswith(f"/{name}")), None)
            if name is not None and recorded[name] != digest:
                yield f"{part} is not what {self.name} recorded; to train on it as it is now, name it with --{role}"


def read_run_file(path: Path, command: str) -> RunFile:
    """TrainingError where it is no such file; whatever is wrong with single options is for the list."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise TrainingError(f"The run cannot start: {os_error_reason(error)}.") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TrainingError(f"{path} is no TOML file: {error}.") from error
    whose = content.pop("command", command)
    if whose != command:
        raise TrainingError(f"{path} is for `python -m training {whose}`, not for {command}.")
    complete, data, machine = (content.pop(name, {}) for name in ("complete", "data", "machine"))
    recorded = data.get("sha256", {}) if isinstance(data, dict) else {}
    for name, value in (("data", data), ("machine", machine), ("data.sha256", recorded)):
        if not isinstance(value, dict):
            raise TrainingError(f"{path}: {name} must be a table.")
    return RunFile(path.name, path.parent, complete is True, content, data, machine)


def run_file_text(
    config: TranslatorConfig | LyricsConfig,
    data: Mapping[str, CorpusArgument],
    device: torch.device,
    processes: int = 1,
) -> str:
    """What `read` gives back. data: role -> as the command line named it; none for a corpus that is no file."""
    command, shared = COMMANDS[type(config)], f" --processes {processes}" if processes > 1 else ""
    head = f"# The same run again: python -m training {command} --config {RUN_FILE}{shared} --out FOLDER\n"
    if not data:
        head = "# The corpus of this run was no file: name one with the command's own options.\n"
    options = {"command": command, "complete": True, **asdict(config)}
    if data:
        found = {name: digest for named in data.values() for name, digest in file_digests(named).items()}
        options["data"] = {**data, **({"sha256": found} if found else {})}
    options["machine"] = {"device": device.type, "threads": torch.get_num_threads()}
    return head + "\n".join(toml_lines(options)) + "\n"


def corpus_parts(named: CorpusArgument) -> list[str]:
    """The single files and folders."""
    each = [named] if isinstance(named, str) else named
    return [part for one in each for part in ([one] if Path(one).exists() else one.split(","))]


def _is_named(value: Any, *, several: bool) -> bool:
    each = value if several and isinstance(value, list) else [value]
    return bool(each) and all(isinstance(one, str) for one in each)


def file_digests(named: CorpusArgument) -> dict[str, str]:
    """The sha256 of each file that a corpus argument names."""
    found = {}
    for part in corpus_parts(named):
        path = Path(part)
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                with file.open("rb") as opened:
                    found[file.as_posix()] = hashlib.file_digest(opened, "sha256").hexdigest()
    return found
