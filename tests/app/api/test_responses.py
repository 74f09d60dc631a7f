"""Answers: what of their fields is sent and documented. Large ones are compressed where the client accepts it, and
encoded in a thread."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

import msgspec
import pytest
from pydantic import TypeAdapter

from app.api.inspection import attention_answer
from app.api.request_fields import doc, example_of, optional
from app.api.responses import Answer, copied
from app.engine.interface import AttentionResult, ModelChange
from app.text.language_detection import Detection, Identification
from models.inspection.results import AttentionFindings, DecoderStep
from tests.app.api.client import Client, described
from tests.app.api.fake_engine import FakeEngine, translator


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip;q=0.001", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("x-gzip-like", False),
        ("identity", False),
        ("", False),
    ],
)
def test_gzip_only_if_accepted(accepted: str, is_packed: bool) -> None:
    engine = FakeEngine()
    engine.weights = [[[[0.125] * 40] * 40]]
    answer = Client(engine).post("/attention", json={"source": "bier"}, headers={"Accept-Encoding": accepted})
    assert answer.headers.get("Content-Encoding") == ("gzip" if is_packed else None)
    assert answer.json()["model"] == "tiny-de-en"


def test_a_table_counts_as_digits_and_is_written_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, client = set[int](), Client()
    media_type, table = attention_answer.FORMATS["csv"]

    def watched(report: AttentionResult) -> str:
        threads.add(threading.get_ident())
        return table(report)

    monkeypatch.setitem(attention_answer.FORMATS, "csv", (media_type, watched))
    answer = client.post("/attention?format=csv", json={"source": "bier", "encoding": "u8"})
    assert answer.text.startswith("kind,layer,head")
    assert client.engine.requests[0].max_values == 262_144
    client.post("/attention", json={"source": "bier", "encoding": "u8"})
    assert client.engine.requests[1].max_values == 4 * 262_144
    assert len(threads) == 1
    assert threading.get_ident() not in threads  # where the event loop of this client runs


def test_suppressed_tokens_have_null_probabilities_as_documented() -> None:
    engine = FakeEngine()
    engine.findings = AttentionFindings(float("-inf"), steps=[DecoderStep(float("-inf"), 7, 0.5, [])])
    client = Client(engine)
    answer = client.post("/attention", json={"source": "bier", "include": ["steps"]}).json()
    assert answer["target"]["logprob_sum"] is None
    assert answer["steps"][0]["logprob"] is None
    schemas = described()["components"]["schemas"]
    for name, field in (
        ("Target", "logprob_sum"),
        ("DecoderStep", "logprob"),
        ("Ablation", "logprob_sum_before"),
        ("Ablation", "logprob_sum_after"),
    ):
        kinds = [variant["type"] for variant in schemas[name]["properties"][field]["anyOf"]]
        assert kinds == ["number", "null"], name


def test_body_that_is_no_object_is_refused_with_a_sentence() -> None:
    answer = Client().post("/attention", json={"source": "bier", "reduce": True})
    assert (answer.status_code, answer.json()["error"]) == (422, '"reduce" is true; it takes an object.')
    answer = Client().post("/attention", json={"source": "bier", "mask_heads": [5]})
    assert answer.json()["error"] == '"mask_heads[0]" is 5; it takes an object.'


def test_no_number_has_more_digits_than_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {"test": {"bleu": 33.333333333333336, "parts": [66.66666666666667]}}
    engine = FakeEngine(loaded=[replace(translator("de", "en"), scores=scores)])
    client = Client(engine, admin_key="a-long-secret-of-yours")
    monkeypatch.setattr(engine, "_change", lambda what, name: ModelChange(engine.loaded[0], 0.080071509000845))
    assert client.get("/models").json()[0]["scores"] == {"test": {"bleu": 33.333333, "parts": [66.666667]}}
    changed = client.post("/models/tiny-de-en/reload", headers={"X-Api-Key": "a-long-secret-of-yours"})
    assert changed.json()["seconds"] == 0.08
    identified = Identification(Detection("de", 95.7), 1.0)
    monkeypatch.setattr(client.app.state.services.detector, "identify", lambda text, candidates: identified)
    answer = client.post("/language/translate/v2/detect", json={"q": "Bier"})
    assert answer.json()["data"]["detections"][0][0]["confidence"] == 0.957


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        *(("GET", "/models", None), ("GET", "/languages", None), ("GET", "/health", None), ("GET", "/v1/models", None)),
        ("POST", "/translate", {"q": "bier", "source": "de", "target": "en"}),
        ("POST", "/attention", {"source": "bier"}),
        ("POST", "/generate", {"prompt": "雨"}),
        *(("POST", "/translate", {"q": 7}), ("GET", "/nowhere", None), ("POST", "/v1/completions", {})),
    ],
)
def test_json_ends_with_a_line_feed_for_those_who_use_curl(method: str, path: str, body: object) -> None:
    answer = Client().request(method, path, json=body, headers={"Accept-Encoding": "identity"})
    assert answer.content.endswith(b"}\n") or answer.content.endswith(b"]\n")
    assert answer.content.count(b"\n") == 1
    assert int(answer.headers["Content-Length"]) == len(answer.content)
    answer.json()


class Word(Answer):
    """A word."""

    text: str = doc("How it reads.", "bier")
    kind: Literal["word"] = doc("What it is.", "word", default="word")
    place: int | None = doc("Where it is; null where it has none.", 3)
    meaning: str | None = optional("Only where it was asked for.", "beer")
    from_: str | None = optional("Its language.", "de", alias="from")


class Sentence(Word):
    """A sentence of words."""

    words: list[Word] = doc("All of them.", [example_of(Word)])


def test_answer_leaves_out_what_is_optional_and_nothing_else() -> None:
    word = Word(text="bier", place=None)
    assert msgspec.json.decode(msgspec.json.encode(word)) == {"text": "bier", "kind": "word", "place": None}
    sentence = Sentence(text="bier", place=0, meaning="beer", from_="de", words=[word])
    sent = msgspec.json.decode(msgspec.json.encode(sentence))
    assert list(sent) == ["text", "kind", "place", "meaning", "from", "words"]


@pytest.mark.parametrize("fields", [{"text": "bier"}, {"text": "bier", "place": 1, "since": 2}])
def test_answer_takes_the_fields_that_it_describes_and_no_others(fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Word(**fields)


def test_answers_documented_as_they_are_described() -> None:
    schema = TypeAdapter(Sentence).json_schema(mode="serialization")
    word = schema["$defs"]["Word"]
    assert (word["description"], word["required"]) == ("A word.", ["text", "place"])
    assert word["properties"]["place"]["description"] == "Where it is; null where it has none."
    assert schema["required"] == ["text", "place", "words"]
    assert "from" in word["properties"]


def test_fields_of_another_object_are_copied_and_checked() -> None:
    assert copied(SimpleNamespace(text="bier", kind="word", place=1), Word) == Word(text="bier", place=1)
    with pytest.raises(msgspec.ValidationError):
        copied(SimpleNamespace(text=3, kind="word", place=1), Word)
