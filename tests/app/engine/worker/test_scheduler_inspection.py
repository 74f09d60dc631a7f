"""Gates and scores out of a scheduler over real tiny networks, held against the networks themselves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from app.engine.output.token_views import float_array
from app.engine.protocol import messages as m
from app.engine.worker.scheduler import Scheduler
from models import checkpoint as checkpoints
from models.backends.memory import out_of_memory
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.inspection.selection import GateSelection
from models.interface import Prompt
from models.networks.loading import load_network
from tests.app.engine.scheduler_driver import FAR, fails
from tests.request_builders import decode_message, inspect_attention

TOKENS = [7, 11, 8, 3, 5]
TRACE = m.InspectGates(7, "tiny-lyrics", TOKENS, GateSelection(units=(2, 0)), 3, 1000)


def ask(scheduler: Scheduler, message: Any) -> Any:
    return (scheduler.handle(message) or scheduler.step())[0]


def trace(scheduler: Scheduler, **change: Any) -> Any:
    inner = {name: change.pop(name) for name in GateSelection.__struct_fields__ if name in change}
    selection = msgspec.structs.replace(TRACE.selection, **inner)
    return ask(scheduler, msgspec.structs.replace(TRACE, selection=selection, **change))


def test_gates_equal_pytorch(scheduler: Scheduler, tiny_checkpoints: Path) -> None:
    network = load_network(checkpoints.read(tiny_checkpoints / "tiny-lyrics"))
    result = trace(scheduler)
    assert isinstance(result, m.GatesInspected)
    assert (result.id, result.cell, result.depth, result.hidden) == (7, "gru", 1, 32)
    assert (result.layers, result.units, list(result.values)) == ([0], [[2, 0]], ["r", "z", "n", "h"])
    with torch.inference_mode():
        hidden, _ = network.recurrent(network.inputs(torch.tensor([TOKENS])))
        log_probabilities = network(torch.tensor([TOKENS]))[0][0].index_fill(1, torch.tensor([0]), -torch.inf)
        log_probabilities = log_probabilities.log_softmax(-1)
    np.testing.assert_allclose(float_array(result.values["h"])[0], hidden[0][:, [2, 0]], rtol=0, atol=1e-6)
    change = hidden[0].diff(dim=0, prepend=torch.zeros(1, 32)).abs().mean(dim=1)
    np.testing.assert_allclose(result.summaries[0].hidden_change, change, rtol=0, atol=1e-6)
    came = [log_probabilities[t, token].item() for t, token in enumerate(TOKENS[1:])]
    np.testing.assert_allclose(float_array(result.expected.log_probabilities), came, rtol=0, atol=1e-5)
    assert result.expected.tokens == log_probabilities.topk(3).indices.tolist()


def test_most_varied_units_are_selected_on_the_device(scheduler: Scheduler) -> None:
    whole = float_array(trace(scheduler, units=tuple(range(32)), max_values=5000).values["h"])[0]
    result = trace(scheduler, units=4)
    assert result.units == [sorted(range(32), key=lambda unit: -whole[:, unit].astype(np.float64).var())[:4]]


def test_a_score_is_that_of_the_decoder(scheduler: Scheduler, tiny_checkpoints: Path) -> None:
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    source, rules = [4, 5, 6, 3], TokenRules(checkpoint.config.eos, checkpoint.config.suppressed)
    options = DecodingOptions(max_new_tokens=20, beam_size=4, n_best=4)
    for hypothesis in decode(load_network(checkpoint), rules, [Prompt(tuple(source), (2,))], options)[0]:
        target = [2, *hypothesis.tokens, *([3] if hypothesis.finished else [])]
        result = ask(scheduler, m.ScoreTokens(8, "tiny-de-en", source, target, 0, True))
        assert isinstance(result, m.TokensScored)
        total = float_array(result.expected.log_probabilities).sum(dtype=np.float64)
        assert total == pytest.approx(hypothesis.log_probability, abs=1e-4)


def test_the_rules_may_be_left_out(scheduler: Scheduler) -> None:
    by_rules, raw = (
        ask(scheduler, m.ScoreTokens(8, "tiny-de-en", [4, 3], [2, 1, 3], 0, by_rules)).expected
        for by_rules in (True, False)
    )
    assert np.isneginf(float_array(by_rules.log_probabilities)).tolist() == [True, False]  # 1 is the unknown token
    assert np.isfinite(float_array(raw.log_probabilities)).all()
    assert float_array(raw.log_probabilities)[1] < float_array(by_rules.log_probabilities)[1]


def test_impossible_inspection_is_refused(scheduler: Scheduler) -> None:
    refused = trace(
        scheduler,
        units=(
            2,
            0,
        ),
        max_values=39,
    )
    assert (refused.code, refused.field) == ("invalid_request", "units")
    assert refused.reason == (
        'This answer would hold 40 gate values and the limit is 39: "units": 1 would fit, or fewer layers or gates.'
    )
    assert "send a shorter text" in trace(scheduler, max_values=19).reason
    assert isinstance(trace(scheduler, max_values=40), m.GatesInspected)
    for change, field in (({"gates": ("f",)}, "gates"), ({"layers": (1,)}, "layers"), ({"units": (-33,)}, "units")):
        assert (trace(scheduler, **change).code, trace(scheduler, **change).field) == ("invalid_request", field)
    assert "tiny-de-en has no gates to show; ask a lyricist instead." in trace(scheduler, model="tiny-de-en").reason
    assert trace(scheduler, model="nobody").code == "unknown_model"


def test_one_inspection_of_any_kind_between_two_steps(scheduler: Scheduler) -> None:
    scheduler.handle(decode_message(1, "tiny-lyrics", [], [1], FAR, 50, streamed=True))
    scheduler.handle(TRACE)
    scheduler.handle(m.ScoreTokens(8, "tiny-lyrics", [], [7, 8], 0, True))
    scheduler.handle(inspect_attention(9, "tiny-de-en", [5, 3], [2], [3]))
    scheduler.handle(m.ScoreTokens(10, "tiny-lyrics", [], [7, 8], 0, True))
    scheduler.handle(msgspec.structs.replace(TRACE, id=11, deadline=time.monotonic() - 1))
    scheduler.handle(m.Cancel(10))
    seen = [[type(reply) for reply in scheduler.step()] for _ in range(5)]
    assert seen == [[m.Tokens, kind] for kind in (m.GatesInspected, m.TokensScored, m.AttentionInspected, m.Failed)] + [
        [m.Tokens]
    ]


def test_inspection_does_not_change_running_requests(scheduler: Scheduler) -> None:
    def written(*looks: m.InspectGates) -> list[int]:
        scheduler.handle(decode_message(1, "tiny-lyrics", [], [1, 5], FAR, 30, temperature=0.9, seed=4))
        replies: list[Any] = []
        for look in looks:
            scheduler.handle(look)
        while scheduler.busy:
            replies += scheduler.step()
        (finished,) = [reply for reply in replies if isinstance(reply, m.Finished)]
        return finished.hypotheses[0].tokens

    alone = written()
    assert written(*(msgspec.structs.replace(TRACE, id=number) for number in range(10, 20))) == alone


def test_failing_inspection_fails_alone(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    network = scheduler.queues["tiny-lyrics"].model.network
    error = RuntimeError("the gates are stuck")
    assert not out_of_memory(error)
    fails(monkeypatch, network, "gates", 1, error)
    broken = trace(scheduler)
    assert (broken.code, broken.reason) == ("engine_failed", "Looking into this sentence failed: the gates are stuck.")
    assert isinstance(trace(scheduler), m.GatesInspected)
