"""COMET (Rei et al. 2020, arXiv 2009.09025) by the program `comet-score` of the package unbabel-comet.

The program runs in a process of its own: unbabel-comet 2.2.7 needs numpy below 2 and transformers below 5, and this
project newer ones, so that both fit into one machine and not into one environment."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from training.data.sentence_pairs import one_line
from training.errors import TrainingError

PROGRAM = "comet-score"
DEFAULT_MODEL = "Unbabel/wmt22-comet-da"


def find_program() -> str:
    """TrainingError with the way to install it, unless it is on the PATH or beside this Python."""
    program = shutil.which(PROGRAM) or shutil.which(PROGRAM, path=str(Path(sys.executable).parent))
    if program is None:
        raise TrainingError(
            f"--comet needs the program {PROGRAM}, which is not on the PATH: install it in an environment of its own,"
            " `pipx install unbabel-comet`, since it needs older libraries than this project."
        )
    return program


def comet_scores(
    sources: Sequence[str], outputs: Sequence[Sequence[str]], reference: Sequence[str], model: str, device: torch.device
) -> list[list[float]]:
    """Scores per system and sentence, [systems][sentences]. model: a name on the hub or a .ckpt file. TrainingError if
    the program fails, with the last line that it printed."""
    program, names = find_program(), [f"system-{number}.txt" for number in range(len(outputs))]
    if model.endswith(".ckpt") and Path(model).is_file():
        model = str(Path(model).resolve())
    with TemporaryDirectory() as folder:
        files = {"source.txt": sources, "reference.txt": reference, **dict(zip(names, outputs, strict=True))}
        for name, texts in files.items():
            lines = "".join(f"{one_line(text)}\n" for text in texts)
            (Path(folder) / name).write_text(lines, encoding="utf-8", newline="\n")
        command = [program, "-s", "source.txt", "-t", *names, "-r", "reference.txt", "--to_json", "scores.json"]
        command += ["--model", model, "--gpus", str(int(device.type == "cuda")), "--quiet", "--only_system"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        try:
            found = json.loads((Path(folder) / "scores.json").read_text(encoding="utf-8"))
            scores = [[float(row["COMET"]) for row in found[name]] for name in names]
        except (OSError, ValueError, KeyError, TypeError):
            scores = []
    if done.returncode or any(len(row) != len(sources) for row in scores) or not scores:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        reason = said[-1].rstrip(".") if said else f"exit code {done.returncode}"
        raise TrainingError(f"{PROGRAM} gave no scores with the model {model} ({reason}).")
    return scores
