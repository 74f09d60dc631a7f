"""run.toml: configuration, data and machine of a run, to repeat it exactly; and any file that --config names.

command = "translator"    the command that has these options
complete = true           every option is stated: one that a later version adds keeps its neutral default
recipe = "tiny"           otherwise the base of options left out
...                       the options, as `python -m training recipes --show tiny` lists them
[data]                    train, mix, valid, test, columns, corpus, from, tokenizer, as on the command line;
                          [data.sha256] of their files
[machine]                 device and threads: on a CPU both decide the last bits of a sum
[derived]                 not read: what followed from the rest (number format, kernels, sizes of vocabularies, held-out
                          sentences, network options at their defaults)"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from models.checkpoint import require_file
from training.config.corpus_languages import split_languages
from training.config.options import NONE, explained
from training.config.overrides import options_of
from training.config.run_config import LyricsConfig, TranslatorConfig
from training.errors import TrainingError, command_line, os_error_reason

Table = Mapping[str, Any]
"""A table of a TOML file."""


def toml_literal(value: object) -> str:
    """A value in TOML syntax; None becomes the text "none"."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_literal, value))}]"
    text = json.dumps(NONE if value is None else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")  # legal in JSON, illegal in TOML


def toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_literal(key)


def toml_lines(values: Table, comments: Mapping[str, str] | None = None, prefix: str = "") -> Iterator[str]:
    """Lines of a TOML table: its own values first, then its sub-tables."""
    for name, value in values.items():
        if not isinstance(value, Mapping):
            comment = (comments or {}).get(prefix + name, "")
            yield f"{toml_key(name)} = {toml_literal(value)}" + (f"  # {comment}" if comment else "")
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield f"\n[{'.'.join(toml_key(part) for part in [*filter(None, prefix.split('.')), name])}]"
            yield from toml_lines(value, comments, f"{prefix}{name}.")


def explained_config(config: TranslatorConfig | LyricsConfig) -> str:
    """A config with all options, their choices and help texts, including network options at their defaults."""
    values, comments = asdict(config), {key: explained(option) for key, option in options_of(type(config)).items()}
    values["network"] = {**network_defaults(config), **values["network"]}
    return "\n".join(toml_lines(values, comments)) + "\n"


def network_defaults(config: TranslatorConfig | LyricsConfig) -> dict[str, object]:
    """The defaults of all network options."""
    keys = {key: option.default for key, option in options_of(type(config)).items() if not option.is_required()}
    return {key.removeprefix("network."): value for key, value in keys.items() if key.startswith("network.")}


RUN_FILE = "run.toml"
MOST_BYTES, MOST_DOTS = 4_000_000, 40  # of a run file, and of its dotted keys; names of files have dots, too
COMMANDS = {TranslatorConfig: "translator", LyricsConfig: "lyrics"}
DATA_ROLES = ("train", "mix", "valid", "test", "columns", "corpus", "from", "tokenizer")
SEVERAL = ("train", "mix")  # roles of several corpora
TRAINED_ON = ("train", "mix", "corpus")  # roles whose texts change the weights
MODEL_SUFFIXES = (".json", ".safetensors", ".bin", ".model", ".spm")
CorpusArgument = str | list[str]
"""A corpus as the command line names it: a file, two with a comma between, a folder, or several of these."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """A parsed run file. options: its tables. name: "" without a file."""

    name: str = ""
    folder: Path = Path()
    complete: bool = False
    options: Table = field(default_factory=dict)
    data: Table = field(default_factory=dict)
    machine: Table = field(default_factory=dict)

    def located(self, role: str) -> CorpusArgument | None:
        """The corpus of `role` in the file, resolved against the working folder, or else against the file."""

        def located(named: str) -> str:
            if any(Path(part).exists() for part in corpus_parts(named)):
                return named
            languages, corpus = named.removesuffix(without_languages(named)), without_languages(named)
            beside = ",".join(str(self.folder / part) for part in corpus.split(","))
            return languages + beside if any(Path(part).exists() for part in beside.split(",")) else named

        named: CorpusArgument | None = self.data.get(role)
        if isinstance(named, list):
            return [located(one) for one in named]
        return located(named) if isinstance(named, str) else named

    def changed_files(self, role: str) -> Iterator[str]:
        """The files of a corpus with other contents than those that the run recorded."""
        digests = self.data.get("sha256", {})
        for file, digest in file_digests(self.located(role) or "").items():
            name = next((name for name in digests if f"/{Path(file).as_posix()}".endswith(f"/{name}")), None)
            if name is not None and digests[name] != digest:
                yield file

    def problems(self, given: Mapping[str, CorpusArgument | None]) -> Iterator[str]:
        """Problems other than options. given: the data named on the command line instead."""
        for role, named in self.data.items():
            if role == "sha256":
                continue
            several = (*SEVERAL, "valid", "test") if "multilingual" in self.options else SEVERAL
            parts = named if role in several and isinstance(named, list) else [named]
            if role not in DATA_ROLES:
                yield f"data.{role} is no option, which are {', '.join(DATA_ROLES)} ({self.name})"
            elif not parts or not all(isinstance(part, str) for part in parts):
                wanted = "a text or a list of texts" if role in several else "a text"
                yield f"data.{role} must be {wanted}, not {named!r} ({self.name})"
            elif not given.get(role):
                for file in self.changed_files(role):
                    other = f"to train on it as it is now, name it with --{role}"
                    yield f"{file} is not what {self.name} recorded; {other}"
        for name, value in self.machine.items():
            if name not in ("device", "threads"):
                yield f"machine.{name} is no option, which are device and threads ({self.name})"
            elif name == "threads" and (type(value) is not int or value < 1):
                yield f"machine.threads must be a whole number of at least 1, not {value!r} ({self.name})"
            elif name == "device" and value not in ("cpu", "cuda"):
                yield f"machine.device must be one of cpu, cuda, not {value!r} ({self.name})"


def read_run_file(path: Path, command: str) -> RunFile:
    """Reads a run file of this command; raises TrainingError if it cannot. Options are checked later, all together."""
    try:
        require_file(path, MOST_BYTES)
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        deepest = max((key.count(".") for key, _ in dotted(content)), default=0)
    except OSError as error:
        raise TrainingError(f"The run cannot start: {os_error_reason(error)}.") from error
    except RecursionError:
        deepest = MOST_DOTS + 1
    except ValueError as error:  # also numbers of more digits than Python reads
        raise TrainingError(f"{path} is no TOML file of options: {str(error).rstrip('.')}.") from error
    if deepest > MOST_DOTS:
        raise TrainingError(f"{path} is nested too deeply: options have two levels, such as optimizer.learning_rate.")
    recorded_command = content.pop("command", command)
    if not isinstance(recorded_command, str):
        raise TrainingError(f"{path}: command must be a text.")
    if recorded_command != command:
        raise TrainingError(f"{path} is for `{command_line(recorded_command)}`, not for {command}.")
    content.pop("derived", None)  # for people: it follows from the rest
    complete, data, machine = (content.pop(name, {}) for name in ("complete", "data", "machine"))
    recorded = data.get("sha256", {}) if isinstance(data, dict) else {}
    for name, value in (("data", data), ("machine", machine), ("data.sha256", recorded)):
        if not isinstance(value, dict):
            raise TrainingError(f"{path}: {name} must be a table.")
    return RunFile(path.name, path.parent, complete is True, content, data, machine)


def files_trained_on(folder: Path, named: CorpusArgument) -> list[str]:
    """The files of a corpus that the run of a checkpoint folder was trained on, by their contents; [] if the folder
    does not name them."""
    try:
        data = tomllib.loads((folder / RUN_FILE).read_text(encoding="utf-8"))["data"]
        digests = dict(data["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    arguments = [data[role] for role in TRAINED_ON if role in data]
    corpora = [
        without_languages(str(one)) for each in arguments for one in (each if isinstance(each, list) else [each])
    ]
    roots = {Path(part) for corpus in corpora for part in (corpus, *corpus.split(","))}
    own = {digest for name, digest in digests.items() if roots & {Path(name), *Path(name).parents}}
    return [name for name, digest in file_digests(named).items() if digest in own]


def changed_options(path: Path, config: TranslatorConfig | LyricsConfig, apart_from: Sequence[str]) -> list[str]:
    """`key = its value, not the config's` for each option that has another value in a run file; none if it cannot be
    read. apart_from: keys that may differ."""
    try:
        its_own = dict(dotted(tomllib.loads(path.read_text(encoding="utf-8"))))
    except (OSError, RecursionError, ValueError):
        return []
    now = {key: toml_literal(value) for key, value in dotted(asdict(config)) if key not in apart_from}
    then = {key: toml_literal(value) for key, value in its_own.items() if key in now}
    return [f"{key} = {value}, not {now[key]}" for key, value in then.items() if value != now[key]]


def dotted(table: Table, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested tables by dotted key."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def run_file_text(
    config: TranslatorConfig | LyricsConfig,
    data: Mapping[str, CorpusArgument],
    device: torch.device,
    processes: int = 1,
    derived: Table | None = None,
) -> str:
    """Text for `read_run_file`. data: role -> command-line corpus argument; {} for a corpus without files. derived:
    what the run has chosen by itself, recorded beside the network options that are at their defaults."""
    command, shared = COMMANDS[type(config)], f" --processes {processes}" if processes > 1 else ""
    head = f"# The same run again: {command_line(command)} --config {RUN_FILE}{shared} --out FOLDER\n"
    if not data:
        head = "# The corpus of this run was no file: name one with the command's own options.\n"
    options = {"command": command, "complete": True, **asdict(config)}
    if data:
        digests = {name: digest for named in data.values() for name, digest in file_digests(named).items()}
        options["data"] = {**data, **({"sha256": digests} if digests else {})}
    options["machine"] = {"device": device.type, "threads": torch.get_num_threads()}
    defaults = {name: value for name, value in network_defaults(config).items() if name not in config.network}
    options["derived"] = {**(derived or {}), **({"network": defaults} if defaults else {})}
    return head + "\n".join(toml_lines(options)) + "\n"


def corpus_parts(named: CorpusArgument) -> list[str]:
    arguments = [named] if isinstance(named, str) else named
    corpora = [without_languages(argument) for argument in arguments]
    return [part for one in corpora for part in ([one] if Path(one).exists() else one.split(","))]


def without_languages(argument: str) -> str:
    """A corpus argument without the languages at its beginning (`corpus_languages`)."""
    languages = None if Path(argument).exists() else split_languages(argument)
    return languages.corpus if languages else argument


def file_digests(named: CorpusArgument) -> dict[str, str]:
    digests = {}
    for part in corpus_parts(named):
        path = Path(part)
        is_model = (path / "config.json").is_file()
        for file in sorted(path.iterdir() if is_model else path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and (not is_model or file.suffix in MODEL_SUFFIXES):
                with file.open("rb") as opened:
                    digests[file.as_posix()] = hashlib.file_digest(opened, "sha256").hexdigest()
    return digests
