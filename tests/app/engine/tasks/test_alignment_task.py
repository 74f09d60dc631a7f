"""Which word comes from which: as POST /attention has it, for many sentences at a time."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import errors
from app.engine.interface import AlignedWord, AttentionResult
from app.engine.output.token_views import word_spans
from app.engine.protocol import messages as m
from tests.app.engine.corrupt_checkpoints import broken
from tests.app.engine.inline_engine import Inline, german_request
from tests.combinations import slow_but
from tests.request_builders import attention_query

ALIGNMENT, BOTH = frozenset({"alignment"}), frozenset({"alignment", "tokens"})
SOURCES = ("ich möchte ein bier", "der hund schläft", "guten morgen welt", "ich", "wir sehen das haus " * 4)
PAIRS = [
    ("ich möchte ein bier", "i want a beer"),
    ("der hund", "the dog sleeps and sleeps"),
    ("wir sehen das haus", "we see the house . we see it !"),
]
MEASURED = {"heads": [[0, 1], [1, 2]], "convention": "input", "error": 0.25, "sentences": 100}


@pytest.fixture(scope="module", params=slow_but([None, MEASURED], MEASURED), ids=["unmeasured", "measured"])
def inline(request: pytest.FixtureRequest, tiny_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Inline:
    root = tmp_path_factory.mktemp("aligned")
    shutil.copytree(tiny_checkpoints / "tiny-de-en", root / "tiny-de-en")
    config = json.loads((root / "tiny-de-en" / "config.json").read_text())
    (root / "tiny-de-en" / "config.json").write_text(json.dumps({**config, "alignment": request.param}))
    (root / "tiny-de-en" / "config.sha256").unlink()
    return Inline(root)


def links(report: AttentionResult) -> list[tuple[int, int, float]]:
    assert report.findings.alignment is not None
    return report.findings.alignment.links


def same(words: tuple[AlignedWord, ...], report: AttentionResult, source: str) -> None:
    sources, targets = word_spans(source), word_spans(report.target_text)
    assert len(words) == len(links(report)) > 0
    for word, (read, written, weight) in zip(words, links(report), strict=True):
        assert (word.target_start, word.target_end) == targets[written]
        assert (word.source_start, word.source_end) == sources[read]
        assert word.weight == pytest.approx(weight, abs=1e-6)


def attention(inline: Inline, source: str, target: str | None = None) -> Any:
    query = attention_query(source, target, "tiny-de-en", include=("alignment",))
    return inline.do(inline.attending.attention(query))


def align(inline: Inline, pairs: list[tuple[str, str]]) -> Any:
    return inline.do(inline.aligning.align(None, "de", "en", pairs))


def test_alignment_equals_attention_alignment(inline: Inline) -> None:
    answers = inline.translate(
        *(german_request(text, wants=BOTH if text == "ich" else ALIGNMENT) for text in SOURCES), german_request()
    )
    for text, answer in zip(SOURCES, answers, strict=False):
        report = attention(inline, text)
        assert answer.text == report.target_text
        same(answer.alignment, report, text)
    assert [answer.tokens is None for answer in answers] == [text != "ich" for text in (*SOURCES, "")]
    assert answers[-1].alignment is None


def test_alignment_of_a_foreign_translation(inline: Inline) -> None:
    for (source, target), words in zip(PAIRS, align(inline, PAIRS), strict=True):
        same(words, attention(inline, source, target), source)


def test_pairs_are_aligned_in_batches_and_in_order(inline: Inline) -> None:
    pairs = [(source, " ".join(target.split()[: 1 + number % 5])) for number in range(14) for source, target in PAIRS]
    alone = [align(inline, [pair])[0] for pair in pairs[:15]]
    inline.sent.clear()
    results = align(inline, [("", "dog"), *pairs, ("hund", " ")])
    assert [type(message) for message in inline.sent] == [m.AlignPairs] * 3
    assert [len(message.pairs) for message in inline.sent] == [16, 16, 10]
    assert (results[0], results[-1]) == ((), ())
    for words, expected in zip(results[1:16], alone, strict=True):
        assert [word.weight for word in words] == pytest.approx([word.weight for word in expected], abs=1e-6)
        assert [(w.target_start, w.source_start) for w in words] == [(w.target_start, w.source_start) for w in expected]


def test_alignment_passes_are_short(inline: Inline) -> None:
    inline.sent.clear()
    align(inline, [("hund " * 31, "dog " * 32), *[("hund " * 30, "dog " * 30)] * 17, ("hund", "dog")])
    assert [len(message.pairs) for message in inline.sent] == [8, 8, 3]
    padded = [len(batch.pairs) * max(len(p.source) + len(p.target) - 1 for p in batch.pairs) for batch in inline.sent]
    assert max(padded) <= 512


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        (("hund " * 32, "dog"), "This text has 33 tokens; the model takes 32. Send it in parts."),
        (("hund", "dog " * 33), "This target has 33 tokens; the model takes 32. Send a shorter one."),
    ],
)
def test_too_long_pair_is_refused(inline: Inline, pair: tuple[str, str], says: str) -> None:
    inline.sent.clear()
    with pytest.raises(errors.TextTooLong, match=says):
        align(inline, [PAIRS[0], pair])
    assert (inline.sent, inline.admission.all.requests) == ([], 0)


def test_cancelled_alignment_is_counted_once_per_model(inline: Inline) -> None:
    metrics = inline.metrics.registry
    labels = {"model_name": "tiny-de-en", "device": "cpu", "finished_reason": "alignment"}
    before = metrics.get_sample_value("parlance:request_success_total", labels) or 0
    align(inline, PAIRS)
    assert metrics.get_sample_value("parlance:request_success_total", labels) == before + 1
    assert (inline.admission.all.requests, inline.admission.tokens) == (0, 0)


def test_pair_without_a_model_is_unknown(inline: Inline) -> None:
    with pytest.raises(errors.UnknownPair):
        inline.do(inline.aligning.align(None, "de", "fr", PAIRS))


def test_non_finite_model_is_refused(tiny_checkpoints: Path, tmp_path: Path) -> None:
    broken(tiny_checkpoints / "tiny-de-en", tmp_path, "encoder.0.attention.projection.weight", 3e38)
    inline = Inline(tmp_path)
    says = "tiny-de-en gives NaN or infinity, so its weights are broken; load a sound checkpoint of it."
    with pytest.raises(errors.EngineFailed, match=says):
        align(inline, PAIRS)
    with pytest.raises(errors.EngineFailed, match="NaN or infinity"):
        inline.translate(german_request(wants=BOTH))


def test_a_lyricist_aligns_nothing(tiny_checkpoints: Path) -> None:
    inline = Inline(tiny_checkpoints)
    edition = inline.registry.versions["tiny-lyrics"]
    message = m.AlignPairs(1, edition.key, [m.TokenPair([3], [2, 4], 1, [0], [0])])
    inline.scheduler.handle(message)
    (failed,) = inline.scheduler.step()
    assert failed == m.Failed(1, "invalid_request", "tiny-lyrics is no translator; only these align words.")


async def all_aligned(inline: Inline, requests: list[list[tuple[str, str]]]) -> list[Any]:
    return await asyncio.gather(
        *(inline.aligning.align(None, "de", "en", pairs) for pairs in requests), return_exceptions=True
    )


def test_pairs_of_requests_that_wait_share_a_pass_and_keep_their_links(inline: Inline) -> None:
    requests = [[(source, " ".join(target.split()[: 2 + n % 3]))] for n in range(6) for source, target in PAIRS]
    alone = [align(inline, pairs)[0] for pairs in requests]
    inline.sent.clear()
    together = inline.do(all_aligned(inline, requests))
    assert [len(message.pairs) for message in inline.sent] == [16, 2]
    for (words,), expected in zip(together, alone, strict=True):
        assert [word.weight for word in words] == pytest.approx([word.weight for word in expected], abs=1e-6)
        assert [replace(word, weight=0.0) for word in words] == [replace(word, weight=0.0) for word in expected]


def test_a_page_delays_the_alignment_of_a_sentence_by_one_pass(inline: Inline) -> None:
    page, sentence = [(f"hund {'ich ' * (n % 3)}", "dog") for n in range(60)], [("der hund schläft", "the dog")]
    align(inline, sentence)
    (wanted,) = inline.sent[-1].pairs
    inline.sent.clear()
    inline.do(all_aligned(inline, [page, sentence]))
    assert [wanted in message.pairs for message in inline.sent] == [True, False, False, False]


def test_a_pass_that_fails_is_repeated_for_each_request_alone(tiny_checkpoints: Path) -> None:
    def refuse(reply: Any) -> Any:
        asked = inline.sent[-1]
        if isinstance(reply, m.PairsAligned) and any(len(pair.target) == 6 for pair in asked.pairs):
            return m.Failed(reply.id, "engine_failed", "Five words are too many.")
        return reply

    inline = Inline(tiny_checkpoints, change=refuse)
    requests = [[("der hund", "dog")], [("der hund", "the dog sleeps and")], [("ich", "i want")]]
    first, second, third = inline.do(all_aligned(inline, requests))
    assert (first, third) == (align(inline, requests[0]), align(inline, requests[2]))
    assert isinstance(second, errors.EngineFailed)
    assert inline.admission.all.requests == 0


def test_pairs_of_a_client_that_left_are_not_read(inline: Inline) -> None:
    async def scene() -> Any:
        tasks = [asyncio.create_task(inline.aligning.align(None, "de", "en", PAIRS)) for _ in range(8)]
        while not inline.sent:
            await asyncio.sleep(0)
        for task in tasks[1:]:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    inline.sent.clear()
    results = inline.do(scene())
    assert len(results[0]) == len(PAIRS)
    assert all(isinstance(result, asyncio.CancelledError) for result in results[1:])
    assert sum(len(message.pairs) for message in inline.sent) < 8 * len(PAIRS)
    assert len(align(inline, PAIRS)) == len(PAIRS)  # nothing is left that would hold up others
