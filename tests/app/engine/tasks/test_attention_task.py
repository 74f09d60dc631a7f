"""Attention through a pool with a real device process."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from app import errors
from app.engine.interface import AttentionQuery
from app.engine.protocol import messages as m
from models.decoding.options import DecodingOptions
from models.inspection.selection import Head, Row
from tests.app.engine.engine_thread import Running, spied, together
from tests.request_builders import attention_query, changed, translation_request, walkthrough_query

pytestmark = pytest.mark.slow  # a pool of its own


def test_attention_follows_the_translation_and_a_forced_target(running: Running) -> None:
    text = running.do(running.pool.translate([translation_request("ich möchte ein bier", "de", "en")]))[0].text
    own = running.do(running.pool.attention(attention_query("ich möchte ein bier", model="tiny-de-en")))
    assert (own.target_text, own.forced) == (text, False)
    assert own.took.decode_s is not None
    assert min(own.took.encode_s, own.took.decode_s, own.took.attention_s) > 0
    forced = running.do(
        running.pool.attention(attention_query("ich möchte ein bier", target="i want a beer", model="tiny-de-en"))
    )
    assert forced.took.decode_s is None
    assert (forced.max_source_tokens, forced.max_target_tokens) == (32, 32)
    assert [t.piece for t in forced.input_tokens] == ["<s>", "i", "want", "a", "beer"]
    assert [t.piece for t in forced.output_tokens] == ["i", "want", "a", "beer", "</s>"]
    assert [t.piece for t in forced.source_tokens] == ["ich", "möchte", "ein", "bier", "</s>"]
    for kind in ("encoder", "decoder", "cross"):
        values = forced.maps[kind].values
        assert values.shape == (2, 4, 5, 5)
        assert np.abs(values.sum(axis=-1, dtype=np.float64) - 1).max() < 1e-6
    assert (np.triu(forced.maps["decoder"].values, 1) == 0).all()


def test_statistics_and_maps_come_from_one_pass(running: Running) -> None:
    request = attention_query(
        "ich möchte ein bier", model="tiny-de-en", include=("alignment", "rollout", "stats", "steps")
    )
    request = changed(request, top_k=3, row=Row("cross", -1, 0, 1), masked=(Head("cross", -1, 0),))
    own = running.do(running.pool.attention(request))
    result = own.findings
    assert own.found_logprob == pytest.approx(result.logprob_sum, abs=1e-4)
    assert result.steps is not None
    assert sum(step.logprob for step in result.steps) == pytest.approx(result.logprob_sum, abs=1e-6)
    assert [len(step.top) for step in result.steps] == [3] * len(own.output_tokens)
    assert all(candidate.text for step in result.steps for candidate in step.top)
    for token, step in zip(own.output_tokens, result.steps, strict=True):
        assert step.rank > 3 or step.top[step.rank - 1].id == token.id
    assert result.qk is not None
    assert result.qk.softmax == own.maps["cross"].values[-1, 0, 1].tolist()
    assert result.stats is not None
    assert [[len(layer) for layer in kind] for kind in result.stats.values()] == [[4, 4]] * 3
    assert result.rollout is not None
    assert np.abs(np.sum(result.rollout.cross, axis=-1) - 1).max() < 1e-6
    assert result.alignment is not None
    assert (result.alignment.unit, result.alignment.error) == ("word", None)
    assert result.alignment.heads == [(0, head) for head in range(4)]
    assert all(0 <= source < 4 and weight > 0 for source, _, weight in result.alignment.links)
    assert result.ablation is not None
    assert result.ablation.logprob_sum_before == pytest.approx(result.logprob_sum, abs=1e-6)
    change = result.ablation.logprob_sum_after - result.ablation.logprob_sum_before
    assert sum(result.ablation.per_step_delta) == pytest.approx(change, abs=1e-5) != 0


def test_translation_continues_a_forced_prefix(running: Running) -> None:
    request = attention_query(
        "ich möchte ein bier", model="tiny-de-en", prefix="beer want", decoding=DecodingOptions(beam_size=2)
    )
    report = running.do(running.pool.attention(request))
    assert [token.piece for token in report.output_tokens][:2] == ["beer", "want"]
    assert report.target_text.startswith("beer want")
    assert report.forced is False
    assert len(report.output_tokens) == len(report.input_tokens)


def test_maps_of_a_beam_equal_the_forced_target(running: Running) -> None:
    """The search reorders its beams; the maps must be those of the winning hypothesis."""
    request = attention_query("der hund sieht", model="tiny-de-en", include=("steps",))
    for beam in (1, 4):
        result = running.do(running.pool.attention(replace(request, decoding=DecodingOptions(beam_size=beam))))
        forced = running.do(running.pool.attention(replace(request, target=result.target_text)))
        written = len(result.output_tokens)  # where it was cut off, the forced target has an end token more
        assert [token.id for token in result.output_tokens] == [token.id for token in forced.output_tokens[:written]]
        assert result.findings.steps is not None
        assert forced.findings.steps is not None
        each = [step.logprob for step in forced.findings.steps[:written]]
        assert [step.logprob for step in result.findings.steps] == pytest.approx(each, abs=1e-5)
        # Greedy search returns no log-probability, so the answer has no warning about one.
        assert result.found_logprob == (None if beam == 1 else pytest.approx(sum(each), abs=1e-4))
        for kind, seen in result.maps.items():
            rows, columns = seen.values.shape[2:]
            np.testing.assert_allclose(seen.values, forced.maps[kind].values[:, :, :rows, :columns], rtol=0, atol=1e-6)


def test_inspections_and_translations_do_not_mix(running: Running) -> None:
    texts = ("ich möchte ein bier", "der hund sieht", "guten morgen welt", "ich")
    requests = [attention_query(text, model="tiny-de-en", heads=(head,)) for text in texts for head in range(4)]
    requests[1::2] = [
        changed(each, masked=(Head("cross", -1, each.selection.heads[0]),))
        for each in requests[1::2]
        if each.selection.heads
    ]
    alone = [running.do(running.pool.attention(each)) for each in requests]
    translations = [
        running.pool.translate([translation_request(text, "de", "en", alternatives=1)]) for text in texts * 2
    ]
    beside = running.do(together(*(running.pool.attention(each) for each in requests), *translations))
    for request, expected, result in zip(requests, alone, beside, strict=False):
        assert (result.source_text, result.target_text) == (request.source, expected.target_text)
        assert result.findings == expected.findings
        for kind, attention_map in result.maps.items():
            assert attention_map.heads == request.selection.heads
            assert np.array_equal(attention_map.values, expected.maps[kind].values)


def test_token_ids_as_source_and_reductions_of_maps(running: Running) -> None:
    request = attention_query("ich möchte ein bier", target="i want a beer", model="tiny-de-en")
    whole = running.do(running.pool.attention(request))
    ids = tuple(token.id for token in whole.source_tokens if not token.special)
    mean = changed(request, source=None, source_ids=ids, reduce_heads="mean", reduce_layers="mean")
    reduced = running.do(running.pool.attention(mean))
    assert reduced.source_text == "ich möchte ein bier"
    assert reduced.source_tokens == whole.source_tokens
    for kind, attention_map in reduced.maps.items():
        expected = whole.maps[kind].values.astype(np.float64).mean(axis=(0, 1), keepdims=True)
        assert np.abs(attention_map.values - expected).max() < 1e-7
    largest = running.do(running.pool.attention(changed(request, reduce_heads="max", kinds=("cross",))))
    assert (largest.maps["cross"].values == whole.maps["cross"].values.max(axis=1, keepdims=True)).all()
    for wrong, says in (((999_999,), "There is no token 999,999"), ((5,) * 99, "This source has 100 tokens")):
        with pytest.raises(errors.InvalidRequest, match=says):
            running.do(running.pool.attention(changed(request, source=None, source_ids=wrong)))


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (attention_query("ich", model="tiny-lyrics"), "is a lyricist and has no attention"),
        (attention_query("ich"), "name one of tiny-de-en, tiny-en-es"),
        (attention_query("ich", model="tiny-de-en", layers=(9,)), "There is no layer 9"),
        (attention_query("ich", model="tiny-de-en", target="i " * 40), "target has 40 tokens"),
        (
            attention_query("ich", model="tiny-de-en", target="漢字"),
            "has no token for 漢字: send a target in",
        ),
    ],
)
def test_impossible_attention_request_is_refused(running: Running, query: AttentionQuery, says: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=says):
        running.do(running.pool.attention(query))


def test_attention_that_would_be_too_large_is_refused_before_anything_is_computed(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = spied(running, monkeypatch)
    request = attention_query("ich möchte ein bier", target="i want a beer", model="tiny-de-en", max_values=600)
    with pytest.raises(errors.InvalidRequest, match="would hold 600 weights and the limit is 599"):
        running.do(running.pool.attention(replace(request, max_values=599)))
    with pytest.raises(errors.InvalidRequest, match="would hold 248 weights"):  # with one target token at least
        running.do(running.pool.attention(changed(request, target=None, max_values=247)))
    for choice in ({"layers": (0, 2)}, {"heads": (-5,)}):
        with pytest.raises(errors.InvalidRequest, match=r"There is no (layer 2|head -5): this model has"):
            running.do(running.pool.attention(changed(request, target=None, **choice)))
    assert sent == []
    report = running.do(running.pool.attention(request))
    assert sum(attention_map.values.size for attention_map in report.maps.values()) == 600
    assert [type(message) for message in sent] == [m.InspectAttention]
    assert sent[0].deadline > time.monotonic()


def test_walkthrough_equals_the_attention_map(running: Running) -> None:
    place = {"side": "decoder", "layer": -1, "head": 2, "position": 3}
    request = walkthrough_query("ich möchte ein bier", "i want a beer", "tiny-de-en", **place)
    walk = running.do(running.pool.walkthrough(request)).walkthrough
    seen = running.do(running.pool.attention(attention_query(request.source, request.target, request.model)))
    assert (walk.layer, walk.head, walk.position) == (1, 2, 3)
    for part, kind in (("self-attention", "decoder"), ("cross-attention", "cross")):
        (row,) = [step.values for step in walk.steps if (step.part, step.name) == (part, "softmax")]
        assert list(row) == seen.maps[kind].values[1, 2, 3].tolist()  # type: ignore[index]
    last = walk.steps[-1]
    assert (last.name, last.texts is not None and len(last.texts)) == ("probabilities", 8)
    for wrong, says in (({"layer": 9}, "There is no decoder layer 9"), ({"position": 5}, "There is no position 5")):
        with pytest.raises(errors.InvalidRequest, match=says):
            running.do(running.pool.walkthrough(changed(request, **wrong)))
