"""run.toml: what a run was, for another one exactly like it; and any file that --config names.

command = "translator"    whose options these are
complete = true           every option is stated: what a later version adds keeps its neutral default
recipe = "tiny"           else the base of what is not stated
...                       the options, as `python -m training recipes --show tiny` lists them
[data]                    train, valid, test, columns, corpus, as on the command line; [data.sha256] of their files
[machine]                 device and threads: on a CPU both decide the last bits of a sum
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from training.configuration.lyrics import LyricsConfig
from training.configuration.tables import table
from training.configuration.translator import TranslatorConfig
from training.errors import TrainingError
from training.faults import reason

NAME = "run.toml"
COMMANDS = {TranslatorConfig: "translator", LyricsConfig: "lyrics"}
DATA = ("train", "valid", "test", "columns", "corpus")
Named = str | list[str]
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
        if any(Path(part).exists() for part in parts(named)):
            return named
        beside = ",".join(str(self.folder / part) for part in named.split(","))
        return beside if any(Path(part).exists() for part in beside.split(",")) else named

    def problems(self, given: Mapping[str, Named | None]) -> Iterator[str]:
        """What is wrong beside the options. given: the data that the command line names instead."""
        for role, named in self.data.items():
            if role not in (*DATA, "sha256"):
                yield f"data.{role} is no option, which are {', '.join(DATA)} ({self.name})"
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
        for part, digest in digests(located).items():
            name = next((name for name in recorded if f"/{Path(part).as_posix()}".endswith(f"/{name}")), None)
            if name is not None and recorded[name] != digest:
                yield f"{part} is not what {self.name} recorded; to train on it as it is now, name it with --{role}"


def read(path: Path, command: str) -> RunFile:
    """TrainingError where it is no such file; whatever is wrong with single options is for the list."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise TrainingError(f"The run cannot start: {reason(error)}.") from error
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


def text(
    config: TranslatorConfig | LyricsConfig, data: Mapping[str, Named], device: torch.device, processes: int = 1
) -> str:
    """What `read` gives back. data: role -> as the command line named it; none for a corpus that is no file."""
    command, shared = COMMANDS[type(config)], f" --processes {processes}" if processes > 1 else ""
    head = f"# The same run again: python -m training {command} --config {NAME}{shared} --out FOLDER\n"
    if not data:
        head = "# The corpus of this run was no file: name one with the command's own options.\n"
    options = {"command": command, "complete": True, **asdict(config)}
    if data:
        found = {name: digest for named in data.values() for name, digest in digests(named).items()}
        options["data"] = {**data, **({"sha256": found} if found else {})}
    options["machine"] = {"device": device.type, "threads": torch.get_num_threads()}
    return head + "\n".join(table(options)) + "\n"


def parts(named: Named) -> list[str]:
    """The single files and folders."""
    each = [named] if isinstance(named, str) else named
    return [part for one in each for part in ([one] if Path(one).exists() else one.split(","))]


def _is_named(value: Any, *, several: bool) -> bool:
    each = value if several and isinstance(value, list) else [value]
    return bool(each) and all(isinstance(one, str) for one in each)


def digests(named: Named) -> dict[str, str]:
    """The sha256 of each file that a corpus argument names."""
    found = {}
    for part in parts(named):
        path = Path(part)
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                with file.open("rb") as opened:
                    found[file.as_posix()] = hashlib.file_digest(opened, "sha256").hexdigest()
    return found
