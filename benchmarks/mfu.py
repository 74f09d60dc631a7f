"""Model FLOP utilisation of the training loop on a GPU, and what a batch costs to make on its host.

python -m benchmarks.mfu [--json] [--out FILE]
python -m benchmarks.mfu --smoke        the same code on a toy and on the CPU, for tests

Recipe `base` over random token ids: batches from token arrays, made by the loop's thread, the step compiled as the
command line compiles it, clipping and optimizer included. Updates before the timed ones compile and warm up. A row says
whether the step was compiled, what share of the time the loop waited for batches, and how long one took to make. Making
a batch is also timed alone, on any machine: of arrays in memory, and mapped from files.

Utilisation is the arithmetic that the formulas of the network need, over what the device could have done in the same
time. Padding, recomputation and the optimizer are not counted as work. A token of an encoder layer meets 4·C·I + 2·C·F
weights, one of a decoder layer 4·C·I + 2·C·I + 2·C·F, and each source token 2·C·I of every cross-attention; each target
token meets the C·V of the output. Attention adds 2·I for every pair of positions that see each other. Each of these is
2 operations forward and 4 backward.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from benchmarks.limit import synchronise
from benchmarks.report import finish, goal
from benchmarks.training_race import Pairs, Silent, network
from models.networks.transformer import TransformerConfig
from training.config import recipes
from training.config.run_config import TranslatorConfig
from training.data.batches import LazyBatches, PairBatch
from training.data.token_array import IDS_FILE, LENGTHS_FILE, TokenArray, id_type
from training.loop.tasks import TranslationTask
from training.loop.trainer import BATCHES_AHEAD, Trainer

GOAL, MAKING_GOAL_MS = 0.40, 1.0
PEAKS = {"H100": 989.4e12, "H200": 989.4e12, "A100": 312e12, "L40": 181e12}  # bf16, dense, as the makers give them
WARM_UP, UPDATES, REPEATS = 20, 40, 3
VOCABULARY, SENTENCES = 16_000, 60_000


def operations(config: TransformerConfig, lengths: Sequence[tuple[int, int]]) -> float:
    """Of one update over sentences of (source, target) tokens, forward and backward."""
    width, inner, total = config.d_model, config.heads * config.head_width, 0.0
    forward = 2 * width * config.d_ff
    for source, target in lengths:
        encoder = source * (4 * width * inner + forward) + 2 * inner * source**2
        causal = 2 * inner * target * (target + 1) / 2
        decoder = target * (6 * width * inner + forward) + source * 2 * width * inner + causal
        decoder += 2 * inner * source * target
        total += config.encoder_layers * encoder + config.decoder_layers * decoder
        total += target * width * config.target_vocabulary
    return 6 * total


def sentences(count: int, vocabulary: int) -> Pairs:
    """Random ids, of the lengths that news have: 10 to 50 tokens, both sides nearly alike."""
    draws = random.Random(1)
    lengths = [draws.randint(10, 50) for _ in range(count)]
    targets = [max(5, n + draws.randint(-4, 4)) for n in lengths]
    sources = [[draws.randrange(4, vocabulary) for _ in range(n)] for n in lengths]
    return sources, [[2, *(draws.randrange(4, vocabulary) for _ in range(n)), 3] for n in targets]


def peak(device: torch.device) -> float | None:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return next((value for key, value in PEAKS.items() if key in name), None)


def token_arrays(pairs: Pairs) -> tuple[TokenArray, TokenArray]:
    return TokenArray.of(pairs[0]), TokenArray.of(pairs[1])


def mapped(arrays: Iterable[TokenArray], folder: Path, vocabulary: int) -> tuple[TokenArray, TokenArray]:
    """The same texts, mapped from files as those of a large corpus are."""
    for side, tokens in zip(("source", "target"), arrays, strict=True):
        tokens.ids.astype(id_type(vocabulary)).tofile(folder / IDS_FILE.format(side))
        tokens.lengths.tofile(folder / LENGTHS_FILE.format(side))
    return TokenArray.mapped(folder, "source", vocabulary), TokenArray.mapped(folder, "target", vocabulary)


class Stretch(Sequence[PairBatch]):
    """`count` batches of an epoch from `first` on, each made when it is read."""

    def __init__(self, batches: Sequence[PairBatch], first: int, count: int) -> None:
        self.batches, self.first, self.size = batches, first, min(count, len(batches) - first)

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> PairBatch: ...
    @overload
    def __getitem__(self, index: slice) -> list[PairBatch]: ...
    def __getitem__(self, index: int | slice) -> PairBatch | list[PairBatch]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < self.size:
            raise IndexError(index)
        return self.batches[self.first + index]


class Stretches:
    """A task whose epochs are stretches of one epoch of `whole`, one behind the other. arrays: its training pairs."""

    def __init__(self, whole: TranslationTask, arrays: tuple[TokenArray, TokenArray]) -> None:
        self.whole, self.arrays, self.epoch = whole, arrays, whole.batches(0)
        self.next = Stretch(self.epoch, 0, 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def batches(self, epoch: int) -> Stretch:
        return self.next

    def advance(self, updates: int) -> tuple[float, int]:
        """Moves on to the next `updates` batches, or the first ones again; returns their operations and target
        tokens."""
        first = self.next.first + len(self.next)
        self.next = Stretch(self.epoch, first if first + updates <= len(self.epoch) else 0, updates)
        assert isinstance(self.epoch, LazyBatches)
        rows = np.concatenate([self.epoch.groups[self.next.first + i] for i in range(len(self.next))])
        source, target = (side.lengths[rows].tolist() for side in self.arrays)
        lengths = [(s, t - 1) for s, t in zip(source, target, strict=True)]
        return operations(self.whole.network.config, lengths), sum(t for _, t in lengths)


class Speed(NamedTuple):
    """Operations and target tokens per second; ms to make a batch, and the share of the time in which the loop waited
    for one."""

    operations: float
    tokens: float
    making_ms: float
    waited: float


def measured(*, smoke: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows and goals. smoke: a toy, on a CPU too."""
    config, vocabulary = recipes.TRANSLATORS["base"].config, VOCABULARY
    if smoke:
        tiny = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "heads": 2, "head_width": 8, "d_ff": 32}
        loop = replace(config.loop, compile="off")  # a compiler takes longer than the rest of the smoke test
        config = replace(config, network={**config.network, **tiny}, tokens_per_batch=200, loop=loop)
        vocabulary = 50
    pairs = sentences(400 if smoke else SENTENCES, vocabulary)
    rows, goals = making(config, vocabulary, pairs)
    name = "base, bf16, share of one GPU's peak in training"
    if not smoke and not torch.cuda.is_available():
        return rows, [*goals, goal(name, None, GOAL, "of peak", "higher", "there is no CUDA device here")]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    row, speed = training(config, vocabulary, pairs, device, (1, 2, 1) if smoke else (WARM_UP, UPDATES, REPEATS))
    most = peak(device)
    if smoke or most is None:
        why = "this was a toy" if smoke else "the peak of this device is not known here"
        return [*rows, row], [*goals, goal(name, None, GOAL, "of peak", "higher", why)]
    return [*rows, row], [*goals, goal(name, round(speed.operations / most, 3), GOAL, "of peak", "higher")]


