"""A scheduler's models: loading, refusing, unloading, and inspecting their attention."""

from __future__ import annotations

import time
import weakref
from pathlib import Path
from typing import Any

import msgspec
import torch

from app.engine.protocol import messages as m
from app.engine.worker.scheduler import Scheduler
from models import checkpoint as checkpoints
from tests.app.engine.scheduler_driver import FAR, run
from tests.request_builders import decode_message, inspect_attention


def test_one_inspection_between_two_steps_and_none_if_cancelled(scheduler: Scheduler) -> None:
    scheduler.handle(decode_message(1, "tiny-lyrics", [], [1], FAR, 50, streamed=True))
    look = inspect_attention(10, "tiny-de-en", [5, 6, 3], [2, 4], [4, 3])
    for number in range(10, 15):
        assert scheduler.handle(msgspec.structs.replace(look, id=number)) == []
    scheduler.handle(msgspec.structs.replace(look, id=20, deadline=time.monotonic() - 1))
    scheduler.handle(m.Cancel(11))
    seen = [[(type(r), getattr(r, "id", 1)) for r in scheduler.step()] for _ in range(6)]
    step = (m.Tokens, 1)
    assert seen == [
        *([step, (m.AttentionInspected, number)] for number in (10, 12, 13, 14)),
        [step, (m.Failed, 20)],
        [step],
    ]


def test_unload_frees_a_model_and_fails_its_requests(scheduler: Scheduler) -> None:
    network = weakref.ref(scheduler.queues["tiny-de-en"].model.network)
    for number in range(10):  # eight run, two wait
        scheduler.handle(decode_message(number, "tiny-de-en", [5, 3], [2], FAR, 30))
    scheduler.handle(decode_message(10, "tiny-lyrics", [], [1], FAR, 3))
    scheduler.step()
    scheduler.handle(inspect_attention(11, "tiny-de-en", [5, 3], [2], [3]))
    replies = scheduler.handle(m.Unload("tiny-de-en"))
    assert {(r.id, r.code) for r in replies} == {  # type: ignore[union-attr]
        (number, "engine_unavailable") for number in (*range(10), 11)
    }
    assert network() is None
    assert scheduler.handle(m.Unload("tiny-de-en")) == []
    assert [r.id for r in run(scheduler)] == [10]


def test_impossible_attention_is_refused_with_a_reason(scheduler: Scheduler) -> None:
    def ask(**change: Any) -> Any:
        request = inspect_attention(
            **{"number": 7, "model": "tiny-de-en", "source": [5, 6, 3], "inputs": [2, 4], "outputs": [4, 3], **change}
        )
        return (scheduler.handle(request) or scheduler.step())[0]

    answer = ask()
    assert isinstance(answer, m.AttentionInspected)
    assert answer.maps["cross"].shape == (2, 4, 2, 3)
    weights = torch.frombuffer(bytearray(answer.maps["cross"].weights), dtype=torch.float32).view(2, 4, 2, 3)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 4, 2), atol=1e-6)
    assert ask(layers=(-1,)).maps["cross"].layers == (1,)
    assert "There is no layer 2: this model has 2" in ask(layers=(2,)).reason
    assert "There is no head -5" in ask(heads=(-5,)).reason
    assert (ask(layers=(2,)).field, ask(heads=(-5,)).field) == ("layers", "heads")
    assert "no attention to show" in ask(model="tiny-lyrics").reason
    assert ask(model="nobody").code == "unknown_model"


def test_a_bad_checkpoint_is_reported_and_the_others_stay(scheduler: Scheduler, tmp_path: Path) -> None:
    (reply,) = scheduler.handle(m.Load("broken", str(tmp_path)))
    assert isinstance(reply, m.LoadFailed)
    assert "is not a checkpoint" in reply.reason
    scheduler.handle(decode_message(1, "tiny-lyrics", [], [1], FAR, 2))
    assert [type(r) for r in run(scheduler)] == [m.Finished]


def test_a_folder_that_changed_since_the_front_end_read_it_is_refused(
    scheduler: Scheduler, tiny_checkpoints: Path
) -> None:
    """After a retraining, the tokens of the old tokenizer would mean something else to the new network."""
    folder = tiny_checkpoints / "tiny-lyrics"
    files = dict(checkpoints.read(folder).config.files)
    (same,) = scheduler.handle(m.Load("again", str(folder), files))
    (other,) = scheduler.handle(m.Load("other", str(folder), {**files, checkpoints.WEIGHTS: "0" * 64}))
    assert isinstance(same, m.Loaded)
    assert isinstance(other, m.LoadFailed)
    assert "has changed since the server read it: reload the model" in other.reason
