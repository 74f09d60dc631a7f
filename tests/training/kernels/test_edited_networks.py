"""A network that is edited is the network that is trained, with kernels or without, from the step of the edit on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.networks.cells import CELLS
from models.networks.recurrent import RecurrentLanguageModel
from models.networks.transformer import Transformer
from tests.models import edits, tiny
from tests.models.kernels import compiled
from training.kernels import training_backend
from training.kernels.training_backend import LyricistBackend, TranslatorBackend

NO_DROPOUT = {"embedding_dropout": 0.0, "residual_dropout": 0.0}
HALF = {"embedding_dropout": 0.5, "residual_dropout": 0.5, "attention_dropout": 0.2, "activation_dropout": 0.2}


@pytest.fixture(autouse=True)
def _kernels() -> None:
    compiled(training_backend.training_library())


def translated(network: Transformer) -> tuple[float, dict[str, Tensor]]:
    """The loss of a batch, and the gradients."""
    backend = TranslatorBackend(network)
    source, inputs, outputs = tiny.ids((5, 7), 1), tiny.ids((5, 6), 2), tiny.ids((5, 6), 3)
    source[1, 4:], outputs[2, 3:] = 0, 0
    counted = outputs != 0
    network.zero_grad()
    torch.manual_seed(4)
    features = backend.counted_features(source, inputs, counted)
    loss = backend.cross_entropy(features, outputs[counted], 0.1) / counted.sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item(), {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}


def by_pytorch(network: Transformer, patched: pytest.MonkeyPatch) -> tuple[float, dict[str, Tensor]]:
    with patched.context() as without:
        without.setattr(training_backend, "training_library", lambda: None)
        return translated(network)


@pytest.mark.parametrize("name", edits.TRANSFORMER_NAMES)
def test_an_edited_transformer_is_trained(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = tiny.transformer(**NO_DROPOUT).train()
    assert TranslatorBackend(network).choice().kernels
    before, _ = translated(network)
    edits.TRANSFORMER[name](network, monkeypatch)
    choice = TranslatorBackend(network).choice()
    assert (choice.kernels, choice.reason != "") == ("", True)
    loss, gradients = translated(network)
    wanted, expected = by_pytorch(network, monkeypatch)
    assert loss == wanted
    assert abs(loss - before) > 1e-3, "the edit says something"
    assert gradients.keys() == expected.keys()
    assert all(torch.equal(gradients[each], expected[each]) for each in expected)


def test_a_gate_of_a_swiglu_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    network = tiny.transformer(**NO_DROPOUT).train()
    edits.TRANSFORMER["SwiGLU"](network, monkeypatch)
    _, gradients = translated(network)
    assert gradients["decoder.1.feed_forward.gate.weight"].abs().max() > 0


def test_a_step_after_the_edit_is_the_first_that_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One backend for the whole run, as a task has it."""
    network = tiny.transformer(**NO_DROPOUT).train()
    backend, tokens = TranslatorBackend(network), tiny.ids((2, 5), 1)
    counted = torch.ones_like(tokens, dtype=torch.bool)
    plain = backend.counted_features(tokens, tokens, counted)
    handle = network.decoder[1].around_cross.register_forward_hook(lambda _, read, given: given * 1.5)
    hooked = backend.counted_features(tokens, tokens, counted)
    torch.testing.assert_close(hooked, network.features(tokens, tokens).flatten(0, 1))
    assert (hooked - plain).abs().max() > 0.1
    handle.remove()
    assert torch.equal(backend.counted_features(tokens, tokens, counted), plain)


@pytest.mark.parametrize("way", ["instance", "hook"])
@pytest.mark.parametrize("kind", edits.WHOLE)
def test_an_edit_that_not_every_use_runs_is_not_trained(
    kind: type[nn.Module], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network: Any = tiny.transformer(**NO_DROPOUT) if kind is Transformer else tiny.recurrent()
    train: Any = translated if kind is Transformer else sung
    edits.of_the_whole(network.train(), "forward", way, monkeypatch)
    with pytest.raises(ValueError, match="do not all run it"):
        train(network)


@pytest.mark.parametrize(
    "edit", ["a rate of its own", "the embedding's", "a part without", "another module", "another order"]
)
def test_edited_dropout_runs_in_pytorch(edit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In evaluation mode these equal the original network, so no probe would detect them."""
    network = tiny.transformer(**HALF).train()
    assert TranslatorBackend(network).choice().kernels
    if edit == "a rate of its own":
        network.decoder[0].feed_forward.dropout.p = 0.9
    elif edit == "the embedding's":
        network.embedding_dropout.p = 0.9
    elif edit == "a part without":
        network.encoder.eval()
    elif edit == "another module":
        network.encoder[1].around_attention.dropout = nn.AlphaDropout(0.5)
    else:
        residual = type(network.encoder[0].around_attention)

        def forward(self: Any, x: Tensor, sublayer: Any) -> Tensor:
            normed: Tensor = self.norm(self.dropout(x + sublayer(x)))
            return normed

        monkeypatch.setattr(residual, "forward", forward)
    assert not TranslatorBackend(network).choice().kernels
    assert translated(network)[0] == by_pytorch(network, monkeypatch)[0]


def sung(network: RecurrentLanguageModel) -> tuple[float, dict[str, Tensor]]:
    tokens = tiny.ids((3, 9), 5, high=tiny.TARGET)
    network.zero_grad()
    logits, _ = network(tokens, None, LyricistBackend(network).scan)
    loss = logits.log_softmax(-1)[..., 3].sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item(), {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}


def test_dropout_between_layers_follows_the_config() -> None:
    """A rate that was put on PyTorch's layers alone."""
    network = tiny.recurrent(cell="gru").train()
    network.recurrent.dropout = 0.9
    assert LyricistBackend(network).choice().reason == "recurrent has another dropout"
    loss, _ = sung(network)
    tokens = tiny.ids((3, 9), 5, high=tiny.TARGET)
    features, _ = network.run(tokens, network.zeros(3), network.scan)
    assert loss == pytest.approx(network.project(features).log_softmax(-1)[..., 3].sum().item(), rel=1e-5)


@pytest.mark.every_value
@pytest.mark.parametrize("name", edits.RECURRENT)
@pytest.mark.parametrize("cell", CELLS)
def test_an_edited_recurrent_network_is_trained(cell: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = tiny.recurrent(cell=cell).train()
    assert bool(LyricistBackend(network).choice().kernels) == (cell == "gru")
    before, _ = sung(network)
    edits.RECURRENT[name](network, monkeypatch)
    loss, gradients = sung(network)
    assert abs(loss - before) > 5e-4, "the edit says something"
    network.zero_grad()
    tokens = tiny.ids((3, 9), 5, high=tiny.TARGET)
    features, _ = network.run(tokens, network.zeros(3), network.scan)  # one step of the cell after another
    expected = network.project(network.dropped(features)).log_softmax(-1)[..., 3].sum()
    expected.backward()  # type: ignore[no-untyped-call]
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for each, parameter in network.named_parameters():
        torch.testing.assert_close(gradients[each], parameter.grad, rtol=1e-4, atol=2e-5)
