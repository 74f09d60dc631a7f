"""Looks inside a network on its device: the gates of a text, and how probable one is. Attention is `runner`'s."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from app.engine import messages as m
from app.engine.numbers import require_numbers
from models import gate_conventions, scoring
from models.gates import Gated, GateTrace, Selection, check, gate_trace
from models.inspection.selection import SelectionError
from models.options import TokenRules


def look(network: Any, rules: TokenRules, request: m.Trace | m.Score) -> m.Traced | m.Scored:
    """SelectionError if the network does not have what is asked for, or the answer would hold too many values;
    NoNumbers where it computes none."""
    if isinstance(request, m.Trace):
        found = _trace(network, request)
        expected = scoring.expected(network, found.features, request.tokens[1:], rules, request.top_k)
        require_numbers(request.model, *found.values.values(), found.features)
        return _traced(request.id, found, _sound(request, expected))
    asked = rules if request.by_rules else None
    scored = scoring.score(network, request.source, request.target, asked, request.top_k)
    return m.Scored(request.id, _sound(request, scored))


def _sound(request: m.Trace | m.Score, expected: scoring.Expected) -> m.Expected:
    require_numbers(request.model, expected.entropies, logits=expected.log_probabilities)
    return _expected(expected)


def _trace(network: Any, request: m.Trace) -> GateTrace:
    if not isinstance(network, Gated):
        name = m.plain_name(request.model)
        raise SelectionError(f"{name} has no gates to show; ask a lyricist instead.", "model")
    selection = Selection(
        None if request.gates is None else tuple(request.gates),
        None if request.layers is None else tuple(request.layers),
        request.most_varied if request.units is None else tuple(request.units),
    )
    names, layers, units = check(network.gate_shape, selection)
    sizes = len(names), len(layers), units, len(request.tokens)
    if problem := gate_conventions.refusal(*sizes, request.max_values):
        raise SelectionError(problem, "units")
    return gate_trace(network, request.tokens, selection)


def _traced(request: int, found: GateTrace, expected: m.Expected) -> m.Traced:
    return m.Traced(
        id=request,
        cell=found.shape.cell,
        depth=found.shape.layers,
        hidden=found.shape.hidden,
        layers=list(found.layers),
        units=[list(each) for each in found.units],
        values={name: _values(each) for name, each in found.values.items()},
        mean=_by_layer([each.mean for each in found.summaries]),
        low=_by_layer([each.low for each in found.summaries]),
        high=_by_layer([each.high for each in found.summaries]),
        hidden_change=_values(torch.stack([each.hidden_change for each in found.summaries])),
        expected=expected,
    )


def _by_layer(layers: Iterable[Mapping[str, Tensor]]) -> dict[str, m.Values]:
    """name -> [layers, T]."""
    each = list(layers)
    return {name: _values(torch.stack([layer[name] for layer in each])) for name in each[0]}


def _expected(found: scoring.Expected) -> m.Expected:
    return m.Expected(
        _values(found.log_probabilities),
        found.ranks.tolist(),
        _values(found.entropies),
        found.tokens.tolist(),
        _values(found.token_log_probabilities),
    )


def _values(tensor: Tensor) -> m.Values:
    return m.Values(list(tensor.shape), tensor.float().numpy().astype("<f4", copy=False).tobytes())
