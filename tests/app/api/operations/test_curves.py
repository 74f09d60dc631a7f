"""GET /models/{name}/curves."""

from __future__ import annotations

from tests.app.api.client import Client


def test_the_curves_of_a_model() -> None:
    client = Client()
    answer = client.get("/models/tiny-de-en/curves")
    assert answer.status_code == 200
    assert answer.json() == {
        "model": "tiny-de-en",
        "curves": [
            {
                "name": "loss",
                "what": "training loss",
                "unit": "nats per token",
                "updates": [50, 100, 111],
                "epochs": [0, 0, None],
                "values": [5.14067, None, 0.691843],
                "measured": 3,
            }
        ],
        "left_out": 1,
        "reason": None,
    }
    assert client.engine.requests == [("curves", "tiny-de-en")]


def test_curves_of_an_unknown_model_are_404() -> None:
    answer = Client().get("/models/none/curves")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_model")


def test_curves_need_no_key_and_change_nothing() -> None:
    client = Client(admin_key="correct-horse-battery")
    assert client.get("/models/tiny-de-en/curves").status_code == 200
    assert client.post("/models/tiny-de-en/curves").status_code == 405
