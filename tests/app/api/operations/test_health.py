"""The three health answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.engine.interface import PoolStatus
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine

DOWN = PoolStatus(False, {"cpu": "ready", "cuda:0": "restarting"}, 1, ("cuda:0 is restarting after a fault.",))


def test_the_server_lives_whatever_its_models_do() -> None:
    answer = Client(FakeEngine(pool_status=DOWN)).get("/health/live")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_libretranslates_health_is_ok_once_texts_can_be_translated_and_not_before() -> None:
    answer = Client().get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    answer = Client(FakeEngine(pool_status=DOWN)).get("/health")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert answer.json()["error"] == "cuda:0 is restarting after a fault."
    starting = PoolStatus(False, {"cpu": "starting"}, 0, ())
    answer = Client(FakeEngine(pool_status=starting)).get("/health")
    assert answer.json()["error"] == "No device is ready; try again in a few seconds."


def test_ready() -> None:
    answer = Client().get("/health/ready")
    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "devices": {"cpu": "ready"}, "models": 4, "problems": []}


def test_not_ready_has_a_reason() -> None:
    answer = Client(FakeEngine(pool_status=DOWN)).get("/health/ready")
    assert answer.status_code == 503
    assert answer.json() == {
        "ready": False,
        "devices": {"cpu": "ready", "cuda:0": "restarting"},
        "models": 1,
        "problems": ["cuda:0 is restarting after a fault."],
    }


def test_ready_says_that_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    answer = Client(data=tmp_path / "data").get("/health/ready")
    assert answer.status_code == 200, "texts are translated all the same"
    (problem,) = answer.json()["problems"]
    assert problem.startswith("Glossaries, documents and translated files cannot be kept: PARLANCE_DATA is")


@pytest.mark.parametrize("path", ["/health", "/languages", "/v2/usage", "/nothing", "/translate"])
def test_a_head_says_of_every_path_what_a_get_says_without_its_body(path: str) -> None:
    get, head = Client().get(path), Client().request("HEAD", path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    for name in ("content-type", "content-length"):
        assert head.headers[name] == get.headers[name]
