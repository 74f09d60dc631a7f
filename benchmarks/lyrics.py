"""How well a lyricist predicts the end of a text that it was not trained on, beside published figures for that text.

python -m benchmarks.lyrics --corpus FILE [--recipe NAME] [--minutes M] [--seeds 1] [--out DIR] [--json]

Trains the recipe that the text's size asks for, or NAME, as `python -m training lyrics` does, on the first nine tenths.
The last tenth is read in one strand, the state carried from its start to its end. As in nanoGPT, whose split this is to
within one character, there is no third part: the weights that are kept are those of the best validation on the same
last tenth. For tiny Shakespeare (1,115,394 characters) that is what the published figures are for too; nanoGPT's are of
windows of 256 characters, each predicted from those before it in its window. DIR keeps the models, and a run that was
stopped goes on where it stood (default: a temporary folder).
"""

from __future__ import annotations

import argparse
import hashlib
import math
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.corpora import training
from benchmarks.report import argument_parser, finish, goal
from models.checkpoint import is_checkpoint, read
from training import snapshot
from training.config.recipes import lyricist_for
from training.data.corpus_loading import read_text
from training.report.progress_report import read_rows

TINY_SHAKESPEARE = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"  # SHA-256
GOAL_NATS = 1.50
PUBLISHED = (  # nats a character
    ("nanoGPT, Transformer of 10.6 million parameters", 1.4697),
    ("nanoGPT, its CPU setting (0.8 million)", 1.88),
    ("minGRU (Feng et al. 2024)", 1.548),
    ("minLSTM (Feng et al. 2024)", 1.555),
)
HELD_OUT = "held-out end of the text"
CELL = "gru"


def figures(nats: float) -> dict[str, float]:
    """The same in three units."""
    return {
        "nats": round(nats, 4),
        "bits_per_character": round(nats / math.log(2), 4),
        "perplexity": round(math.exp(nats), 4),
    }


def train(arguments: argparse.Namespace, recipe: str, seed: int, out: Path) -> dict[str, Any]:
    """A row: what the trained model's folder says of it, and the minutes of its training."""
    command = ["lyrics", "--corpus", str(arguments.corpus), "--out", str(out)]
    command += ["--recipe", recipe, "--cell", CELL, "--seed", str(seed)]
    command += ["--max-minutes", f"{arguments.minutes:g}"] if arguments.minutes else []
    command += ["--resume"] if snapshot.exists(out) else []
    if not is_checkpoint(out):  # else an earlier run's
        training(*command)
    config = read(out).config
    held_out, minutes = config.scores[HELD_OUT], read_rows(out / "metrics.jsonl")[-1]["seconds"] / 60
    row = {"run": f"{CELL} {recipe}", "seed": seed, "parameters": config.parameters}
    row |= figures(held_out["nats_per_character"])
    return row | {"characters": held_out["characters"], "minutes": round(minutes, 1)}


def measure(arguments: argparse.Namespace, root: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    recipe = arguments.recipe or lyricist_for(len(read_text(arguments.corpus)))
    rows = []
    for seed in arguments.seeds:
        rows.append(train(arguments, recipe, seed, root / f"{arguments.corpus.stem}-{recipe}-{CELL}-{seed}"))
        print(rows[-1], flush=True)
    if hashlib.sha256(arguments.corpus.read_bytes()).hexdigest() != TINY_SHAKESPEARE:
        return rows, []
    worst = max(row["nats"] for row in rows)
    rows += [{"run": name, "published": True, **figures(nats)} for name, nats in PUBLISHED]
    return rows, [goal("tiny Shakespeare, held-out, worst of the seeds", worst, GOAL_NATS, "nats/character", "lower")]


def main() -> None:
    top = argument_parser("lyrics", __doc__)
    top.add_argument("--corpus", type=Path, required=True)
    top.add_argument("--recipe")
    top.add_argument("--minutes", type=float, help="instead of the recipe's number of epochs")
    top.add_argument("--seeds", type=int, nargs="+", default=[1])
    top.add_argument("--out", type=Path)
    arguments = top.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        rows, goals = measure(arguments, arguments.out or Path(temporary))
    finish(arguments, rows, goals)


if __name__ == "__main__":
    main()
