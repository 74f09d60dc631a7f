"""Every command of docs/tutorials, run from the first to the last: a railway translator is trained as own-model.md has
it, and stands in for OPUS-MT's on a stand-in hub for the pages that serve one. teach-attention.md is about the
model that comes with Parlance: tests/test_readme.py runs it.

It trains for minutes (make test-slow)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.app.api.test_event_stream import events
from tests.readme import json_values
from tests.stand_in_hub import StandInHub, stand_in_hub
from tests.tutorial import Step, Tutorial, checkout

pytestmark = pytest.mark.slow
EPOCHS = {"--max-epochs 30": "--max-epochs 8", "--max-epochs 5": "--max-epochs 2"}  # saves minutes, costs little


class Followed(NamedTuple):
    """folder: in which a page has been followed."""

    folder: Path
    steps: list[Step]

    def printed(self, part: str) -> str:
        """What the block printed that contains `part`."""
        (output,) = [step.output for step in self.steps if part in step.command]
        return output

    def answers(self, part: str) -> list[dict[str, object]]:
        return list(json_values(self.printed(part)))


def follow(page: Tutorial) -> Followed:
    try:
        return Followed(page.folder, list(page.run()))
    finally:
        page.stop()


@pytest.fixture(scope="module")
def own_model(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    page = Tutorial("docs/tutorials/own-model.md", checkout(tmp_path_factory.mktemp("own model") / "parlance"))
    for shown, shorter in EPOCHS.items():
        assert shown in page.text
        page.text = page.text.replace(shown, shorter)
    return follow(page)


@pytest.fixture
def hub(own_model: Followed) -> Iterator[StandInHub]:
    with stand_in_hub() as hub:
        hub.add("Helsinki-NLP/opus-mt-de-en", own_model.folder / "exported/railway-de-en")
        yield hub


def test_own_model(own_model: Followed) -> None:
    scores = json_values(own_model.printed("--output hypotheses.txt").split("\n")[0])[0]
    assert scores["sentences"] == 500
    assert scores["bleu"] > 30
    assert "railway-2" in own_model.printed("checkpoints/railway-de-en checkpoints/railway-2")
    assert "platform" in (own_model.folder / "out.txt").read_text(encoding="utf-8").splitlines()[0]


def test_private_translator(hub: StandInHub, tmp_path: Path) -> None:
    page = Tutorial("docs/tutorials/private-translator.md", checkout(tmp_path / "parlance"), HF_ENDPOINT=hub.address)
    shown = '{"translatedText": "Ladies and gentlemen, this regional express leaves from track 7."}'
    assert shown in page.text
    # a model of a quarter of the epochs may be unsure, and says so in a notice
    page.text = page.text.replace(shown, shown.replace("}", ", …}"))
    followed = follow(page)
    (first,) = followed.answers("um 14.32 Uhr")
    assert re.search("14[.:]32", str(first["translatedText"]))
    refused, answered = followed.answers('Authorization: Bearer $KEY" -d q=')
    assert refused["code"] == "key_missing" and answered["translatedText"]
    assert followed.printed("notice.save").count("|") == 2
    (glossary,) = followed.answers("glossary")
    assert "track" in str(glossary["translatedText"])
    served = (page.folder / ".volumes/api.log").read_text(encoding="utf-8")
    assert "GET /languages 200" in served, "by the containers, and not by the server before them"
    files = [name for name in hub.fetched() if name == "model.safetensors"]
    assert len(files) == 2, "once for this machine and once for the volume of the containers"


def test_behind_nginx(hub: StandInHub, tmp_path: Path) -> None:
    page = Tutorial("docs/tutorials/behind-nginx.md", checkout(tmp_path / "parlance"), HF_ENDPOINT=hub.address)
    followed = follow(page)
    *tokens, (last, done) = events(followed.printed('"stream": true'))
    assert last == "done" and "".join(token["text"] for _, token in tokens) == done["translatedText"]
    codes = [line.split()[0] for line in followed.printed("retry-after").splitlines()[:4]]
    assert codes == ["200", "200", "200", "429"]
    guesses = [line.split() for line in followed.printed("guess 127.0.0.3").splitlines()]
    assert [guess[-1] for guess in guesses] == ["403", "429", "403"] and guesses[0][0] == "20"
    allowed, refused, *answering = (line.split() for line in followed.printed("$port/metrics").splitlines())
    assert (allowed, refused) == (["3", "200"], ["1", "429"]), "two servers count the guest's requests together"
    assert sorted(answering) == [["1"], ["2"]], "nginx asks both: one of them refused"
    assert "/translate" in (page.folder / "proxy/access.log").read_text(encoding="utf-8")
