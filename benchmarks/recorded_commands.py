"""The command lines that `benchmarks.same_answers` runs: help, refusals, small runs, keys, the table of settings."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

TIMEOUT_S = 300
TRAINING = ("-m", "training")
SUBJECTS = {"der hund": "the dog", "die katze": "the cat", "der mann": "the man", "die frau": "the woman"}
VERBS = {"sieht": "sees", "sucht": "looks for", "kauft": "buys", "malt": "paints"}
OBJECTS = {"ein bier": "a beer", "das haus": "the house", "einen apfel": "an apple", "den alten mann": "the old man"}
_SUBCOMMANDS = ("translator", "lyrics", "demo", "evaluate", "distil", "recipes", "inspect-corpus", "import-marian")
_RECIPES = ("tiny", "small", "base", "classic", "lyrics/small", "lyrics/medium", "d2l-adam", "nothing")
_REFUSED_SETTINGS = (
    "network.d_model=wide",
    "network.nothing=1",
    "nothing",
    "network.heads=0",
    "optimizer.rate=-1",
    "loop.max_epochs=0",
    "network.norm=sideways",
)
_KEY_COMMANDS = (
    (),
    ("--help",),
    ("add", "--help"),
    ("list",),
    ("add", "shop", "--rate-limit", "60/minute", "--quota", "500000/month"),
    ("add", "shop"),
    ("add", "admin"),
    ("add", ""),
    ("add", "x", "--rate-limit", "often"),
    ("add", "x", "--quota", "much"),
    ("add", "deploy", "--scope", "admin"),
    ("list",),
    ("remove", "shop"),
    ("remove", "shop"),
    ("list",),
    ("--file", "/nonexistent/keys", "list"),
)
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


def training_commands(corpora: Path, out: Path, epochs: int = 12) -> list[list[str]]:
    """Small runs of each architecture, on one thread, by a seed."""
    write_corpora(corpora)
    translator = [*TRAINING, "translator", "--source", "de", "--target", "en", "--train", str(corpora / "pairs.tsv")]
    lyrics = [*TRAINING, "lyrics", "--corpus", str(corpora / "lines.txt"), "--recipe", "small"]
    end = ["--device", "cpu", "--threads", "1", "--seed", "3", "--max-epochs", str(epochs)]
    shape = ["network.d_model=32", "network.heads=2", "network.head_width=16", "network.d_ff=64"]
    shape += ["tokenizer.size=80", "tokens_per_batch=200", "loop.sample_translations=1"]
    post = ["network.norm=post", "network.activation=gelu", "network.tied=output", "tokenizer.kind=word"]
    post += ["tokenizer.joint=false", "network.encoder_layers=1", "network.decoder_layers=2"]
    pre = ["network.activation=silu", "network.tied=none", "network.output_bias=true", "network.encoder_layers=2"]
    pre += ["network.decoder_layers=1", "optimizer.name=adam", "optimizer.rate=0.003", "network.positions=marian"]
    commands = [
        [*translator, "--recipe", "tiny", *_set(shape + more), "--out", str(out / name), *end]
        for name, more in (("post-de-en", post), ("pre-de-en", pre))
    ]
    for cell, layers in (("gru", 1), ("lstm", 2), ("rnn", 1)):
        sizes = ["network.hidden=32", "network.embedding=16", f"network.layers={layers}"]
        commands.append([*lyrics, "--cell", cell, *_set(sizes), "--out", str(out / cell), *end])
    return commands


def _set(options: list[str]) -> list[str]:
    return [word for option in options for word in ("--set", option)]


def _commands(corpora: Path, out: Path, checkpoints: Path) -> Iterator[list[str]]:
    yield from _help_and_recipes()
    yield from _refused_runs(corpora, out / "refused")
    yield from _inspected_corpora(corpora)
    yield from _evaluations(corpora, out / "refused", checkpoints)
    yield ["-m", "app.settings_table", "--help"]
    yield from (["-m", "app.keys", *words] for words in _KEY_COMMANDS)


def _help_and_recipes() -> Iterator[list[str]]:
    yield [*TRAINING]
    yield [*TRAINING, "--help"]
    yield from ([*TRAINING, name, "--help"] for name in _SUBCOMMANDS)
    yield [*TRAINING, "recipes"]
    yield from ([*TRAINING, "recipes", "--show", name] for name in _RECIPES)


def _refused_runs(corpora: Path, refused: Path) -> Iterator[list[str]]:
    """Runs with a missing or a wrong option, corpus or config file. refused: their --out, which stays empty."""
    pairs, lines = str(corpora / "pairs.tsv"), str(corpora / "lines.txt")
    translator = [*TRAINING, "translator", "--source", "de", "--target", "en", "--out", str(refused)]
    lyrics = [*TRAINING, "lyrics", "--out", str(refused)]
    yield [*TRAINING, "nothing"]
    yield [*TRAINING, "translator"]
    yield translator
    yield [*translator, "--train", str(corpora / "missing.tsv")]
    yield [*translator, "--train", str(corpora / "empty.txt")]
    yield [*translator, "--train", f"{corpora}/german.txt,{corpora}/english.txt"]
    yield [*translator, "--train", pairs, "--recipe", "nothing"]
    for setting in _REFUSED_SETTINGS:
        yield [*translator, "--train", pairs, "--set", setting]
    yield [*translator, "--train", pairs, "--config", str(corpora / "broken.toml")]
    yield [*translator, "--train", pairs, "--config", str(corpora / "wrong.toml")]
    yield [*translator, "--train", pairs, "--config", str(corpora / "missing.toml")]
    yield [*translator, "--train", pairs, "--clean", "nothing=1"]
    yield [*translator, "--train", pairs, "--columns", "1,9"]
    yield [*translator, "--train", pairs, "--columns", "x"]
    yield [*translator, "--train", pairs, "--device", "cuda"]
    yield [*translator, "--train", pairs, "--max-minutes", "0"]
    yield [*translator, "--train", pairs, "--resume"]
    yield [*translator, "--train", pairs, "--valid", str(corpora / "missing.tsv")]
    yield lyrics
    yield [*lyrics, "--corpus", str(corpora / "missing.txt")]
    yield [*lyrics, "--corpus", str(corpora / "empty.txt")]
    yield [*lyrics, "--corpus", lines, "--cell", "cnn"]
    yield [*lyrics, "--corpus", lines, "--set", "network.hidden=0"]


def _inspected_corpora(corpora: Path) -> Iterator[list[str]]:
    inspect = [*TRAINING, "inspect-corpus"]
    pairs, lines = str(corpora / "pairs.tsv"), str(corpora / "lines.txt")
    yield [*inspect, pairs, "--source", "de", "--target", "en"]
    yield [*inspect, pairs, "--source", "de", "--target", "en", "--json", "--subwords", "60"]
    yield [*inspect, lines]
    yield [*inspect, lines, "--json"]
    yield [*inspect, str(corpora / "missing.txt")]
    yield [*inspect, pairs, "--source", "de"]


def _evaluations(corpora: Path, refused: Path, checkpoints: Path) -> Iterator[list[str]]:
    """Commands that read a checkpoint: scores, an import and a distillation."""
    pairs, lines = str(corpora / "pairs.tsv"), str(corpora / "lines.txt")
    nothing = str(checkpoints / "nothing")
    translator = [*TRAINING, "evaluate", str(checkpoints / "demo-de-en")]
    lyrics = [*TRAINING, "evaluate", str(checkpoints / "lyrics-zh")]
    yield [*TRAINING, "evaluate", nothing]
    yield translator
    yield [*translator, "--test", pairs, "--device", "cpu", "--threads", "1"]
    yield [*translator, "--test", pairs, "--beam", "4", "--threads", "1"]
    yield [*translator, "--test", pairs, "--beam", "65"]
    yield [*lyrics, "--corpus", lines, "--threads", "1"]
    yield [*lyrics, "--test", pairs]
    yield [*TRAINING, "import-marian", str(corpora), "--out", str(refused)]
    yield [*TRAINING, "distil", nothing, lines]


def run_all(checkout: Path, python: str, checkpoints: Path, scratch: Path) -> Iterator[dict[str, Any]]:
    """A line for each command, and one for each checkpoint that a small run has written."""
    corpora, out = scratch / "corpora", scratch / "out"
    write_corpora(corpora)
    out.mkdir()
    places = {str(scratch): "{{scratch}}", str(checkpoints): "{{checkpoints}}", str(checkout): "{{checkout}}"}
    places[python] = "{{python}}"
    for number, command in enumerate(_commands(corpora, out, checkpoints)):
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
