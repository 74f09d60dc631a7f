"""The search without some heads advances between the steps of other requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.engine import input_processor
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelVersion
from app.engine.worker.inspection import LATE_MESSAGE, AblationSearch
from app.engine.worker.scheduler import Scheduler
from models import checkpoint as checkpoints
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.inspection.ablation import without_heads
from models.inspection.selection import Head
from models.interface import Prompt
from models.networks.loading import load_network
from tests.app.engine.fake_clock import Clock
from tests.app.engine.scheduler_driver import FAR, fails
from tests.request_builders import decode_message, inspect_attention

SOURCE, INPUTS, OUTPUTS = [4, 5, 6, 3], [2, 7], [7, 3]
MASKED = tuple(Head(kind, layer, head) for kind in ("cross", "encoder") for layer in range(2) for head in range(3))


def attend(beam_size: int = 1, **question: Any) -> m.InspectAttention:
    decoding = DecodingOptions(max_new_tokens=12, beam_size=beam_size)
    return inspect_attention(9, "tiny-de-en", SOURCE, INPUTS, OUTPUTS, masked=MASKED, decoding=decoding, **question)


def until(scheduler: Scheduler, request: int) -> tuple[Any, list[Any]]:
    others: list[Any] = []
    for _ in range(100):
        for reply in scheduler.step():
            if getattr(reply, "id", None) == request:
                return reply, others
            others.append(reply)
    raise AssertionError("no answer")


@pytest.mark.every_value
@pytest.mark.parametrize("prefix", [[], [8, 9]])
@pytest.mark.parametrize("beam", [1, 3])
def test_ablated_translation_equals_decoding_and_keeps_its_prefix(
    scheduler: Scheduler, tiny_checkpoints: Path, prefix: list[int], beam: int
) -> None:
    scheduler.handle(attend(beam_size=beam, prefix=prefix))
    result, _ = until(scheduler, 9)
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    network = without_heads(load_network(checkpoint), [Head(each.kind, each.layer, each.head) for each in MASKED])
    rules = TokenRules(checkpoint.config.eos, checkpoint.config.suppressed)
    options = DecodingOptions(max_new_tokens=12, beam_size=beam)
    ((best, *_),) = decode(network, rules, [Prompt(tuple(SOURCE), (2, *prefix))], options)
    assert result.findings.ablation.tokens == [*prefix, *best.tokens]
    assert not scheduler.busy


def test_ablation_search_does_not_block_steps(scheduler: Scheduler) -> None:
    scheduler.handle(decode_message(1, "tiny-lyrics", [], [1], FAR, 50, streamed=True))
    scheduler.handle(attend())
    scheduler.handle(msgspec.structs.replace(attend(), id=10))
    first, before = until(scheduler, 9)
    steps = len(first.findings.ablation.tokens)
    assert steps > 2
    assert sum(isinstance(each, m.Tokens) for each in before) >= steps
    second, _ = until(scheduler, 10)
    assert second.findings == first.findings


def test_disconnect_deadline_or_unload_ends_the_ablation_search(scheduler: Scheduler, clock: Clock) -> None:
    def begun() -> None:
        scheduler.handle(msgspec.structs.replace(attend(), deadline=clock.now + 5))
        assert scheduler.step() == []
        assert scheduler.busy

    begun()
    scheduler.handle(m.Cancel(9))
    assert not scheduler.busy
    begun()
    clock.now += 6
    assert scheduler.step() == [m.Failed(9, "deadline_exceeded", LATE_MESSAGE)]
    begun()
    (failed,) = scheduler.handle(m.Unload("tiny-de-en"))
    assert isinstance(failed, m.Failed)
    assert (failed.id, failed.code) == (9, "engine_unavailable")
    assert not scheduler.busy


def test_a_search_that_breaks_fails_alone(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler.handle(attend())
    scheduler.step()
    fails(monkeypatch, AblationSearch, "step", 1, RuntimeError("the search is stuck"))
    broken, _ = until(scheduler, 9)
    assert (broken.code, broken.reason) == (
        "engine_failed",
        "Looking into this sentence failed: the search is stuck.",
    )
    scheduler.handle(attend())
    assert isinstance(until(scheduler, 9)[0], m.AttentionInspected)


def test_no_more_tokens_are_written_without_heads_than_the_model_writes(tiny_checkpoints: Path) -> None:
    read = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    edition = ModelVersion(read.folder, read.config, read.tokenizers, 1)
    most = read.config.max_new_tokens
    for limit, expected in ((1_000_000, most), (3, 3), (None, min(most, 2 * 5 + 20))):
        wanted = DecodingOptions(max_new_tokens=limit)
        decoding = input_processor.resolve_search(wanted, DecodingOptions(), edition, range(5))
        assert decoding.max_new_tokens == expected
