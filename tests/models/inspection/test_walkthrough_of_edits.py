"""A walkthrough of an edited network: every number is one that ran, and no formula contradicts them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.backends.native.coverage import transformer_difference
from models.networks import transformer
from models.networks.transformer import FeedForward, MultiHeadAttention, Transformer
from tests.combinations import slow_but
from tests.models import edits, tiny
from tests.models.inspection.formulas import check_formulas, walks


@pytest.mark.parametrize("name", slow_but(tiny.OPTIONS, *tiny.QUICK))
def test_every_formula_of_an_unedited_network_follows_from_its_numbers(name: str) -> None:
    network = tiny.transformer(**tiny.OPTIONS[name])
    for side, layer, walk in walks(network):
        assert walk.edits == ()
        assert all(step.formula and not step.edited for step in walk.steps)
        assert check_formulas(network, side, layer, 1, walk.steps) >= 11


@pytest.mark.every_value
@pytest.mark.parametrize(
    ("name", "norm"),
    [
        *(pytest.param(*case.values, "post", marks=case.marks) for case in edits.TRANSFORMER_NAMES),
        *(
            pytest.param(name, "pre", marks=[pytest.mark.slow] * (name not in edits.ONE_OF_EACH_KIND))
            for name in edits.TRANSFORMER
        ),
    ],
)
def test_no_formula_of_an_edited_network_contradicts_its_numbers(
    name: str, norm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = edits.edited_transformer(name, monkeypatch, norm=norm)
    for side, layer, walk in walks(network):
        check_formulas(network, side, layer, 1, walk.steps)
        if name != "not contiguous":  # the same numbers in another order of memory
            assert transformer_difference(network) in walk.edits


def steps_of(network: Transformer, part: str, side: str = "decoder") -> dict[str, Any]:
    walk = next(walk for at, _, walk in walks(network) if at == side)
    return {step.name: step for step in walk.steps if step.part == part}


def without_formula(steps: dict[str, Any]) -> list[str]:
    return [name for name, step in steps.items() if step.formula is None]


def test_another_activation_has_its_numbers_and_no_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.narrow(nn.functional.gelu(self.widen(x)))  # type: ignore[no-any-return]

    monkeypatch.setattr(FeedForward, "forward", forward)
    network = tiny.transformer()
    steps = steps_of(network, "feed-forward")
    assert without_formula(steps) == ["activation"]
    widened = torch.tensor(steps["widen"].values)
    torch.testing.assert_close(torch.tensor(steps["activation"].values), nn.functional.gelu(widened), rtol=0, atol=1e-6)
    assert without_formula(steps_of(network, "self-attention")) == []
    _, _, walk = next(walks(network))
    assert walk.edits == ("FeedForward.forward was edited",)


def test_learnt_positions_leave_no_sinusoid(monkeypatch: pytest.MonkeyPatch) -> None:
    network = tiny.transformer()
    network.learnt = nn.Embedding(64, 16)

    def embed(self: Any, embedding: nn.Module, ids: Tensor, positions: Tensor) -> Tensor:
        return embedding(ids) * self.embedding_scale + self.learnt(positions)  # type: ignore[no-any-return]

    monkeypatch.setattr(Transformer, "embed", embed)
    walk = next(walks(network))[2]
    assert [(step.name, step.formula) for step in walk.steps[:2]] == [
        ("token embedding", "e = E[5]"),
        ("layer input", None),
    ]
    expected = embed(network, network.source_embedding, torch.tensor([5]), torch.tensor([2]))
    torch.testing.assert_close(torch.tensor(walk.steps[1].values), expected[0].double(), check_dtype=False)
    assert walk.edits == ("the network has other modules inside: learnt", "Transformer.embed was edited")


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_another_norm_goes_by_its_name_and_is_marked(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer, "norm", lambda config: nn.RMSNorm(config.d_model))
    network = tiny.transformer(norm=norm)
    step = steps_of(network, "self-attention")["norm"]
    assert (step.formula, step.edited) == ("n = RMSNorm(x)" if norm == "pre" else "x' = RMSNorm(r)", True)
    marked = {each.name for _, _, walk in walks(network) for each in walk.steps if each.edited}
    assert marked == {"norm", *(["final norm"] if norm == "pre" else [])}


def test_rotated_queries_leave_the_softmax_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    network = edits.edited_transformer("a patched method", monkeypatch)
    assert without_formula(steps_of(network, "self-attention")) == ["query", "keys", "values"]
    assert without_formula(steps_of(network, "cross-attention")) == []


def test_a_layer_that_two_numbers_share_shows_the_focused_call() -> None:
    network = tiny.transformer()
    network.decoder[1] = network.decoder[0]
    for side, layer, walk in walks(network):
        assert check_formulas(network, side, layer, 1, walk.steps) >= 11


def test_heads_that_share_keys_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Multi-query attention (Shazeer 2019)."""
    split = MultiHeadAttention.query_key_value

    def shared(self: Any, x: Tensor, scope: Any) -> tuple[Tensor, ...]:
        query, key, value = split(self, x, scope)
        return query, key[:, :1], value[:, :1]

    monkeypatch.setattr(MultiHeadAttention, "query_key_value", shared)
    steps = steps_of(tiny.transformer(), "self-attention")
    assert "query" not in steps
    assert {"output projection", "residual", "norm"} <= set(steps)


def test_edited_softmax_has_no_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    explicit = MultiHeadAttention.attend_explicit

    def sharper(self: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Any:
        attended = explicit(self, query, key, value, mask)
        weights = attended.weights**2 / (attended.weights**2).sum(-1, keepdim=True)
        return attended._replace(weights=weights, context=weights @ value)

    monkeypatch.setattr(MultiHeadAttention, "attend_explicit", sharper)
    steps = steps_of(tiny.transformer(), "self-attention")
    assert {"scores", "softmax", "context"} <= set(without_formula(steps))
    assert "masked scores" not in steps, "this code masks them; the edited code need not"
    assert sum(steps["softmax"].values) == pytest.approx(1, abs=1e-5)
