"""Options of one translation (beam, length, prefix, terms) and the details it can return."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from app import errors
from app.engine.output.text_stream import TextStream
from app.engine.protocol import messages as m
from models import checkpoint as checkpoints
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.interface import Prompt
from models.networks.loading import load_network
from models.scoring import score
from tests.app.engine.inline_engine import Inline, german_request

EVERYTHING = frozenset({"scores", "tokens", "alignment"})


@pytest.fixture(scope="module")
def inline(tiny_checkpoints: Path) -> Inline:
    return Inline(tiny_checkpoints)


def alone(folder: Path, text: str, prefix: tuple[int, ...] = (), **options: Any) -> list[Hypothesis]:
    """What decoding by itself finds."""
    checkpoint = checkpoints.read(folder / "tiny-de-en")
    rules = TokenRules(checkpoint.config.eos, checkpoint.config.suppressed)
    prompt = Prompt(checkpoint.source_ids(text), (*checkpoint.config.target_prefix, *prefix))
    options = {"max_new_tokens": 30, "beam_size": 4, **options}
    return decode(load_network(checkpoint), rules, [prompt], DecodingOptions(n_best=options["beam_size"], **options))[0]


def test_options_reach_the_device(inline: Inline) -> None:
    inline.sent.clear()
    inline.translate(
        german_request(beam_size=3, length_penalty=0.5, max_new_tokens=4, prefix="we see", no_repeat_ngram_size=2),
        german_request(),
        german_request(alternatives=5, wants=frozenset({"scores"})),
        german_request(max_new_tokens=99),
        german_request(beam_size=1, required=(("house", "dog"), ("the world",))),
    )
    first, plain, wide, long, terms = (message.options for message in inline.sent)
    assert (first.beam, first.n_best, first.length_penalty, first.max_new_tokens) == (3, 3, 0.5, 4)
    assert (inline.sent[0].prefix, first.no_repeat_ngram_size, first.scores) == ([2, 11, 12], 2, False)
    assert plain == DecodingOptions(
        max_new_tokens=30, beam_size=4, n_best=4, length_penalty=1.0, scores=False, streamed=False
    )
    assert (inline.sent[1].model, inline.sent[1].prefix) == ("tiny-de-en@1", [2])
    assert (wide.beam, wide.scores) == (6, True)
    assert long.max_new_tokens == 32  # the model writes no more
    assert terms.beam == 4  # terms need one
    assert terms.required == (((13,), (9,)), ((4, 16),))
    assert terms.max_new_tokens == 32  # 30, and room for three tokens


def test_admission_counts_beam_and_constraint_rows(inline: Inline, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    send = inline.send
    monkeypatch.setattr(inline, "send", lambda messages: (rows.append(inline.admission.all.rows), send(messages)))
    inline.translate(
        german_request(beam_size=7),
        german_request(),
        german_request(" ", beam_size=7),
        german_request(required=(("dog",),)),
    )
    assert rows[0] == 7 + 4 + 0 + 5
    assert (inline.admission.all.requests, inline.admission.all.rows) == (0, 0)


@pytest.mark.parametrize(
    ("asked", "field", "says"),
    [
        ({"beam_size": 9}, "beam_size", "beam_size is 9; this service takes 1 to 8."),
        ({"alternatives": 8}, "alternatives", "alternatives is 8; this service takes 0 to 7."),
        ({"prefix": "the 漢字"}, "prefix", "tiny-de-en has no token for 漢字: begin the translation without it."),
        ({"prefix": "i " * 33}, "prefix", "This prefix has 33 tokens; the model takes 32. Send a shorter one."),
        (
            {"required": (("dog",), ("漢字", "unseen"))},
            "glossary",
            "tiny-de-en cannot write the term '漢字' or 'unseen': it has no token for 漢字 unseen; leave it out.",
        ),
        ({"required": ((" ",),)}, "glossary", "The term ' ' has no tokens that tiny-de-en writes: leave it out."),
        ({"required": (("dog",),) * 33}, "glossary", "This text has 33 terms to hold; a sentence takes 32: send it in"),
    ],
)
def test_refusal_names_the_impossible_option(inline: Inline, asked: dict[str, Any], field: str, says: str) -> None:
    inline.sent.clear()
    with pytest.raises(errors.InvalidRequest) as refused:
        inline.translate(german_request(), german_request(**asked))
    assert (refused.value.field, inline.sent) == (field, [])
    assert refused.value.message.startswith(says)


def test_repetition_penalty_changes_a_greedy_translation(inline: Inline) -> None:
    plain, penalised = inline.translate(
        german_request(beam_size=1, max_new_tokens=12),
        german_request(beam_size=1, max_new_tokens=12, repetition_penalty=100.0),
    )
    repeats = [len(words) - len(set(words)) for words in (plain.text.split(), penalised.text.split())]
    assert plain.text != penalised.text and repeats[1] <= repeats[0]


def test_translation_continues_a_prefix(inline: Inline, tiny_checkpoints: Path) -> None:
    (answer,) = inline.translate(german_request(prefix=" we  see ", max_new_tokens=4, alternatives=1))
    results = alone(tiny_checkpoints, "ich möchte ein bier", (11, 12), max_new_tokens=4)
    texts = list(dict.fromkeys(inline.registry.versions["tiny-de-en"].decode((11, 12, *h.tokens)) for h in results))
    assert [answer.text, *answer.alternatives] == texts[:2]
    assert answer.text.startswith("we see ")
    assert answer.usage.new_tokens == len(results[0].tokens)


def test_prefix_is_streamed_first(inline: Inline) -> None:
    async def parts_and_result() -> tuple[list[str], Any]:
        stream: TextStream[Any]
        async with inline.translating.stream(german_request(prefix="we see", max_new_tokens=4, beam_size=2)) as stream:
            return [delta.text async for delta in stream.deltas()], stream.result

    deltas, result = inline.do(parts_and_result())
    assert deltas[0].startswith("we see")
    assert (
        "".join(deltas)
        == result.text
        == inline.translate(german_request(prefix="we see", max_new_tokens=4, beam_size=2))[0].text
    )


def test_translation_contains_one_form_of_each_term(inline: Inline) -> None:
    (plain,) = inline.translate(german_request())
    assert "world" not in plain.text.split()
    for required in ((("world",),), (("world", "unseen"), ("good morning",), ("house",))):
        (answer,) = inline.translate(german_request(required=required))
        assert answer.text.count("world") >= 1
        assert all(any(form in answer.text for form in term) for term in required)


def test_scores_equal_the_hypotheses(inline: Inline, tiny_checkpoints: Path) -> None:
    answers = inline.translate(
        german_request(alternatives=2, wants=frozenset({"scores"}), length_penalty=0.5),
        german_request(beam_size=1, wants=frozenset({"scores"})),
        german_request(" ", wants=EVERYTHING),
        german_request(),
    )
    writer = inline.registry.versions["tiny-de-en"]
    result: dict[str, float] = {}
    for hypothesis in alone(tiny_checkpoints, "ich möchte ein bier", length_penalty=0.5):
        result.setdefault(writer.decode(hypothesis.tokens), hypothesis.score)
    first, *others = answers[0].text, *answers[0].alternatives
    assert answers[0].scores == pytest.approx([result[first], *(result[other] for other in others)], abs=1e-5)
    (greedy,) = alone(tiny_checkpoints, "ich möchte ein bier", beam_size=1)
    assert answers[1].scores == pytest.approx((greedy.log_probability / len(greedy.tokens),), abs=1e-5)
    assert (answers[2].text, answers[2].scores, answers[2].tokens, answers[2].alignment) == (" ", (0.0,), (), ())
    assert (answers[3].scores, answers[3].tokens, answers[3].alignment) == (None, None, None)


def test_tokens_join_to_the_text_and_are_as_probable_as_the_network_says(
    inline: Inline, tiny_checkpoints: Path
) -> None:
    texts = ("ich möchte ein bier", "der hund schläft", "guten morgen welt")
    answers = inline.translate(*(german_request(text, prefix="the", wants=frozenset({"tokens"})) for text in texts))
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    network, rules = load_network(checkpoint), TokenRules(checkpoint.config.eos, checkpoint.config.suppressed)
    for text, answer in zip(texts, answers, strict=True):
        assert "".join(token.text for token in answer.tokens) == answer.text
        ids = [token.id for token in answer.tokens]
        expected = score(network, checkpoint.source_ids(text), [2, *ids], rules)
        nats = [token.log_probability for token in answer.tokens]
        assert nats == pytest.approx(expected.log_probabilities.tolist(), abs=1e-5)
        assert answer.alignment is None


def test_repetition_of_the_source_is_not_reported(inline: Inline) -> None:
    (circle, short, blocked) = inline.translate(
        german_request(), german_request(max_new_tokens=9), german_request(no_repeat_ngram_size=1)
    )
    assert circle.text.split()[-12:] == ["dog"] * 12
    assert (circle.finish_reason, short.finish_reason, blocked.finish_reason) == ("repetition", "length", "stop")
    assert len(set(blocked.text.split())) == len(blocked.text.split())
    (honest,) = inline.translate(german_request("welt " * 25))
    assert honest.text.split()[-12:] == ["dog"] * 12
    assert honest.finish_reason == "length"


def test_non_finite_score_is_left_out(tiny_checkpoints: Path) -> None:
    def broken(reply: Any) -> Any:
        if not isinstance(reply, m.Finished):
            return reply
        best, *others = reply.hypotheses
        return m.Finished(reply.id, [best._replace(score=math.nan), *others], reply.timing)

    inline = Inline(tiny_checkpoints, change=broken)
    with pytest.raises(errors.EngineFailed, match="tiny-de-en gives a token a probability that is no number"):
        inline.translate(german_request(wants=frozenset({"scores"})))
    assert inline.translate(german_request())[0].text
