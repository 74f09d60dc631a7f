"""Requests with terms, bans and penalties, and beams of many widths, in the slots of one device process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.engine.protocol import messages as m
from app.engine.worker.scheduler import Scheduler
from models import checkpoint as checkpoints
from models.decoding.decoder import decode
from models.decoding.options import TokenRules
from models.interface import Prompt
from models.networks.loading import load_network
from models.tokenizer.word_parts import word_parts
from tests.app.engine.scheduler_driver import FAR, run
from tests.request_builders import decode_message

KINDS: list[dict[str, Any]] = [
    {},
    {"beam_size": 8, "n_best": 8},
    {"beam_size": 2, "required": (((9,),),)},
    {
        "beam_size": 5,
        "required": (
            (
                (
                    9,
                    10,
                ),
                (11,),
            ),
            ((7,),),
        ),
        "n_best": 2,
    },
    {"beam_size": 1, "no_repeat_ngram_size": 1},
    {"beam_size": 3, "no_repeat_ngram_size": 2},
    {"temperature": 0.9, "seed": 5, "repetition_penalty": 1.6, "presence_penalty": 0.4, "frequency_penalty": 0.3},
    {"beam_size": 7},
]


def decode_request(number: int, **given: Any) -> m.Decode:
    return decode_message(number, "tiny-de-en", [4 + number % 7, 5, 6, 3], [2], FAR, 14, **given)


def alone(folder: Path, request: m.Decode) -> list[tuple[int, ...]]:
    checkpoint = checkpoints.read(folder / request.model)
    rules = TokenRules(checkpoint.config.eos, checkpoint.config.suppressed)
    prompt, parts = Prompt(tuple(request.source), tuple(request.prefix)), word_parts(checkpoint.tokenizers["target"])
    return [h.tokens for h in decode(load_network(checkpoint), rules, [prompt], request.options, parts=parts)[0]]


def test_every_width_and_bound_answers_beside_the_others_as_alone(scheduler: Scheduler, tiny_checkpoints: Path) -> None:
    each = [decode_request(number, **KINDS[number % len(KINDS)]) for number in range(10)]
    for request in each:
        assert scheduler.handle(request) == []
    finished = {r.id: [h.tokens for h in r.hypotheses] for r in run(scheduler) if isinstance(r, m.Finished)}
    assert finished.keys() == set(range(10))
    for request in each:
        assert finished[request.id] == alone(tiny_checkpoints, request), request
        assert all(run[0] in finished[request.id][0] for (run, *_) in request.options.required[1:])
    assert {9} <= {token for number in range(2, 10, 8) for token in finished[number][0]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {
                "beam_size": 4,
                "required": (
                    (
                        (
                            9,
                            3,
                        ),
                    ),
                ),
            },
            "A required term (9, 3) holds an end token",
        ),
    ],
)
def test_impossible_constraint_is_refused_alone(scheduler: Scheduler, given: dict[str, Any], message: str) -> None:
    for request in (decode_request(1), decode_request(2, **given), decode_request(3, beam_size=4)):
        scheduler.handle(request)
    replies = run(scheduler)
    (failed,) = [reply for reply in replies if isinstance(reply, m.Failed)]
    assert (failed.id, failed.code) == (2, "invalid_request")
    assert message in failed.reason
    assert {reply.id for reply in replies if isinstance(reply, m.Finished)} == {1, 3}
    assert scheduler.queues["tiny-de-en"].rows == 0


def test_beam_wider_than_the_slots_is_refused(scheduler: Scheduler) -> None:
    (failed,) = scheduler.handle(decode_request(1, beam_size=9))
    assert isinstance(failed, m.Failed)
    assert failed.reason == "A beam of 9 does not fit 8 slots; ask for a narrower one."
