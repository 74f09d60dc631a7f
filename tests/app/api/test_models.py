"""GET /models."""

from __future__ import annotations

from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine


def test_each_model_with_all_its_fields() -> None:
    first, *_, last = Client().get("/models").json()
    assert first == {
        "name": "tiny-de-en",
        "kind": "translator",
        "architecture": "transformer",
        "parameters": 44_140_544,
        "source_language": "de",
        "target_language": "en",
        "vocabulary": 8000,
        "max_source_tokens": 256,
        "max_new_tokens": 256,
        "devices": ["cpu"],
        "scores": {"BLEU": 39.1, "broken": None},  # JSON has no NaN
    }
    assert (last["name"], last["source_language"], last["scores"]) == ("lyrics-zh", None, {})


def test_no_models() -> None:
    assert Client(FakeEngine(loaded=[])).get("/models").json() == []
