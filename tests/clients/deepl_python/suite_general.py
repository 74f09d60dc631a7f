"""Keys, addresses, languages, usage, user agents; and the helpers of the package."""

from __future__ import annotations

import datetime
import platform
import re
from pathlib import Path

import deepl
import pytest
from deepl.util import parse_timestamp

from tests.clients.deepl_python.conftest import Ours
from tests.clients.deepl_server import KEY, TEXTS, Between
from tests.serving import Server

CODES = [*TEXTS, "en-us", "en-gb", "pt-br", "pt-pt"]


def test_version_is_that_of_the_package() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", deepl.__version__)


def test_regional_variants_are_removed() -> None:
    codes = {"EN-US": "EN", "en-GB": "EN", "de-CH": "DE", deepl.Language.PORTUGUESE_BRAZILIAN: "PT", "ace": "ACE"}
    assert {code: deepl.Language.remove_regional_variant(code) for code in codes} == codes


@pytest.mark.parametrize("code", CODES)
def test_translates_every_language(code: str, client: deepl.DeepLClient, ours: Ours) -> None:
    base = code.split("-")[0]
    text = TEXTS[base]
    result = client.translate_text(text, source_lang=base.upper(), target_lang="EN-US")
    assert result.text == (text if base == "en" else ours(text, base, "en"))
    assert (result.detected_source_lang, result.billed_characters) == (base.upper(), len(text))


def test_languages_are_constants(client: deepl.DeepLClient, ours: Ours) -> None:
    languages = {"source_lang": deepl.Language.ENGLISH, "target_lang": deepl.Language.GERMAN}
    assert client.translate_text(TEXTS["en"], **languages).text == ours()


def test_wrong_key_has_no_usage(deepl_server: Server) -> None:
    with pytest.raises(deepl.AuthorizationException):
        deepl.DeepLClient("wrong", server_url=deepl_server.base).get_usage()


def test_address_that_is_none() -> None:
    with pytest.raises(deepl.DeepLException):
        deepl.DeepLClient(KEY, server_url="http:/nowhere.example").get_usage()


def test_usage_is_a_sentence(client: deepl.DeepLClient) -> None:
    assert "Usage this billing period" in str(client.get_usage())


def test_languages_have_names_and_formality(client: deepl.DeepLClient) -> None:
    sources = {language.code: language for language in client.get_source_languages()}
    assert sources["EN"].name == "English"
    assert {str(language) for language in sources.values()} == set(sources)
    assert {language.supports_formality for language in sources.values()} == {None}
    targets = {language.code: language.supports_formality for language in client.get_target_languages()}
    assert None not in targets.values()
    assert targets["DE"]


def test_pairs_of_glossaries(client: deepl.DeepLClient) -> None:
    pairs = client.get_glossary_languages()
    assert {("en", "de"), ("de", "en")} <= {(pair.source_lang, pair.target_lang) for pair in pairs}


def test_key_chooses_the_address_of_deepl() -> None:
    assert deepl.DeepLClient("paid").server_url == "https://api.deepl.com"
    assert deepl.DeepLClient("free:fx").server_url == "https://api-free.deepl.com"


@pytest.mark.parametrize("application", [False, True])
@pytest.mark.parametrize("kind", ["platform", "plain", "own"])
def test_user_agent(kind: str, application: bool, between: Between, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "own":
        monkeypatch.setattr(deepl.http_client, "user_agent", "our own")
    client = deepl.DeepLClient(KEY, server_url=between.base, send_platform_info=kind == "platform")
    if application:
        client.set_app_info("parlance_tests", "1.2.3")
    client.get_usage()
    agent = between.headers["user-agent"]
    assert agent.startswith("our own" if kind == "own" else "deepl-python/")
    assert ("(" in agent, "requests/" in agent) == (kind == "platform", kind == "platform")
    assert agent.endswith(" parlance_tests/1.2.3") == application


def test_user_agent_of_an_unknown_platform(between: Between, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise OSError

    monkeypatch.setattr(platform, "platform", unknown)
    deepl.http_client._generate_user_agent.cache_clear()
    deepl.DeepLClient(KEY, server_url=between.base).get_usage()
    assert "(" not in between.headers["user-agent"]


def test_no_answer_is_a_connection_exception(between: Between, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)
    between.dropped = 1
    with pytest.raises(deepl.ConnectionException):
        deepl.DeepLClient(KEY, server_url=between.base).get_usage()


def test_rate_limit_is_too_many_requests(deepl_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 1)
    client = deepl.DeepLClient("rate-2", server_url=deepl_server.base, skip_language_check=True)
    client.translate_text(TEXTS["en"], target_lang="DE")
    with pytest.raises(deepl.TooManyRequestsException):
        client.translate_text(TEXTS["en"], target_lang="DE")


def test_quota_of_characters(deepl_server: Server, document: Path, tmp_path: Path) -> None:
    client = deepl.DeepLClient("quota-1", server_url=deepl_server.base)
    usage = client.get_usage()
    assert (usage.character.limit, usage.any_limit_reached) == (20, False)
    assert "Characters: 0 of 20" in str(usage)
    document.write_text("a" * 20)
    client.translate_document_from_filepath(document, tmp_path / "1.txt", source_lang="EN", target_lang="DE")
    usage = client.get_usage()
    assert usage.any_limit_reached
    assert usage.character.limit_reached
    assert not usage.team_document.limit_reached
    with pytest.raises(deepl.QuotaExceededException):
        client.translate_document_from_filepath(document, tmp_path / "2.txt", source_lang="EN", target_lang="DE")
    with pytest.raises(deepl.QuotaExceededException):
        client.translate_text(TEXTS["en"], target_lang="DE")


def test_quota_of_documents(deepl_server: Server) -> None:
    usage = deepl.DeepLClient("quota-2", server_url=deepl_server.base).get_usage()
    assert usage.document.limit == 1
    assert usage.team_document.limit == 1


def test_tab_separated_entries_are_read() -> None:
    assert deepl.convert_tsv_to_dict("bier\tbeer\n\nhaus \t house ") == {"bier": "beer", "haus": "house"}
    for wrong in ("bier", "bier\tbeer\tale", "bier\tbeer\nbier\tale"):
        with pytest.raises(ValueError, match=r"separator|duplicates"):
            deepl.convert_tsv_to_dict(wrong)


def test_entries_are_written_tab_separated() -> None:
    assert deepl.convert_dict_to_tsv({"bier ": " beer", "haus": "house"}) == "bier\tbeer\nhaus\thouse"
    for wrong in ("", "\t", "bi\ter"):
        with pytest.raises(ValueError, match=r"valid|character"):
            deepl.convert_dict_to_tsv({wrong: "beer"})


@pytest.mark.parametrize("fraction", ["250000", "2500001", "250000123"])
def test_times_are_read_to_the_microsecond(fraction: str) -> None:
    expected = datetime.datetime(2026, 5, 4, 3, 2, 1, 250000, tzinfo=datetime.UTC)
    assert parse_timestamp(f"2026-05-04T03:02:01.{fraction}+0000") == expected
