"""Schedules by hand, what weight decay touches, clipping, and the moving average."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from models.networks.transformer import Transformer, TransformerConfig
from training.config.run_config import OptimizerConfig
from training.loop.optimizers import build_optimizer, clip_gradients, set_learning_rate
from training.loop.run_plan import learning_rate
from training.loop.weight_selection import MovingAverage


@pytest.mark.parametrize(("update", "wanted"), [(1, 0.1), (2, 0.2), (9, 0.9), (10, 1.0), (11, 1.0), (10**6, 1.0)])
def test_a_constant_rate_after_its_warm_up(update: int, wanted: float) -> None:
    assert learning_rate(OptimizerConfig(learning_rate=1.0, warmup_updates=10), update, 0.0) == pytest.approx(wanted)


def test_no_warm_up_starts_at_the_peak() -> None:
    assert [learning_rate(OptimizerConfig(learning_rate=0.3), n, 0.0) for n in (1, 2, 3)] == [0.3, 0.3, 0.3]


@pytest.mark.parametrize(("update", "wanted"), [(2, 0.5), (4, 1.0), (16, 0.5), (64, 0.25), (400, 0.1)])
def test_inverse_sqrt_halves_when_the_updates_quadruple(update: int, wanted: float) -> None:
    config = OptimizerConfig(learning_rate=1.0, schedule="inverse_sqrt", warmup_updates=4)
    assert learning_rate(config, update, 0.0) == pytest.approx(wanted)


def test_cosine_warms_up_too() -> None:
    assert learning_rate(
        OptimizerConfig(learning_rate=2.0, schedule="cosine", warmup_updates=8), 4, 0.01
    ) == pytest.approx(1.0)


@pytest.mark.parametrize(("progress", "wanted"), [(0.125, 1.0), (0.2, 1.6), (0.5, 1.0)])
def test_warm_up_takes_at_most_a_quarter_of_a_run(progress: float, wanted: float) -> None:
    config = OptimizerConfig(learning_rate=2.0, schedule="cosine", warmup_updates=10_000, final_fraction=0.0)
    assert learning_rate(config, 5, progress) == pytest.approx(wanted)


def test_an_early_end_of_warm_up_does_not_pass_the_peak() -> None:
    config = OptimizerConfig(learning_rate=2.0, schedule="inverse_sqrt", warmup_updates=10_000)
    assert learning_rate(config, 5, 0.5) == 2.0


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_the_rate_of_an_update_is_the_one_applied(name: str) -> None:
    optimizer = build_optimizer(OptimizerConfig(name=name, learning_rate=1.0), nn.Linear(2, 2))  # type: ignore[arg-type]
    set_learning_rate(optimizer, 0.125)
    assert {group["lr"] for group in optimizer.param_groups} == {0.125}


def test_weight_decay_falls_on_matrices_alone() -> None:
    network = nn.Sequential(nn.Embedding(3, 4), nn.Linear(4, 4), nn.LayerNorm(4))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1.0)
            parameter.grad = torch.zeros_like(parameter)
    build_optimizer(OptimizerConfig(name="adamw", learning_rate=0.1, weight_decay=0.5), network).step()
    values = {name: round(float(p.detach().mean()), 6) for name, p in network.named_parameters()}
    assert values == {"0.weight": 0.95, "1.weight": 0.95, "1.bias": 1.0, "2.weight": 1.0, "2.bias": 1.0}


def test_frozen_parameters_are_left_out() -> None:
    network = nn.Linear(2, 2)
    network.bias.requires_grad_(False)
    groups = build_optimizer(OptimizerConfig(), network).param_groups
    (trained,) = [p for group in groups for p in group["params"]]
    assert trained is network.weight


def test_sgd_takes_the_plain_step() -> None:
    network = nn.Linear(1, 1, bias=False)
    network.weight.data.fill_(1.0)
    network.weight.grad = torch.full((1, 1), 0.25)
    build_optimizer(OptimizerConfig(name="sgd", learning_rate=2.0), network).step()
    assert network.weight.item() == 0.5


@pytest.mark.parametrize(("norm", "scale"), [(1.0, 0.2), (2.5, 0.5), (5.0, 1.0), (100.0, 1.0), (0.0, 1.0)])
def test_clipping_returns_the_norm_and_scales_all_gradients_together(norm: float, scale: float) -> None:
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))]
    parameters[0].grad, parameters[1].grad = torch.tensor([3.0, 0.0]), torch.tensor([4.0])
    assert clip_gradients(parameters, norm).item() == pytest.approx(5.0)
    for parameter, expected in zip(parameters, ([3.0 * scale, 0.0], [4.0 * scale]), strict=True):
        assert parameter.grad is not None
        assert parameter.grad.tolist() == pytest.approx(expected, rel=1e-5)


def one(value: float) -> nn.Linear:
    network = nn.Linear(1, 1, bias=False)
    network.weight.data.fill_(value)
    return network


def test_moving_average_equals_the_formula() -> None:
    network = one(0.0)
    average = MovingAverage(network, 0.25)
    expected = 0.0
    for number, value in enumerate([1.0, 2.0, -4.0, 8.0], start=1):
        network.weight.data.fill_(value)
        average.update(number)
        decay = min(0.25, (1 + number) / (10 + number))  # 2/11, then 0.25
        expected = decay * expected + (1 - decay) * value
        assert average.values[0].item() == pytest.approx(expected, rel=1e-6)


def test_decay_of_the_moving_average_starts_low() -> None:
    network = one(0.0)
    average = MovingAverage(network, 0.999)
    network.weight.data.fill_(11.0)
    average.update(1)
    assert average.values[0].item() == pytest.approx(9.0)  # 2/11 of the start


def test_moving_average_is_applied_inside_the_block_alone() -> None:
    network = Transformer(
        TransformerConfig(
            source_vocabulary=9,
            target_vocabulary=9,
            d_model=8,
            heads=2,
            head_width=4,
            d_ff=8,
            encoder_layers=1,
            decoder_layers=1,
            tied="all",
        )
    )
    average = MovingAverage(network, 0.5)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter))
    average.update(100)
    own = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    with pytest.raises(RuntimeError, match="inside"), average.applied():
        held = network.state_dict()
        assert all(torch.equal(p, v) for p, v in zip(network.parameters(), average.values, strict=True))
        assert torch.equal(held["target_embedding.weight"], held["source_embedding.weight"])  # tied: one average
        assert not torch.equal(held["source_embedding.weight"], own["source_embedding.weight"])
        raise RuntimeError("inside")
    after = network.state_dict()
    assert own.keys() == after.keys()
    assert all(torch.equal(own[name], after[name]) for name in own)


def test_decay_0_keeps_no_moving_average() -> None:
    network = one(3.0)
    average = MovingAverage(network, 0.0)
    average.update(1)
    assert average.values == []
    with average.applied():
        assert network.weight.item() == 3.0


def test_the_schedules_are_finite_everywhere() -> None:
    for schedule in ("constant", "inverse_sqrt", "cosine"):
        config = OptimizerConfig(schedule=schedule, warmup_updates=3)  # type: ignore[arg-type]
        values = [learning_rate(config, n, n / 100) for n in range(1, 101)]
        assert all(math.isfinite(v) and 0 < v <= config.learning_rate for v in values)
