"""A translator of several language pairs, served: listed, detected and translated with the pair's own target token."""

from __future__ import annotations

import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models import checkpoint as checkpoints
from models.networks.loading import load_network
from models.scoring import score
from tests import tiny
from tests.serving import Server, serving
from tests.tiny import ENGLISH, GERMAN
from training.data.tokenizer_training import EOS
from training.evaluation.model_outputs import translate

PAIRS = [("de", "en"), ("de", "fr"), ("en", "de")]
TEXTS = {"de": GERMAN, "en": ENGLISH}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("multilingual")
    tiny.write_multilingual(root / "many", PAIRS)
    tiny.write_translator(root / "zz-de-en", "de", "en")
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    with serving(root, root, ADMIN_KEY="correct-horse-battery", TRANSLATION_CACHE_BYTES="1000000") as server:
        yield server


@pytest.fixture(scope="module")
def written(root: Path) -> dict[tuple[str, str], list[str]]:
    """What each pair of the model writes, decoded without a server."""
    checkpoint = checkpoints.read(root / "many")
    network = load_network(checkpoint)
    return {(s, t): translate(checkpoint.for_pair(s, t), network, TEXTS[s], beam=4) for s, t in PAIRS}


def refusal(server: Server, path: str, body: dict[str, Any]) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.ask(path, body)
    return refused.value.code, refused.value.read().decode()


def test_each_pair_is_translated_with_its_own_target_token(
    server: Server, written: dict[tuple[str, str], list[str]]
) -> None:
    assert written["de", "en"] != written["de", "fr"]
    for source, target in PAIRS * 2:  # the second time from the cache
        texts = server.ask("/translate", {"q": TEXTS[source], "source": source, "target": target})["translatedText"]
        assert texts == written[source, target]
    detected = server.ask("/translate", {"q": GERMAN[0], "source": "auto", "target": "fr"})
    assert detected["translatedText"] == written["de", "fr"][0]
    assert detected["detectedLanguage"]["language"] == "de"
    french = server.ask("/language/translate/v2", {"q": ENGLISH[0], "target": "de"})["data"]["translations"][0]
    assert french == {"translatedText": written["en", "de"][0], "detectedSourceLanguage": "en"}


def test_every_pair_is_listed(server: Server) -> None:
    many, single = server.ask("/models")
    assert (many["name"], many["source_language"], many["target_language"]) == ("many", None, None)
    assert many["language_pairs"] == [{"source": source, "target": target} for source, target in PAIRS]
    assert single["language_pairs"] == [{"source": "de", "target": "en"}]
    targets = {language["code"]: sorted(language["targets"]) for language in server.ask("/languages")}
    assert targets == {"de": ["en", "fr"], "en": ["de", "fr"], "fr": []}  # en → fr through German
    google = server.ask("/language/translate/v2/languages")["data"]["languages"]
    assert [language["language"] for language in google] == ["de", "en", "fr"]
    deepl = server.ask("/v2/languages?type=target")
    assert {"DE", "FR"} <= {language["language"] for language in deepl}
    assert [language["language"] for language in server.ask("/v2/languages?type=source")] == ["DE", "EN"]


def test_a_pair_that_the_model_lacks_is_missing_as_any_other(server: Server) -> None:
    code, message = refusal(server, "/translate", {"q": "bon", "source": "fr", "target": "en"})
    assert code == 400
    assert "There is no model for fr → en here. Loaded pairs: de → en, de → fr, en → de." in message
    body = {"q": "gut", "source": "de", "target": "fr", "model": "zz-de-en"}
    assert refusal(server, "/translate", body)[0] == 404


def test_one_model_is_its_own_second_one(server: Server, written: dict[tuple[str, str], list[str]]) -> None:
    answer = server.ask("/translate", {"q": ENGLISH[0], "source": "en", "target": "fr"})
    german = {"q": written["en", "de"][0], "source": "de", "target": "fr"}
    assert answer["translatedText"] == server.ask("/translate", german)["translatedText"]
    (notice,) = [notice for notice in answer["notices"] if notice["code"] == "pivot"]
    assert notice["models"] == ["many", "many"]
    assert notice["message"] == "Translated through German, by many twice: no model here translates it directly."


def test_the_first_model_by_name_answers_a_pair(server: Server, written: dict[tuple[str, str], list[str]]) -> None:
    body = {"q": GERMAN[1], "source": "de", "target": "en"}
    assert server.ask("/translate", body)["translatedText"] == written["de", "en"][1]
    other = server.ask("/translate", {**body, "model": "zz-de-en"})["translatedText"]
    assert other != written["de", "en"][1]


def test_inspections_take_the_target_language(server: Server, root: Path) -> None:
    checkpoint = checkpoints.read(root / "many")
    network = load_network(checkpoint)
    sums = {}
    for target in ("en", "fr"):
        own, body = checkpoint.for_pair("de", target), {"source": GERMAN[0], "model": "many", "target_language": target}
        seen = server.ask("/attention", {**body, "kinds": ["cross"], "include": ["alignment"]})
        first, *_ = seen["source"]["tokens"]
        assert (first["piece"], first["special"]) == (f">>{target}<<", True)
        assert len(seen["source"]["tokens"]) == len(own.source_ids(GERMAN[0]))
        assert seen["target"]["text"] == translate(own, network, [GERMAN[0]], beam=4)[0]
        walked = server.ask("/walkthrough", {**body, "side": "encoder", "position": 0})
        assert walked["source_tokens"][0]["piece"] == f">>{target}<<"
        scored = server.ask("/score", {**body, "target": "we see", "distribution": "network"})
        ids = [*own.target_ids("we see"), EOS]
        nats = score(network, own.source_ids(GERMAN[0]), ids).log_probabilities
        sums[target] = scored["logprob"]
        assert scored["logprob"] == pytest.approx(float(sum(nats)), abs=1e-3)
    assert abs(sums["en"] - sums["fr"]) > 0.01


def test_an_inspection_without_a_target_language_is_refused(server: Server) -> None:
    body = {"source": "der hund", "model": "many"}
    code, message = refusal(server, "/attention", body)
    assert (code, "give one as target_language: de, en, fr." in message) == (422, True)
    code, message = refusal(server, "/walkthrough", {**body, "target_language": "zh"})
    assert "many does not translate into zh: de, en, fr." in message
    # a model of one pair needs none, and takes its own
    single = {"source": "der hund", "model": "zz-de-en"}
    alone, chosen = (
        server.ask("/score", {**single, "target": "the dog", **named}) for named in ({}, {"target_language": "en"})
    )
    assert alone == chosen
    code, message = refusal(server, "/score", {**single, "target": "the dog", "target_language": "fr"})
    assert "zz-de-en does not translate into fr: en." in message


@pytest.mark.slow  # a pool of its own
def test_reload_and_unload_change_every_pair(root: Path, server: Server) -> None:
    key = {"Authorization": "Bearer correct-horse-battery"}
    assert server.ask("/models/many/reload", {}, **key)["model"]["version"] == 2
    assert server.ask("/translate", {"q": GERMAN[0], "source": "de", "target": "fr"})["translatedText"]
    server.ask("/models/many/unload", {}, **key)
    assert refusal(server, "/translate", {"q": "gut", "source": "de", "target": "fr"})[0] == 400
    assert server.ask("/models/many/load", {}, **key)["model"]["language_pairs"][1] == {"source": "de", "target": "fr"}
    assert server.ask("/translate", {"q": GERMAN[0], "source": "de", "target": "fr"})["translatedText"]
