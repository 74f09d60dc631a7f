"""Attention through a pool with a real device process."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from app.engine import errors
from app.engine import messages as m
from app.engine.jobs import AttentionJob, TranslationJob
from tests.app.engine.running import Running, spied

pytestmark = pytest.mark.slow  # a pool of its own


def test_attention_follows_the_translation_and_a_forced_target(running: Running) -> None:
    text = running.do(running.pool.translate([TranslationJob("ich möchte ein bier", "de", "en")]))[0].text
    own = running.do(running.pool.attention(AttentionJob("ich möchte ein bier", model="tiny-de-en")))
    assert (own.target_text, own.forced) == (text, False)
    forced = running.do(
        running.pool.attention(AttentionJob("ich möchte ein bier", target="i want a beer", model="tiny-de-en"))
    )
    assert [t.piece for t in forced.input_tokens] == ["<s>", "i", "want", "a", "beer"]
    assert [t.piece for t in forced.output_tokens] == ["i", "want", "a", "beer", "</s>"]
    assert [t.piece for t in forced.source_tokens] == ["ich", "möchte", "ein", "bier", "</s>"]
    for kind in ("encoder", "decoder", "cross"):
        for heads in forced.maps[kind].weights:
            for head in heads:
                assert len(head) == 5
                assert all(abs(sum(row) - 1) < 1e-6 for row in head)
    assert all(forced.maps["decoder"].weights[0][0][q][k] == 0 for q in range(5) for k in range(q + 1, 5))


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (AttentionJob("ich", model="tiny-lyrics"), "is a lyricist and has no attention"),
        (AttentionJob("ich"), "name one of tiny-de-en, tiny-en-es"),
        (AttentionJob("ich", model="tiny-de-en", layers=(9,)), "There is no layer 9"),
        (AttentionJob("ich", model="tiny-de-en", target="i " * 40), "target has 40 tokens"),
    ],
)
def test_attention_that_cannot_be_shown(running: Running, job: AttentionJob, says: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=says):
        running.do(running.pool.attention(job))


def test_attention_that_would_be_too_large_is_refused_before_anything_is_computed(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = spied(running, monkeypatch)
    job = AttentionJob("ich möchte ein bier", target="i want a beer", model="tiny-de-en", max_values=600)
    with pytest.raises(errors.InvalidRequest, match="would hold 600 weights and the limit is 599"):
        running.do(running.pool.attention(replace(job, max_values=599)))
    with pytest.raises(errors.InvalidRequest, match="would hold 248 weights"):  # with one target token at least
        running.do(running.pool.attention(replace(job, target=None, max_values=247)))
    for choice in ({"layers": (0, 2)}, {"heads": (-5,)}):
        with pytest.raises(errors.InvalidRequest, match=r"There is no (layer 2|head -5): this model has"):
            running.do(running.pool.attention(replace(job, target=None, **choice)))
    assert sent == []
    report = running.do(running.pool.attention(job))
    assert sum(len(each.layers) * len(each.heads) * 25 for each in report.maps.values()) == 600
    assert [type(message) for message in sent] == [m.Attend]
    assert sent[0].deadline > time.monotonic()
