"""A step that torch.compile has made computes what the eager one does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.training.loop.test_task_losses import SOURCES, TARGETS, translation_task
from tests.training.small import CPU, pairs, translator
from training.config.run_config import LoopConfig
from training.data.batches import pair_batch
from training.kernels.chunked_cross_entropy import chunk_loss
from training.training_run import TrainingRun
from training.translator_run import train_translator

pytestmark = [
    pytest.mark.slow,  # the compiler takes its time
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),  # PyTorch's own, when it loads its compiler
]


def test_loss_and_gradients_equal_the_eager_step() -> None:
    plain, compiled = (translation_task(0.1) for _ in range(2))
    compiled.backend.compile(64, backend="aot_eager")
    for batch in (pair_batch(SOURCES, TARGETS, 0), pair_batch(SOURCES[:1], TARGETS[:1], 0)):  # two shapes, one build
        losses = [task.loss(batch) for task in (plain, compiled)]
        assert losses[0][1] == losses[1][1]
        assert losses[0][0].item() == pytest.approx(losses[1][0].item(), rel=1e-5)
        for loss, _ in losses:
            loss.backward()
    for a, b in zip(plain.network.parameters(), compiled.network.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(" " in torch.__path__[0], reason="PyTorch tells the linker of its folder without quotation marks")
@pytest.mark.usefixtures("no_curves")
def test_a_compiled_run_learns_and_its_checkpoint_is_like_any_other(tmp_path: Path) -> None:
    """With the compiler that a GPU gets, too; here it builds for the CPU."""
    data = pairs(40)
    losses = {}
    for choice in ("on", "off"):
        config = translator(loop=LoopConfig(max_epochs=4, compile=choice))
        config = translator(
            network={**config.network, "embedding_dropout": 0.0, "residual_dropout": 0.0}, loop=config.loop
        )
        out = tmp_path / choice
        scores = train_translator(config, data, pairs(10, seed=1), TrainingRun(out=out, device=CPU, quiet=True))
        losses[choice] = scores["validation (greedy)"]["nats_per_token"]
    assert losses["on"] == pytest.approx(losses["off"], rel=1e-3)


@pytest.mark.skipif(" " in torch.__path__[0], reason="PyTorch tells the linker of its folder without quotation marks")
def test_the_loss_of_a_chunk_compiles_as_one_graph() -> None:
    """As a GPU's is compiled, for chunks of several sizes; here it builds for the CPU."""
    compiled = torch.compile(chunk_loss, dynamic=True, fullgraph=True)
    for rows in (6, 10, 4):
        logits, targets = torch.randn(rows, 50, dtype=torch.bfloat16), torch.randint(0, 50, (rows,))
        for found, expected in zip(compiled(logits, targets, 0.1), chunk_loss(logits, targets, 0.1), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
