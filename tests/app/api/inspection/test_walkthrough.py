"""POST /walkthrough."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from app.api.inspection.schemas import STEP_REASONS, WalkedStep
from models.decoding.options import TokenRules
from models.inspection.results import WalkthroughStep
from models.inspection.selection import WalkthroughFocus
from models.inspection.walkthrough import walkthrough
from models.networks.transformer import Transformer, TransformerConfig
from tests.app.api.client import Client
from tests.request_builders import walkthrough_query


def test_the_answer() -> None:
    client = Client()
    fields = {"source": "bier", "target": "beer", "side": "decoder", "layer": 1, "head": 0, "position": -1}
    answer = client.post("/walkthrough", json=fields | {"values": 4, "places": 9, "model": "tiny-de-en"})
    assert answer.status_code == 200
    assert client.engine.requests == [
        walkthrough_query(
            "bier", "beer", "tiny-de-en", side="decoder", layer=1, head=0, position=-1, most=4, most_keys=9
        )
    ]
    body = answer.json()
    assert (body["layer"], body["head"], body["position"], body["forced"]) == (1, 0, 1, True)
    assert [token["piece"] for token in body["input_tokens"]] == ["<s>", "▁beer"]
    assert body["steps"] == [
        {
            "part": "self-attention",
            "name": "masked scores",
            "formula": "s where it may be read",
            "shape": [2],
            "values": [0.5, None],
            "why": STEP_REASONS["masked scores"],
            "edited": False,
        },
        {
            "part": "output",
            "name": "probabilities",
            "formula": "softmax",
            "shape": [9],
            "values": [0.75],
            "indices": [5],
            "texts": ["beer"],
            "why": STEP_REASONS["probabilities"],
            "edited": False,
        },
    ]
    assert body["edits"] == []


def test_an_edited_step_has_no_formula_and_no_reason() -> None:
    """The reason of a step would be that of the one that it replaced."""
    step = WalkedStep.of(WalkthroughStep("feed-forward", "activation", None, (2,), (0.5, 0.0), edited=True))
    assert (step.formula, step.why, step.edited) == (None, None, True)
    renamed = WalkthroughStep("self-attention", "norm", "n = RMSNorm(x)", (1,), (0.5,), edited=True)
    assert (WalkedStep.of(renamed).formula, WalkedStep.of(renamed).why) == ("n = RMSNorm(x)", None)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_walkthrough_step_has_its_explanation(norm: Any) -> None:
    shape = TransformerConfig(
        source_vocabulary=9, target_vocabulary=9, d_model=4, heads=1, head_width=4, d_ff=8, norm=norm
    )
    network, result = Transformer(shape).eval(), set()
    with torch.no_grad():
        for side, layer in (("encoder", 0), ("encoder", -1), ("decoder", -1)):
            rules = TokenRules(3, (0,))
            shown = walkthrough(network, [5, 3], [2], WalkthroughFocus(side, layer), rules)  # type: ignore[arg-type]
            result |= {step.name for step in shown.steps}
    assert result <= STEP_REASONS.keys()
    assert STEP_REASONS.keys() - result <= {"final norm", "norm"}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"source": " "}, '"source" is empty; send at least one character that is not white space.'),
        ({"target": ""}, '"target" is empty; leave it out to see the model\'s own translation.'),
        ({"side": "both"}, '"side" is "both"; it takes "encoder" or "decoder".'),
        ({"values": 65}, '"values" is 65; it takes at most 64.'),
        ({"head": "first"}, '"head" is "first"; it takes a whole number.'),
    ],
)
def test_refusals(fields: dict[str, Any], sentence: str) -> None:
    client = Client()
    answer = client.post("/walkthrough", json={"source": "bier"} | fields)
    assert (answer.status_code, answer.json()["error"]) == (422, sentence)
    assert client.engine.calls == 0
