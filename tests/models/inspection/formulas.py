"""Checks a walkthrough against itself: each formula is computed from the numbers of the steps before it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from models.decoding.options import TokenRules
from models.inspection.results import Walkthrough, WalkthroughStep
from models.inspection.selection import WalkthroughFocus
from models.inspection.walkthrough import walkthrough
from models.networks.transformer import Transformer
from tests.models.inspection.in_numpy import ACTIVATIONS

Array = npt.NDArray[np.float64]


def array(values: Sequence[Any]) -> Array:
    rows = [tuple(row) if isinstance(row, tuple) else -math.inf if row is None else row for row in values]
    return np.array(rows, dtype=np.float64)


def matrix(module: Any, rows: slice = slice(None)) -> tuple[Array, Array | float]:
    """Weight [O, I] and bias of a linear map."""
    bias = 0.0 if module.bias is None else module.bias.detach().double().numpy()[rows]
    return module.weight.detach().double().numpy()[rows], bias


def normed(module: Any, x: Array) -> Array:
    middle = x - x.mean()
    weight, bias = matrix(module)
    shifted: Array = middle / np.sqrt((middle**2).mean() + module.eps) * weight + bias
    return shifted


def check_formulas(network: Transformer, side: str, number: int, head: int, steps: Sequence[WalkthroughStep]) -> int:
    """Asserts that the values of each step that has a formula follow from it; returns how many were checked."""
    layer: Any = (network.encoder if side == "encoder" else network.decoder)[number]
    sublayers = {
        "self-attention": ("attention", "around_attention"),
        "cross-attention": ("cross_attention", "around_cross"),
        "feed-forward": ("feed_forward", "around_feed_forward"),
    }
    known: dict[str, Array] = {}
    checked = 0
    for step in steps:
        values, formula = array(step.values), step.formula
        module, around = (getattr(layer, name) for name in sublayers.get(step.part, ("attention", "around_attention")))
        expected: Array | None = None
        if formula is None:
            pass
        elif step.name == "token embedding":
            table: Any = network.source_embedding if side == "encoder" else network.target_embedding
            expected = table.weight.detach().double().numpy()[int(formula[len("e = E[") : -1])]
        elif step.name == "scale":
            expected = float(formula.split()[2]) * known["token embedding"]
        elif step.name == "position":
            frequency = 10_000.0 ** (-np.arange(0, len(values), 2) / len(values))
            angle = int(formula[len("p = PE[") : -1]) * frequency
            expected = np.stack([np.sin(angle), np.cos(angle)], axis=int(network.config.positions == "interleaved"))
            expected = expected.flatten()
        elif step.name == "sum":
            expected = known["scale"] + known["position"]
        elif step.name == "norm":
            read = known["residual"] if "(r)" in formula else known["x"]
            if "LayerNorm" in formula:
                expected = normed(around.norm, read)
        elif step.name == "query":
            rows = slice(head * module.head_width, (head + 1) * module.head_width)
            weight, bias = matrix(module.projection, rows)
            expected = weight @ known[formula.split()[2].partition("·")[0]] + bias
        elif step.name == "scores":
            expected = float(formula.split()[2]) * known["keys"] @ known["query"]
        elif step.name == "softmax":
            exponents = np.exp(known["masked scores"])
            expected = exponents / exponents.sum()
        elif step.name == "context":
            expected = known["softmax"] @ known["values"]
        elif step.name == "output projection":
            weight, bias = matrix(module.output)
            expected = weight @ known["heads concatenated"] + bias
        elif step.name == "widen":
            weight, bias = matrix(module.widen)
            expected = weight @ known[formula.split()[2].partition("·")[0]] + bias
        elif step.name == "activation":
            expected = ACTIVATIONS[formula[len("a = ") : -len("(w)")]](known["widen"])
        elif step.name == "narrow":
            weight, bias = matrix(module.narrow)
            expected = weight @ known["activation"] + bias
        elif step.name == "residual":
            expected = known["x"] + known["output projection" if "attention" in step.part else "narrow"]
        elif step.name == "logits":
            output: Any = network.target_embedding if network.output is None else network.output
            expected = output.weight.detach().double().numpy()[list(step.indices or ())] @ known["x"]
            expected += (
                0.0 if network.output_bias is None else array(network.output_bias.tolist())[list(step.indices or ())]
            )
        if expected is not None:
            np.testing.assert_allclose(values, expected, rtol=0, atol=3e-5, err_msg=f"{step.part}: {formula}")
            checked += 1
        known[step.name] = values
        if step.name == "norm" and around.before:
            known["n"] = values
        if step.name in ("sum", "layer input", "final norm") or step.name == ("residual" if around.before else "norm"):
            known["x"] = values
    return checked


def walks(network: Transformer, head: int = 1) -> Iterator[tuple[str, int, Walkthrough]]:
    """Side, layer and walkthrough of every layer, with all numbers."""
    for side, layers in (("encoder", network.encoder), ("decoder", network.decoder)):
        for number in range(len(layers)):
            focus = WalkthroughFocus(side, number, head, 2, most=99, most_keys=99)  # type: ignore[arg-type]
            yield side, number, walkthrough(network, (3, 4, 5, 6, 7), (1, 9, 10, 11), focus, TokenRules(None))
