"""Muon: against PyTorch's own, which matrices it takes, and that it goes on after a resume."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel
from models.networks.transformer import Transformer, TransformerConfig
from tests.training.runs import Killed, assert_same_run, kill_at, sing, translate
from training import snapshot
from training.config.run_config import OptimizerConfig
from training.loop.optimizers import build_optimizer, hidden_matrices, orthogonalize, set_learning_rate

pytestmark = pytest.mark.usefixtures("no_curves")
MUON = OptimizerConfig(name="muon", learning_rate=1e-2, weight_decay=0.1, betas=(0.9, 0.95), epsilon=1e-8)


def transformer(tied: str) -> Transformer:
    sizes = {"d_model": 8, "heads": 2, "head_width": 4, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 1}
    return Transformer(TransformerConfig(source_vocabulary=9, target_vocabulary=9, tied=tied, **sizes))  # type: ignore[arg-type]


def names(network: nn.Module) -> set[str]:
    chosen = {id(p) for p in hidden_matrices(network)}
    return {name for name, p in network.named_parameters() if id(p) in chosen}


@pytest.mark.parametrize("tied", ["none", "output", "all"])
def test_the_hidden_matrices_of_a_transformer(tied: str) -> None:
    feed = [f"{side}.0.feed_forward.{way}.weight" for side in ("encoder", "decoder") for way in ("widen", "narrow")]
    parts = ("encoder.0.attention", "decoder.0.attention", "decoder.0.cross_attention")
    attention = [f"{part}.{way}.weight" for part in parts for way in ("projection", "output")]
    assert names(transformer(tied)) == {*feed, *attention}


@pytest.mark.parametrize("embedding", [0, 5])
def test_the_hidden_matrices_of_a_lyricist(embedding: int) -> None:
    """Without an embedding its first matrix is one."""
    network = RecurrentLanguageModel(RecurrentConfig(vocabulary=7, embedding=embedding, hidden=4, layers=2))
    expected = {"recurrent.weight_hh_l0", "recurrent.weight_hh_l1", "recurrent.weight_ih_l1"}
    assert names(network) == (expected | {"recurrent.weight_ih_l0"} if embedding else expected)


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 4, 24), (2, 24, 4)])
def test_singular_values_come_close_to_one(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    matrices = torch.randn(shape) @ torch.diag(torch.logspace(0, -1, shape[2]))
    made = orthogonalize(matrices)
    values = torch.linalg.svdvals(made)
    assert 0.6 < values.min() < values.max() < 1.25
    before, after = torch.linalg.svd(matrices, full_matrices=False), torch.linalg.svd(made, full_matrices=False)
    torch.testing.assert_close(after.U @ after.Vh, before.U @ before.Vh, rtol=0, atol=1e-4)


def test_parameters_without_a_gradient_are_not_stepped() -> None:
    assert torch.equal(orthogonalize(torch.zeros(1, 3, 4)), torch.zeros(1, 3, 4))


def test_steps_equal_pytorchs_muon_and_adamw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs made to work in float32 as well."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    torch.manual_seed(1)
    ours, theirs = transformer("none"), transformer("none")
    theirs.load_state_dict(ours.state_dict())
    hidden = hidden_matrices(theirs)
    rest = [p for p in theirs.parameters() if not any(p is h for h in hidden)]
    muon = torch.optim.Muon(hidden, lr=1e-2, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    groups = [
        {"params": [p for p in rest if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
    both = build_optimizer(MUON, ours)
    for step in range(5):
        for optimizer in (both, muon, adamw):
            set_learning_rate(optimizer, 1e-2 / (1 + step))
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        both.step()
        muon.step()
        adamw.step()
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=name)


def test_a_snapshot_read_into_the_hosts_memory_goes_to_the_weights_device() -> None:
    """Its counts of updates too: the fused AdamW of a GPU reads them there."""
    saved = trained(nn.Linear(4, 3))
    resumed = build_optimizer(MUON, nn.Linear(4, 3, device="meta"))
    resumed.load_state_dict(saved.state_dict())
    assert {value.device.type for state in resumed.state.values() for value in state.values()} == {"meta"}
    assert saved.state_dict()["state"][1]["step"] == 1


def trained(network: nn.Module) -> torch.optim.Optimizer:
    optimizer = build_optimizer(MUON, network)
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("train", [pytest.param(translate, marks=pytest.mark.slow), sing])
def test_a_killed_run_goes_on_with_its_momenta(tmp_path: Path, train: object) -> None:
    assert callable(train)
    train(tmp_path / "whole", optimizer=MUON)
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 5)
        with pytest.raises(Killed):
            train(tmp_path / "parts", optimizer=MUON)
    states = snapshot.load(tmp_path / "parts")["optimizer"]["state"]
    assert {frozenset(state) for state in states.values()} == {
        frozenset({"momentum_buffer"}),
        frozenset({"step", "exp_avg", "exp_avg_sq"}),
    }
    train(tmp_path / "parts", optimizer=MUON, resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
