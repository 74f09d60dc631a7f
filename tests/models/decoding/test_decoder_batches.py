"""Requests that share a decoder give the same as alone, in any order of joining and leaving."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.decoding.decoder import Decoder, decode
from models.decoding.options import DecodingOptions, Hypothesis, StepResult
from models.interface import Prompt
from tests.models.decoding.decoders import NO_END, PROMPT, RULES, decoder_of, one, options, same
from tests.models.scripted import Scripted


def run(decoder: Decoder) -> StepResult:
    """Steps until all are done; all that happened."""
    whole = StepResult()
    while decoder.requests:
        progress = decoder.step()
        whole.tokens += progress.tokens
        whole.finished += progress.finished
    return whole


KINDS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.9, "seed": 3},
    {"beam_size": 3, "n_best": 2},
    {"temperature": 1.5, "top_k": 3, "top_p": 0.9, "seed": 8},
    {"beam_size": 2, "length_penalty": 0.3},
    {"max_new_tokens": 1},
    {"beam_size": 5, "n_best": 5, "max_new_tokens": 9},
]


def mixed(count: int) -> tuple[list[Prompt], list[DecodingOptions]]:
    prompts = [Prompt(tuple(range(3, 4 + n % 5)), (1, *[4] * (n % 3))) for n in range(count)]
    return prompts, [options(**KINDS[n % len(KINDS)]) for n in range(count)]


@pytest.mark.parametrize("slots", [1, 5, 6, 13, 64])
def test_mixed_requests_equal_single_requests_for_any_number_of_slots(slots: int) -> None:
    network = Scripted(8)
    prompts, chosen = mixed(21)
    together = decode(network, RULES, prompts, chosen, slots=slots)
    assert max(network.widths) <= max(slots, 5)
    for result, prompt, choice in zip(together, prompts, chosen, strict=True):
        same(result, one(network, prompt, choice))


@given(st.lists(st.tuples(st.sampled_from(["join", "step", "step", "leave"]), st.integers(0, 5)), max_size=40))
@settings(max_examples=24)
def test_join_and_leave_at_any_time(actions: list[tuple[str, int]]) -> None:
    """Remaining requests get the same result as alone, however other requests come and go."""
    network = Scripted(8, seed=1)
    decoder = decoder_of(network, 9)
    prompts, chosen = mixed(14)
    waiting, streamed = list(range(14)), dict[object, list[int]]()
    finished: dict[object, list[Hypothesis]] = {}
    left = set()
    for action, number in [*actions, *[("step", 0)] * 10]:
        if action == "join":
            batch = waiting[: 1 + number // 2]
            while sum(chosen[n].beam for n in batch) > decoder.free:
                batch.pop()
            decoder.join([(n, prompts[n], chosen[n]) for n in batch])
            waiting = [n for n in waiting if n not in batch]
        elif action == "leave" and decoder.requests:
            key = list(decoder.requests)[number % len(decoder.requests)]
            decoder.leave(key)
            left.add(key)
        else:
            progress = decoder.step()
            for key, token in progress.tokens:
                streamed.setdefault(key, []).append(token)
            finished.update(progress.finished)
        check_rows(decoder)
    assert not decoder.requests, "ten steps finish everything"
    assert set(finished) == set(range(14)) - set(waiting) - left
    for key, result in finished.items():
        assert isinstance(key, int)
        same(result, one(network, prompts[key], chosen[key]))
        emitted = tuple(streamed.get(key, []))
        assert emitted == (result[0].tokens if chosen[key].beam == 1 else result[0].tokens[: len(emitted)])


def check_rows(decoder: Decoder) -> None:
    """Live rows are packed, and owner and owned agree."""
    assert decoder.free == decoder.slots - sum(s.options.beam for s in decoder.requests.values())
    assert sorted(row for s in decoder.requests.values() for row in s.rows) == list(range(len(decoder.owners)))
    for search in decoder.requests.values():
        assert all(decoder.owners[row] is search for row in search.rows)


def test_step_without_requests_gives_an_empty_result() -> None:
    network = Scripted(5)
    decoder = decoder_of(network, 3)
    decoder.join([])
    assert decoder.step() == StepResult()
    assert network.widths == []
    assert decode(network, RULES, [], options()) == []


def test_leaving_requests_free_their_rows_at_once() -> None:
    network = Scripted(8)
    decoder = decoder_of(network, 6)
    decoder.join([("a", PROMPT, options()), ("b", PROMPT, options(beam_size=3)), ("c", PROMPT, options())])
    assert decoder.free == 1
    decoder.leave("b")
    decoder.leave("b")
    decoder.leave("never there")
    assert decoder.free == 4
    decoder.step()
    assert network.widths == [2]
    check_rows(decoder)


def test_a_request_that_does_not_fit_is_refused_before_anything_changes() -> None:
    network = Scripted(8)
    decoder = decoder_of(network, 4, source_length=3, target_length=6)
    decoder.join([("a", PROMPT, options())])
    fits = Prompt((3, 4, 5), (1, 4))
    for bad in (
        (Prompt((3, 4, 5, 6), (1,)), options()),
        (Prompt((3,), (1, 4, 4)), options()),
        (Prompt((3,), (1,)), options(max_new_tokens=7)),
        (Prompt((3,), ()), options()),
    ):
        with pytest.raises(ValueError, match=r"does not fit slots of 3 and 6|prefix is empty"):
            decoder.join([("b", fits, options()), ("c", *bad)])
        assert decoder.free == 3
    with pytest.raises(AssertionError, match="more rows than slots"):
        decoder.join([("b", fits, options(beam_size=4))])
    with pytest.raises(AssertionError, match="two requests under one key"):
        decoder.join([("a", fits, options())])
    check_rows(decoder)
    decoder.join([("b", fits, options()), ("c", fits, options(beam_size=2))])
    finished = dict(run(decoder).finished)
    same(finished["a"], one(network, PROMPT, options()))
    same(finished["b"], one(network, fits, options()))
    same(finished["c"], one(network, fits, options(beam_size=2)))


def test_a_failed_prefill_leaves_the_others_alone() -> None:
    network = Scripted(8, poison=7)
    decoder = decoder_of(network, 6)
    decoder.join([("a", PROMPT, options(beam_size=2))])
    decoder.step()
    with pytest.raises(RuntimeError, match="poisoned"):
        decoder.join([("b", PROMPT, options()), ("c", Prompt((7,), (1,)), options(beam_size=2))])
    assert decoder.free == 4
    assert set(decoder.requests) == {"a"}
    decoder.join([("b", PROMPT, options())])
    check_rows(decoder)
    finished = dict(run(decoder).finished)
    same(finished["a"], one(network, PROMPT, options(beam_size=2)))
    same(finished["b"], one(network, PROMPT, options()))


def test_long_sources_go_first_and_freed_rows_are_filled() -> None:
    network = Scripted(4, table={})
    prompts = [Prompt((3,) * n, (1,)) for n in (1, 6, 3, 5, 2, 4)]
    results = decode(network, NO_END, prompts, [options(max_new_tokens=n + 1) for n in range(6)], slots=2)
    assert [len(result[0].tokens) for result in results] == [1, 2, 3, 4, 5, 6]
    assert sum(network.widths) == 21, "no row is stepped in vain"
    assert network.source_length == 6


@pytest.mark.parametrize("streamed", [True, False])
def test_streams_join_to_the_answer_or_its_prefix(streamed: bool) -> None:
    network = Scripted(9, spread=3.0)
    decoder = decoder_of(network, 64, target_length=24)
    kinds: list[dict[str, Any]] = [
        {},
        {"temperature": 0.8, "seed": 4},
        {"beam_size": 3},
        {"beam_size": 2, "length_penalty": 0.2},
    ]
    chosen = [options(max_new_tokens=20, streamed=streamed, **kinds[n % 4]) for n in range(24)]
    decoder.join([(n, Prompt((n % 7, n % 5), (1,)), choice) for n, choice in enumerate(chosen)])
    emitted: dict[Any, list[int]] = {n: [] for n in range(24)}
    early = set()
    while decoder.requests:
        progress = decoder.step()
        done = dict(progress.finished)
        for key, token in progress.tokens:
            emitted[key].append(token)
            early |= {key} - done.keys()
        for key, (best, *_) in done.items():
            assert isinstance(key, int)
            if chosen[key].beam == 1:
                assert tuple(emitted[key]) == (best.tokens if streamed else ())
            else:
                assert tuple(emitted[key]) == best.tokens[: len(emitted[key])]
    beams = {n for n, choice in enumerate(chosen) if choice.beam > 1}
    assert len(early & beams) > 5 if streamed else not early
