"""The command lines that `benchmarks.same_answers` runs: help, refusals, small runs, keys, the table of settings.
They stand in `requests/commands.txt` and, those that train, in `requests/trainings.txt`."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.recorded_requests import FOLDER

TIMEOUT_S = 300
SUBJECTS = {"der hund": "the dog", "die katze": "the cat", "der mann": "the man", "die frau": "the woman"}
VERBS = {"sieht": "sees", "sucht": "looks for", "kauft": "buys", "malt": "paints"}
OBJECTS = {"ein bier": "a beer", "das haus": "the house", "einen apfel": "an apple", "den alten mann": "the old man"}
_TIMES = re.compile(
    r"\d{4}-\d\d-\d\dT?[ \d:.,+Z]*|\b\d+:\d\d(:\d\d)?\b|\b[\d.,]+ (s|ms|min|minutes|seconds|tokens/s|characters/s)\b"
    r'|(?<="seconds": )[\d.]+|\b[0-9a-f]{40}\b'
)


def environment(checkout: Path, scratch: Path | None = None) -> dict[str, str]:
    """Of a command that runs the checkout's code on one thread. scratch: for its keys and compiled modules."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("PARLANCE_")}
    given |= {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    if scratch is not None:
        given["PARLANCE_KEYS_FILE"] = str(scratch / "keys.jsonl")
        given["PYTHONPYCACHEPREFIX"] = str(scratch.parent / "bytecode")
    return given


def write_corpora(folder: Path) -> None:
    """pairs.tsv and lines.txt, the same at every call."""
    folder.mkdir(parents=True, exist_ok=True)
    phrases = itertools.product(SUBJECTS, VERBS, OBJECTS)
    pairs = [(f"{s} {v} {o}", f"{SUBJECTS[s]} {VERBS[v]} {OBJECTS[o]}") for s, v, o in phrases]
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    (folder / "lines.txt").write_text("".join(f"{target}\n" for _, target in pairs) * 4)
    (folder / "german.txt").write_text("".join(f"{source}\n" for source, _ in pairs))
    (folder / "english.txt").write_text("".join(f"{target}\n" for _, target in pairs[:-1]))
    (folder / "empty.txt").write_text("")
    (folder / "broken.toml").write_text("[network\n")
    (folder / "wrong.toml").write_text('[network]\nd_model = "wide"\n')
    (folder / "good.toml").write_text("[loop]\nmax_epochs = 1\n[network]\nd_model = 16\nheads = 2\nhead_width = 8\n")


def commands(name: str, **places: Path) -> list[list[str]]:
    """The command lines of `requests/NAME.txt`, with places such as {out} filled in."""
    lines = FOLDER.joinpath(f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [[word.format_map(places) for word in shlex.split(line)] for line in lines]


def training_commands(corpora: Path, out: Path, epochs: int = 12) -> list[list[str]]:
    """Small runs of each architecture, on one thread, by a seed."""
    write_corpora(corpora)
    end = ["--device", "cpu", "--threads", "1", "--seed", "3", "--max-epochs", str(epochs)]
    return [[*command, *end] for command in commands("trainings", corpora=corpora, out=out)]


def run_all(checkout: Path, python: str, checkpoints: Path, scratch: Path) -> Iterator[dict[str, Any]]:
    """A line for each command, and one for each checkpoint that a small run has written."""
    corpora, out = scratch / "corpora", scratch / "out"
    write_corpora(corpora)
    out.mkdir()
    places = {str(scratch): "{{scratch}}", str(checkpoints): "{{checkpoints}}", str(checkout): "{{checkout}}"}
    places[python] = "{{python}}"
    for number, command in enumerate(commands("commands", corpora=corpora, out=out, checkpoints=checkpoints)):
        yield _run(f"commands/{number:03d}", command, checkout, python, scratch, places)
    table = scratch / "settings.md"
    table.write_text("<!-- settings -->\n<!-- /settings -->\n")
    yield _run("commands/settings", ["-m", "app.settings_table", str(table)], checkout, python, scratch, places) | {
        "table": table.read_text()
    }
    trained = out / "trained"
    trained.mkdir()
    for command in training_commands(corpora, trained, epochs=2):
        folder = Path(command[command.index("--out") + 1])
        line = _run(f"commands/train {folder.name}", command, checkout, python, scratch, places)
        del line["output"]
        line["errors"] = re.sub(r"(?m)^.*\d% \|.*$", "#", line["errors"].replace("\r", "\n")).replace("#\n", "")
        yield line | _checkpoint(folder, places)
    shutil.rmtree(out)


def _run(
    name: str, command: list[str], checkout: Path, python: str, scratch: Path, places: Mapping[str, str]
) -> dict[str, Any]:
    done = subprocess.run(
        [python, *command],
        cwd=scratch,
        env=environment(checkout, scratch),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    texts = [_normalized(text.decode("utf-8", "replace"), places) for text in (done.stdout, done.stderr)]
    shown = _normalized(" ".join(command), places)
    return {"name": f"{name} {shown}"[:300], "status": done.returncode, "output": texts[0], "errors": texts[1]}


def _normalized(text: str, places: Mapping[str, str]) -> str:
    for place, name in places.items():
        text = text.replace(place, name)
    text = re.sub(r"plk_[A-Za-z0-9_-]+", "plk_#", text)
    return _TIMES.sub("#", text)


def _checkpoint(folder: Path, places: Mapping[str, str]) -> dict[str, Any]:
    """What a run has written: files, config, curves and a hash of the weights."""
    if not (folder / "config.json").exists():
        return {"files": "none"}
    config = json.loads((folder / "config.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        for name in [name for name in line if "second" in name or "per_s" in name or "time" in name]:
            line[name] = "#"
    return {
        "files": sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()),
        "config": _normalized(json.dumps(config), places),
        "metrics": lines,
        "weights": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
        "run": _normalized((folder / "run.toml").read_text(), places),
    }
