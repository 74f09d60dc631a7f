"""`parlance serve de-en` with an empty folder, then again without a network."""

from __future__ import annotations

import json
import shutil
import time
import urllib.error
from pathlib import Path

import pytest

from tests.serving import Server, serving
from tests.stand_in_hub import stand_in_hub
from tests.training.importers.marian import folders

pytestmark = pytest.mark.slow
COMMAND = ("-m", "parlance", "serve", "de-en", "en-fr", "--no-demo")
QUESTION = {"q": "guten morgen", "source": "de", "target": "en"}


def answer(server: Server) -> str:
    text = server.ask("/translate", QUESTION)["translatedText"]
    assert isinstance(text, str)
    return text


def test_model_of_the_hub_is_fetched_once_and_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    checkpoints = tmp_path / "checkpoints"
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub-cache"))
    with stand_in_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        for seed, pair in enumerate((("de", "en"), ("en", "es"))):
            name = "opus-mt-de-en" if pair[0] == "de" else "opus-mt-en-fr"  # the phrasebook has no French
            hub.add(f"Helsinki-NLP/{name}", folders.write(tmp_path / name, pair=pair, seed=seed))
        with serving(checkpoints, tmp_path, COMMAND) as server:
            assert [model["name"] for model in server.ask("/models")] == ["opus-mt-de-en", "opus-mt-en-fr"]
            first = answer(server)
        hub.requests.clear()
        with serving(checkpoints, tmp_path, COMMAND) as server:
            assert answer(server) == first
        assert hub.requests == []
    shutil.rmtree(checkpoints / "opus-mt-en-fr")
    capfd.readouterr()
    monkeypatch.setenv("HF_HOME", str(tmp_path / "another-cache"))
    with serving(checkpoints, tmp_path, COMMAND, wait_for="/health/live") as server:  # and no hub
        while not server.ask("/models"):
            time.sleep(0.1)
        assert answer(server) == first
        with pytest.raises(urllib.error.HTTPError) as unready:
            server.ask("/health/ready")
        with unready.value as said:
            assert said.code == 503
            problems = json.load(said)["problems"]
    assert problems == [f"en-fr is not in {checkpoints}: fetch it with `parlance import en-fr --into {checkpoints}`."]
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(said) == 1 and "cannot be reached for Helsinki-NLP/opus-mt-en-fr (Connection refused)" in said[0]
