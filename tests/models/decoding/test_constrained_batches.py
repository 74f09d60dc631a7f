"""Constrained beams in a batch: isolated refusals, leaving, streams; and in a real translator."""

from __future__ import annotations

from typing import Any

import pytest

from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, Hypothesis
from models.interface import Prompt
from tests.models import tiny
from tests.models.decoding.decoders import EOS, PROMPT, RULES, decoder_of, one, options, same
from tests.models.decoding.required_terms import A, B, C, Required, holds
from tests.models.scripted import Scripted


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"beam_size": 1, "required": (((A,),),)}, "required terms need a beam: use one of 2 or more."),
        ({"required": ((),)}, "a required term needs at least one run of tokens, of one or more."),
        ({"required": (((A,), ()),)}, "a required term needs at least one run of tokens, of one or more."),
        ({"required": (((-1,),),)}, "a required term has a negative token."),
        ({"required": (((A,),),) * 33}, "at most 32 terms can be required, not 33."),
    ],
)
def test_invalid_options_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as excinfo:
        DecodingOptions(**{"max_new_tokens": 9, "beam_size": 4, **given})
    assert str(excinfo.value) == message


@pytest.mark.parametrize("run", [(EOS,), (A, EOS), (1, A), (A, 0, B)])
def test_impossible_term_fails_alone(run: tuple[int, ...]) -> None:
    decoder = decoder_of(Scripted(6), 8)
    decoder.join([("there", PROMPT, options(beam_size=2))])
    with pytest.raises(ValueError, match=r"A required term \([\d, ]+\) holds an end token or one that is never chosen"):
        decoder.join([("bad", PROMPT, options(beam_size=4, required=(((B,),), (run,))))])
    assert (decoder.free, set(decoder.requests)) == (6, {"there"})
    decoder.join([("good", PROMPT, options(beam_size=4, required=((run, (B,)),)))])  # by its other run
    done: dict[Any, Any] = {}
    while decoder.requests:
        done.update(decoder.step().finished)
    assert B in done["good"][0].tokens
    same(done["there"], one(Scripted(6), PROMPT, options(beam_size=2)))


def test_unknown_constraint_token_is_reported_missing() -> None:
    (result,) = one(Scripted(6), PROMPT, options(beam_size=3, required=(((99,),), ((B,),))))
    assert (result.finished, result.unmet, B in result.tokens) == (False, 1, True)


KINDS: list[dict[str, Any]] = [
    {},
    {"beam_size": 3, "n_best": 2},
    {"beam_size": 3, "n_best": 2, "required": (((A, B),),)},
    {"temperature": 0.9, "seed": 3},
    {"beam_size": 4, "required": (((A,),), ((C, B), (B, B))), "no_repeat_ngram_size": 3},
    {"beam_size": 4, "length_penalty": 0.4},
    {"beam_size": 2, "required": (((C,),), ((C,),))},
]


@pytest.mark.parametrize("slots", [4, 9, 64])
def test_batch_mates_change_no_result(slots: int) -> None:
    network = Scripted(7, spread=1.5)
    prompts = [Prompt((n % 5,), (1,)) for n in range(35)]
    each = [options(max_new_tokens=7, **KINDS[n % len(KINDS)]) for n in range(35)]
    together = decode(network, RULES, prompts, each, slots=slots)
    for result, prompt, chosen in zip(together, prompts, each, strict=True):
        same(result, one(network, prompt, chosen))


def test_cancelled_beam_leaves_no_state() -> None:
    network = Scripted(7)
    decoder = decoder_of(network, 12)
    chosen = {
        n: options(max_new_tokens=8, beam_size=3, **({"required": (((A, n + 3),),)} if n % 2 else {})) for n in range(4)
    }
    decoder.join([(n, PROMPT, choice) for n, choice in chosen.items()])
    decoder.step()
    decoder.leave(1)
    decoder.step()
    decoder.leave(0)
    decoder.join([(5, PROMPT, chosen[1]), (6, PROMPT, chosen[0])])
    done: dict[Any, Any] = {}
    while decoder.requests:
        done.update(decoder.step().finished)
    for key, as_ in ((2, 2), (3, 3), (5, 1), (6, 0)):
        same(done[key], one(network, PROMPT, chosen[as_]))
    assert not decoder.beams


def test_stream_is_a_prefix_of_the_answer() -> None:
    network = Scripted(8, spread=3.0)
    for seed in range(8):
        decoder = decoder_of(network, 4, target_length=20)
        decoder.join(
            [("it", Prompt((seed,), (1,)), options(max_new_tokens=16, beam_size=4, required=(((A, B),), ((C,),))))]
        )
        streamed: list[int] = []
        done: list[Hypothesis] = []
        while decoder.requests:
            progress = decoder.step()
            streamed += [token for _, token in progress.tokens]
            done += [each for _, found in progress.finished for each in found]
        assert done[0].tokens[: len(streamed)] == tuple(streamed)
        assert holds(done[0].tokens, (((A, B),), ((C,),)))


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_translator_writes_terms_of_unlikely_tokens(precision: Any) -> None:
    network = tiny.transformer()
    required: Required = (((7, 9),), ((11,), (12, 13)))
    for n in range(6):
        chosen = options(max_new_tokens=12, beam_size=5, required=required)
        (result,) = decode(network, RULES, [Prompt((3 + n, 4, 5), (1,))], chosen, precision=precision)[0]
        assert holds(result.tokens, required)
        assert result.unmet == 0
