"""Model FLOP utilisation in training: the arithmetic that the formulas of the network need, over what the device could
have done in the same time. Padding, recomputation and the optimizer are not counted as work.

A token of an encoder layer meets 4·C·I + 2·C·F weights, one of a decoder layer 4·C·I + 2·C·I + 2·C·F, and each source
token 2·C·I of every cross-attention; each target token meets the C·V of the output. Attention adds 2·I for every pair
of positions that see each other. Each of these is 2 operations forward and 4 backward.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from benchmarks.limit import synchronise
from benchmarks.report import goal
from benchmarks.training_race import Pairs, Silent, Some, network, task
from models.networks.transformer import TransformerConfig
from training.config import recipes
from training.config.run_config import TranslatorConfig
from training.loop.trainer import Trainer

GOAL = 0.40
PEAKS = {"H100": 989.4e12, "H200": 989.4e12, "A100": 312e12, "L40": 181e12}  # bf16, dense, as the makers give them
WARM_UP, UPDATES, REPEATS = 20, 40, 3


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


def measured(*, smoke: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows and the goal. smoke: a toy, on a CPU too."""
    name = "base, bf16, share of one GPU's peak in training"
    if not smoke and not torch.cuda.is_available():
        return [], [goal(name, None, GOAL, "of peak", "higher", "there is no CUDA device here")]
    config, size, device = (
        recipes.TRANSLATORS["base"].config,
        16_000,
        torch.device("cuda" if torch.cuda.is_available() else "cpu"),
    )
    if smoke:
        tiny = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "heads": 2, "head_width": 8, "d_ff": 32}
        config, size = replace(config, network={**config.network, **tiny}, tokens_per_batch=200), 50
    rate, tokens = speed(config, size, device, (1, 2, 1) if smoke else (WARM_UP, UPDATES, REPEATS))
    row = {"device": str(device), "operations/s": round(rate), "target tokens/s": round(tokens)}
    most = peak(device)
    if smoke or most is None:
        why = "this was a toy" if smoke else "the peak of this device is not known here"
        return [row], [goal(name, None, GOAL, "of peak", "higher", why)]
    return [row], [goal(name, round(rate / most, 3), GOAL, "of peak", "higher")]


def speed(
    config: TranslatorConfig, vocabulary: int, device: torch.device, plan: tuple[int, int, int]
) -> tuple[float, float]:
    """Operations/s and target tokens/s of the training loop, the best of some repeats. plan: updates to warm up,
    updates of a repeat, repeats."""
    warm_up, updates, repeats = plan
    torch.manual_seed(1)
    made = network(config, vocabulary).to(device)
    some = Some(task(config, made, sentences(updates * config.tokens_per_batch // 25, vocabulary)))
    once(some, config, device, warm_up)
    results = [once(some, config, device, updates) for _ in range(repeats)]
    return max(results)


def once(some: Some, config: TranslatorConfig, device: torch.device, updates: int) -> tuple[float, float]:
    tokens = some.take(updates)
    pad = some.whole.pad
    work = sum(
        operations(some.whole.network.config, list(zip(*lengths, strict=True)))
        for lengths in (
            ((batch.source != pad).sum(1).tolist(), (batch.outputs != pad).sum(1).tolist()) for batch in some.now
        )
    )
    limits = replace(config.loop, max_epochs=1, max_minutes=None, patience=0)
    report: Any = Silent()
    synchronise(device)
    started = time.perf_counter()
    Trainer(some, config.optimizer, limits, folder=None, report=report, device=device).run()  # type: ignore[arg-type]
    synchronise(device)
    seconds = time.perf_counter() - started
    return work / seconds, tokens / seconds
