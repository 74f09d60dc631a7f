"""Gates and scores through a pool with a real device process."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from app import errors
from app.engine.interface import GatesQuery, ScoreQuery
from app.engine.protocol import messages as m
from tests.app.engine.engine_thread import Running, generate, spied, together
from tests.request_builders import gates_query, translation_request

pytestmark = pytest.mark.slow  # a pool of its own


def test_gates_of_a_text(running: Running) -> None:
    result = running.do(running.pool.gates(gates_query("分开后的街道", gates=("h", "z"), units=3, top_k=2)))
    assert (result.model, result.cell, result.depth, result.hidden) == ("tiny-lyrics", "gru", 1, 32)
    assert "z = 1 keeps" in result.convention
    assert [token.text for token in result.tokens] == list("分开后的街道")
    assert [(token.start, token.end) for token in result.tokens] == [(i, i + 1) for i in range(6)]
    assert {name: (value.shape, result.bounds[name]) for name, value in result.values.items()} == {
        "z": ((1, 6, 3), (0.0, 1.0)),
        "h": ((1, 6, 3), (-1.0, 1.0)),
    }
    assert result.bounds == {"r": (0.0, 1.0), "z": (0.0, 1.0), "n": (-1.0, 1.0), "h": (-1.0, 1.0)}
    assert len(result.units[0]) == 3
    assert list(result.summaries[0].mean) == ["r", "z", "n", "h"]
    assert [step.rank is None for step in result.steps] == [False] * 5 + [True]
    likeliest = result.steps[-1].top[0]
    greedy = running.do(running.pool.generate(generate(prompt="分开后的街道", temperature=0.0, max_new_tokens=1)))
    assert greedy.continuations[0].text == likeliest.text


def test_state_of_a_text_continues_its_prefix(running: Running) -> None:
    short, long = (
        running.do(running.pool.gates(gates_query(text, units=tuple(range(32))))) for text in ("分开", "分开后的")
    )
    np.testing.assert_allclose(long.values["h"][:, :2], short.values["h"], rtol=0, atol=1e-6)


def test_a_translation_scores_higher_than_its_alternatives(running: Running) -> None:
    request = translation_request("ich möchte ein bier", "de", "en", alternatives=3)
    (translation,) = running.do(running.pool.translate([request]))
    texts = [text for text in (translation.text, *translation.alternatives) if text]
    scores = [running.do(running.pool.score(ScoreQuery(text, request.text, "tiny-de-en"))) for text in texts]
    by_length = [score.log_probability / score.predicted for score in scores]
    assert by_length == sorted(by_length, reverse=True)
    assert scores[0].tokens[-1].piece == "</s>"
    assert scores[0].characters == len(texts[0])
    assert scores[0].log_probability == sum(step.log_probability for step in scores[0].steps)


def test_the_first_character_of_a_lyricist_is_given(running: Running) -> None:
    result = running.do(running.pool.score(ScoreQuery("分开后", top_k=3)))
    assert (result.steps[0], result.predicted, result.characters) == (None, 2, 2)
    assert [len(step.top) for step in result.steps[1:]] == [3, 3]
    traced = running.do(running.pool.gates(gates_query("分开后", top_k=3)))
    for after, step in zip(traced.steps, result.steps[1:], strict=False):
        assert (after.rank, [candidate.text for candidate in after.top]) == (
            step.rank,
            [candidate.text for candidate in step.top],
        )
        assert after.log_probability == pytest.approx(step.log_probability, abs=1e-5)


def test_concurrent_inspections_do_not_mix(running: Running) -> None:
    texts = ["分开后的街道", "我把灯留给", "不分", "夜里的你\n分开"]
    alone = [running.do(running.pool.gates(gates_query(text))) for text in texts]
    beside = running.do(together(*(running.pool.gates(gates_query(text)) for text in texts * 4)))
    for number, result in enumerate(beside):
        assert np.array_equal(result.values["h"], alone[number % 4].values["h"])
        assert result.steps == alone[number % 4].steps


@pytest.mark.parametrize(
    ("query", "field", "says"),
    [
        (
            gates_query("ich", model="tiny-de-en"),
            "model",
            "tiny-de-en is a translator and has no gates to show; name a",
        ),
        (gates_query("分x开€"), "text", "tiny-lyrics has never seen x €: leave them out."),
        (gates_query("分" * 2001), "text", "This text has 2,001 tokens; the model takes 2,000. Send it in parts."),
        (gates_query("分开", layers=(-2,)), "layers", "There is no layer -2: this model has 1"),
        (gates_query("分开", units=(32,)), "units", "There is no unit 32: this model has 32"),
        (
            gates_query("分开", gates=("i",)),
            "gates",
            "There is no gate i in this model: the gates of its gru are r, z, n",
        ),
        (
            gates_query("分开", units=16, max_values=127),
            "units",
            '128 gate values and the limit is 127: "units": 15 would',
        ),
        (
            ScoreQuery("i want", "ich", "tiny-lyrics"),
            "source",
            "tiny-lyrics is a lyricist and reads no source: send its",
        ),
        (
            ScoreQuery("i want", model="tiny-de-en"),
            "text",
            'tiny-de-en is a translator: send a "source" and the "target"',
        ),
        (ScoreQuery("i want xyz", "ich", "tiny-de-en"), "target", "tiny-de-en never writes xyz: leave it out, or ask"),
        (ScoreQuery("i " * 33, "ich", "tiny-de-en"), "target", "This target has 33 tokens; the model takes 32."),
        (ScoreQuery("i", "ich " * 33, "tiny-de-en"), "source", "This text has 34 tokens; the model takes 32."),
        (ScoreQuery("分"), "text", "its first character is given, and nothing follows; send two."),
        (ScoreQuery("分x"), "text", "tiny-lyrics has never seen x: leave it out."),
    ],
)
def test_refusals_come_before_anything_is_sent(
    running: Running, monkeypatch: pytest.MonkeyPatch, query: Any, field: str, says: str
) -> None:
    sent = spied(running, monkeypatch)
    ask = running.pool.gates if isinstance(query, GatesQuery) else running.pool.score
    with pytest.raises(errors.InvalidRequest) as excinfo:
        running.do(ask(query))
    assert says in excinfo.value.message
    assert excinfo.value.field == field
    assert sent == []


def test_unknown_words_have_the_probability_of_the_unknown_token(running: Running) -> None:
    result = running.do(running.pool.score(ScoreQuery("i want xyz", "ich", "tiny-de-en", by_rules=False)))
    assert result.tokens[2].text == "xyz"
    assert -30 < result.steps[2].log_probability < 0


def test_inspection_requests_are_counted_and_have_deadlines(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = spied(running, monkeypatch)

    def count(reason: str) -> float:
        name, labels = "parlance:request_success_total", {"model_name": "tiny-lyrics", "device": "cpu"}
        return running.pool.metrics.registry.get_sample_value(name, {**labels, "finished_reason": reason}) or 0.0

    before = count("gates"), count("score")
    running.do(running.pool.gates(gates_query("分开")))
    running.do(running.pool.score(ScoreQuery("分开")))
    assert (count("gates"), count("score")) == (before[0] + 1, before[1] + 1)
    assert [type(message) for message in sent] == [m.InspectGates, m.ScoreTokens]
    assert all(message.deadline > time.monotonic() for message in sent)
