"""Answers that would be too large are refused with what would fit, and that does fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import errors
from app.api.inspection.attention_request import AttentionRequest
from app.engine.input_processor import check_attention_size
from app.engine.interface import AttentionQuery, GatesQuery
from app.engine.tasks import gates_task
from models import checkpoint as checkpoints
from tests.request_builders import changed, gates_query

# of tiny-de-en (2 + 2 layers of 4 heads) with 5 source tokens and 3 of the decoder: 200 + 72 + 120 weights
ALL, S, T = 392, 5, 3
ONE_MAP = {"kinds": ["cross"], "layers": [0], "heads": [0]}
OF_HEADS = {"reduce": {"heads": "mean", "layers": "none"}}
MEANS = {"reduce": {"heads": "mean", "layers": "mean"}}


def attention_query_of(fields: dict[str, Any], limit: int) -> AttentionQuery:
    return AttentionRequest(source="ich", **fields).query(limit, as_text=False)


@pytest.mark.parametrize(
    ("fields", "limit", "values", "suggest"),
    [
        ({}, ALL - 1, ALL, {"encoding": "u16"}),
        ({}, ALL // 4, ALL, {"encoding": "u16"}),
        ({}, ALL // 4 - 1, ALL, MEANS),
        ({"encoding": "u8"}, ALL // 4 - 1, ALL, OF_HEADS),
        ({"encoding": "u8"}, 24, ALL, MEANS),
        ({"encoding": "u8"}, 12, ALL, {"kinds": ["cross"], **OF_HEADS}),
        ({"encoding": "u8"}, 3, ALL, {"kinds": ["decoder"], **MEANS}),
        ({"encoding": "u8"}, 2, ALL, None),
        (
            {"kinds": ["decoder", "encoder"], "reduce": MEANS["reduce"]},
            8,
            34,
            {"encoding": "u16", "kinds": ["decoder"]},
        ),
        ({**ONE_MAP, "encoding": "u8", "include": ["rollout", "steps"]}, 39, 40, {"include": ["steps"]}),
        ({"encoding": "u8", "reduce": {"heads": "max"}}, 24, 98, {"reduce": {"heads": "max", "layers": "mean"}}),
        ({"include": ["rollout"]}, 97, ALL + 40, MEANS),
        ({"include": ["rollout"]}, 60, ALL + 40, {**MEANS, "include": []}),
        ({"kinds": ["encoder"]}, 50, 200, {"encoding": "u16"}),
        ({"kinds": ["decoder", "encoder"], "encoding": "u8"}, 5, 272, {"kinds": ["decoder"], **OF_HEADS}),
    ],
)
def test_suggested_limit_is_the_first_that_fits(
    tiny_checkpoints: Path, fields: dict[str, Any], limit: int, values: int, suggest: dict[str, Any] | None
) -> None:
    config = checkpoints.read_config(tiny_checkpoints / "tiny-de-en")
    with pytest.raises(errors.AnswerTooLarge) as refused:
        check_attention_size(config, attention_query_of(fields, limit), S, T)
    result = refused.value
    assert (result.values, result.suggest) == (values, suggest)
    if suggest is not None:
        check_attention_size(config, attention_query_of({**fields, **suggest}, limit), S, T)


@pytest.mark.parametrize(
    ("fields", "suggest"),
    [
        ({}, {"kinds": ["cross"], **MEANS}),
        ({"layers": [0], "heads": [-1]}, {"kinds": ["cross"]}),
        ({"layers": [0], "include": ["rollout"]}, {"kinds": ["cross"], **OF_HEADS, "include": []}),
    ],
)
def test_format_of_one_map_suggests_one_map(
    tiny_checkpoints: Path, fields: dict[str, Any], suggest: dict[str, Any]
) -> None:
    config = checkpoints.read_config(tiny_checkpoints / "tiny-de-en")
    request = AttentionRequest(source="ich", **fields).query(S * T, as_text=True)
    with pytest.raises(errors.AnswerTooLarge) as refused:
        check_attention_size(config, replace(request, one_map=True), S, T)
    assert refused.value.suggest == suggest


@pytest.mark.parametrize(("likely", "suggest"), [(0, OF_HEADS), (6, MEANS)])
def test_suggestion_before_the_translation_is_an_estimate(
    tiny_checkpoints: Path, likely: int, suggest: dict[str, Any]
) -> None:
    config = checkpoints.read_config(tiny_checkpoints / "tiny-de-en")
    with pytest.raises(errors.AnswerTooLarge) as refused:
        check_attention_size(config, attention_query_of({"encoding": "u8"}, 31), S, 1, likely)
    assert refused.value.suggest == suggest


def test_refusal_names_the_counted_values(tiny_checkpoints: Path) -> None:
    config = checkpoints.read_config(tiny_checkpoints / "tiny-de-en")
    with pytest.raises(errors.AnswerTooLarge) as weights:
        check_attention_size(config, attention_query_of({"include": ["rollout"]}, 300), S, T)
    assert (weights.value.field, weights.value.limit) == ("kinds", 300)
    assert weights.value.message == (
        'This answer would hold 432 weights and the limit is 300; take them as bytes ("encoding": "u16"), select fewer'
        " kinds, layers or heads, reduce them to their mean, leave out the rollout, or send a shorter text."
    )
    with pytest.raises(errors.AnswerTooLarge) as digits:
        check_attention_size(
            config, attention_query_of({**ONE_MAP, "encoding": "f32", "include": ["rollout"]}, 39), S, T
        )
    assert (digits.value.field, digits.value.limit) == ("include", 39)
    assert digits.value.message == (
        "This answer would hold 40 numbers in its rollout, always digits, and the limit is 39; leave it out or send a"
        " shorter text."
    )


@pytest.mark.parametrize(
    ("query", "values", "suggest"),
    [
        (gates_query("ab", units=16, max_values=127), 128, {"units": 15}),
        (gates_query("ab", units=(9, 8, 7), max_values=17), 24, {"units": [9, 8]}),
        (
            gates_query("ab", gates=("h", "z"), units=(9, 8), max_values=3),
            8,
            {"units": [9], "gates": ["h"], "layers": [-1]},
        ),
        (gates_query("ab", units=2, max_values=2), 16, {"units": 1, "gates": ["h"], "layers": [-1]}),
        (gates_query("ab", units=2, max_values=1), 16, None),
        (
            gates_query("ab", gates=("z", "n"), layers=(0,), max_values=3),
            64,
            {"units": 1, "gates": ["z"], "layers": [0]},
        ),
    ],
)
def test_fewer_units_are_suggested_and_fewer_gates_where_not_one_fits(
    tiny_checkpoints: Path, query: GatesQuery, values: int, suggest: dict[str, Any] | None
) -> None:
    config = checkpoints.read_config(tiny_checkpoints / "tiny-lyrics")  # a gru of one layer: r, z, n and h
    with pytest.raises(errors.AnswerTooLarge) as refused:
        gates_task.check_gates_size(config, query, 2)
    result = refused.value
    assert (result.values, result.limit, result.suggest, result.field) == (values, query.max_values, suggest, "units")
    if suggest is not None:
        lists = {name: tuple(field) if isinstance(field, list) else field for name, field in suggest.items()}
        gates_task.check_gates_size(config, changed(query, **lists), 2)
