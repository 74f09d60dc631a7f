"""The tutorials' lyricists against an independent reference: training perplexity on the first 10,000 characters.

python -m benchmarks.lyricists --corpus FILE [--seeds 1 2 3] [--jobs 1] [--json]

FILE is a Chinese text; the reference figures are for 300 Song lyrics (1,378 distinct characters in the first
10,000). The perplexity is exp(mean training cross-entropy of the epoch), as in the tutorials. About ten minutes
of one core for each seed.
"""

from __future__ import annotations

import argparse
import math
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.report import finish, goal
from training.config.recipes import LYRICISTS
from training.data.corpus_loading import read_text
from training.data.tokenizer_training import character_tokenizer
from training.loop.tasks import LyricsTask
from training.loop.trainer import Trainer
from training.lyricist_run import build_lyricist, split_text
from training.report.progress_report import ProgressReport

WORST_RATIO = 1.15


class Trial(NamedTuple):
    recipe: str
    cell: str
    epochs: int
    reference: tuple[float, ...]  # after every 50 epochs


TRIALS = (
    Trial("d2l-random", "rnn", 250, (129.08, 34.10, 10.50, 4.59, 2.76)),
    Trial("d2l-consecutive", "rnn", 250, (119.99, 30.92, 10.54, 5.79, 3.95)),
    Trial("d2l-adam", "rnn", 250, (100.69, 24.93, 4.43, 1.41, 1.04)),
    Trial("d2l-consecutive", "gru", 200, (143.69, 47.28, 10.46, 3.16)),
)


def perplexities(trial: Trial, corpus: Path, seed: int) -> list[float]:
    """After every 50 epochs; one thread, as the reference."""
    torch.set_num_threads(1)
    config = LYRICISTS[trial.recipe].config
    loop = replace(config.loop, max_epochs=trial.epochs, seed=seed)
    config = replace(config, network={**config.network, "cell": trial.cell}, loop=loop)
    text, _ = split_text(config, read_text(corpus))
    tokenizer = character_tokenizer(text, unknown=config.unknown)
    torch.manual_seed(seed)
    task = LyricsTask(build_lyricist(config, tokenizer.size), torch.tensor(tokenizer.encode(text)), None, config)
    report = ProgressReport(None, "", quiet=True)
    run = Trainer(task, config.optimizer, loop, folder=None, report=report, device=torch.device("cpu"))
    return [math.exp(loss) for loss in run.run().epoch_losses[49::50]]


def measure(corpus: Path, seeds: list[int], jobs: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows, goals = [], []
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        runs = {(t, s): pool.submit(perplexities, t, corpus, s) for t in TRIALS for s in seeds}
        for trial in TRIALS:
            name = f"{trial.cell} {trial.recipe}"
            each = [runs[trial, seed].result() for seed in seeds]
            for seed, values in zip(seeds, each, strict=True):
                rows.append({"run": name, "seed": seed, "perplexity": [round(v, 3) for v in values]})
                print(rows[-1], flush=True)
            mean = statistics.mean(values[-1] for values in each)
            ratio = round(mean / trial.reference[-1], 3)
            rows.append({"run": name, "seed": "reference", "perplexity": list(trial.reference)})
            goals.append(goal(f"{name}: last epoch, mean of {len(seeds)}", ratio, WORST_RATIO, "× reference", "lower"))
    return rows, goals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows, goals = measure(arguments.corpus, arguments.seeds, arguments.jobs)
    finish("lyricists", rows, goals, as_json=arguments.json)


if __name__ == "__main__":
    main()
