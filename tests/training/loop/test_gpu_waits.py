"""In training on a simulated GPU the host waits for the device once for each log line.

PyTorch's autograd engine asks the build for the device's streams, so that the backward pass does not run in the
simulation: gradients of ones stand for it. Loss, clipping, optimizer, average and readings are the loop's own."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.training_race import Silent
from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel
from models.networks.transformer import Transformer, TransformerConfig
from tests.cuda_simulator import simulated_cuda
from tests.cuda_simulator.counts import Copy
from tests.training.small import lyricist, translator
from training.config.run_config import LoopConfig, LyricsConfig, OptimizerConfig, TranslatorConfig
from training.loop.tasks import AnyTask, LyricsTask, TranslationTask
from training.loop.trainer import Trainer

CUDA, VOCABULARY = torch.device("cuda", 0), 40
LOOP = LoopConfig(max_epochs=1, precision="bf16", compile="off", ema_decay=0.9)


def translation(config: TranslatorConfig) -> AnyTask:
    """An epoch of some 25 batches."""
    draws = random.Random(1)

    def rows(count: int) -> list[list[int]]:
        return [[draws.randrange(4, VOCABULARY) for _ in range(draws.randint(3, 9))] for _ in range(count)]

    options: dict[str, Any] = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY, **config.network}
    network = Transformer(TransformerConfig(**options)).to(CUDA)
    pairs = rows(100), [[2, *row, 3] for row in rows(100)]
    return TranslationTask(network, pairs, None, config)


def lyrics(config: LyricsConfig) -> AnyTask:
    network = RecurrentLanguageModel(RecurrentConfig(vocabulary=VOCABULARY, **dict(config.network))).to(CUDA)
    return LyricsTask(network, torch.randint(VOCABULARY, (500,)), None, config)


@pytest.fixture
def _no_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def backward(loss: Tensor, *_: Any, **__: Any) -> None:
        for parameter in networks[-1].parameters():
            if parameter.requires_grad:
                parameter.grad = torch.ones_like(parameter)

    networks = list[nn.Module]()
    original = Trainer.__init__

    def initialised(loop: Trainer, task: Any, *arguments: Any, **options: Any) -> None:
        networks.append(task.network)
        original(loop, task, *arguments, **options)

    monkeypatch.setattr(Tensor, "backward", backward)
    monkeypatch.setattr(Trainer, "__init__", initialised)


@pytest.mark.usefixtures("_no_backward_pass")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("translator", marks=pytest.mark.slow),
        pytest.param("translator, muon", marks=pytest.mark.slow),
        "lyricist",
    ],
)
def test_host_waits_once_for_each_log_line(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.loop.mixed_precision.set_gpu_products", lambda number_format: None)
    monkeypatch.setattr("training.loop.trainer.LOG_EVERY_UPDATES", 10)
    monkeypatch.setattr(Trainer, "_measure", lambda loop: None)  # PyTorch's random state of a GPU is the build's
    with simulated_cuda() as cuda:
        task: AnyTask
        config: TranslatorConfig | LyricsConfig = lyricist(loop=LOOP)
        if kind == "lyricist":
            assert isinstance(config, LyricsConfig)
            task = lyrics(config)
        else:
            options: dict[str, Any] = {"loop": LOOP}
            if "muon" in kind:
                options |= {"optimizer": OptimizerConfig(name="muon", learning_rate=1e-3)}
            config = translator(**options)
            task = translation(config)
        report: Any = Silent()
        loop = Trainer(task, config.optimizer, config.loop, folder=None, report=report, device=CUDA)
        loop.batches_ahead = 0  # the simulation is that of one thread
        step, updates = loop._step, [0]

        def counted(batches: Any) -> None:
            if updates[0] == 1:  # tables, optimizer state and constants are there
                cuda.reset_counts()
            updates[0] += 1
            step(batches)

        monkeypatch.setattr(loop, "_step", counted)
        loop.run()
        assert 20 < updates[0] < 30
        assert cuda.counts.synchronisations.total() == 0
        blocking = {copy: number for copy, number in cuda.counts.copies.items() if copy.blocking}
        assert blocking == {Copy("D2H", pinned=False, blocking=True): 3}, cuda.counts.sites  # updates 10, 20, last
        assert cuda.counts.copies[Copy("H2D", pinned=True, blocking=False)] >= 2 * (updates[0] - 1)