def making(
    config: TranslatorConfig, vocabulary: int, pairs: Pairs
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The time to make a batch in one thread, with nothing else of ours beside it."""
    small = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "heads": 2, "head_width": 8, "d_ff": 32}
    made, arrays = network(replace(config, network={**config.network, **small}), vocabulary), token_arrays(pairs)
    rows, medians = list[dict[str, Any]](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        for store, sides in (("memory", arrays), ("files", mapped(arrays, Path(folder), vocabulary))):
            batches = TranslationTask(made, sides, None, config).batches(0)
            times = []
            for index in range(len(batches)):
                started = time.perf_counter()
                _ = batches[index]
                times.append(1e3 * (time.perf_counter() - started))
            medians.append(round(statistics.median(times), 3))
            worst = round(statistics.quantiles(times, n=20, method="inclusive")[-1], 3)
            rows.append({"making a batch": store, "batches": len(times), "median ms": medians[-1], "95 % ms": worst})
    name = f"making a batch of {config.tokens_per_batch:,} tokens"
    return rows, [goal(name, max(medians), MAKING_GOAL_MS, "ms", "lower")]


def training(
    config: TranslatorConfig, vocabulary: int, pairs: Pairs, device: torch.device, plan: tuple[int, int, int]
) -> tuple[dict[str, Any], Speed]:
    """The loop at its best of some repeats, as a row and in numbers. plan: updates to warm up, updates of a repeat,
    repeats."""
    warm_up, updates, repeats = plan
    torch.manual_seed(1)
    made, arrays = network(config, vocabulary).to(device), token_arrays(pairs)
    task = Stretches(TranslationTask(made, arrays, None, config), arrays)
    once(task, config, device, warm_up)
    best = max(once(task, config, device, updates) for _ in range(repeats))
    backend = task.whole.backend
    row = {
        "device": str(device),
        "compiled": backend.compiled,
        **({"why not": backend.why_eager} if backend.why_eager else {}),
        "operations/s": round(best.operations),
        "target tokens/s": round(best.tokens),
        "ms to make a batch": round(best.making_ms, 3),
        "share of time waiting for batches": round(best.waited, 4),
    }
    return row, best


def once(task: Stretches, config: TranslatorConfig, device: torch.device, updates: int) -> Speed:
    work, tokens = task.advance(updates)
    limits = replace(config.loop, max_epochs=1, max_minutes=None, patience=0)
    report: Any = Silent()
    loop = Trainer(task, config.optimizer, limits, folder=None, report=report, device=device)
    loop.batches_ahead = BATCHES_AHEAD  # on a CPU too
    synchronise(device)
    started = time.perf_counter()
    loop.run()
    synchronise(device)
    seconds, upcoming = time.perf_counter() - started, loop.upcoming
    return Speed(work / seconds, tokens / seconds, 1e3 * upcoming.making_s / upcoming.made, upcoming.waited_s / seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a toy, to see that all parts run")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="also write the object of --json to this file")
    options = parser.parse_args()
    rows, goals = measured(smoke=options.smoke)
    finish("mfu", rows, goals, as_json=options.json, out=options.out)


if __name__ == "__main__":
    main()
