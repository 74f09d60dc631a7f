"""PyPI `deepl`."""

from __future__ import annotations

import deepl
import pytest

from tests.clients.test_libretranslate_python import GERMAN, LINES, ours
from tests.serving import Server

pytestmark = pytest.mark.clients


@pytest.fixture
def client(server: Server) -> deepl.DeepLClient:
    deepl.http_client.max_network_retries = 0  # a permanent failure would be retried for 16 s
    return deepl.DeepLClient("any", server_url=server.base)


def test_translates(client: deepl.DeepLClient, server: Server) -> None:
    result = client.translate_text(GERMAN, source_lang="DE", target_lang="EN-US")
    assert (result.text, result.detected_source_lang) == (ours(server, GERMAN), "DE")
    assert result.billed_characters == len(GERMAN)
    several = client.translate_text([GERMAN, LINES], target_lang="EN-GB")
    assert [answer.text for answer in several] == [ours(server, GERMAN), ours(server, LINES)]


def test_lists(client: deepl.DeepLClient) -> None:
    assert {language.code for language in client.get_source_languages()} == {"DE", "EN"}
    assert {language.code for language in client.get_target_languages()} == {"EN-GB", "EN-US", "ES"}
    assert client.get_usage().any_limit_reached is False


def test_glossaries(client: deepl.DeepLClient) -> None:
    made = client.create_glossary("terms", "DE", "EN", {"bier": "beer", "haus": "house"})
    assert (made.name, made.entry_count, made.ready) == ("terms", 2, True)
    assert client.get_glossary_entries(made) == {"bier": "beer", "haus": "house"}
    assert [glossary.glossary_id for glossary in client.list_glossaries()] == [made.glossary_id]
    client.delete_glossary(made)
    assert client.list_glossaries() == []


def test_refusals_become_the_client_s_exceptions(client: deepl.DeepLClient) -> None:
    with pytest.raises(deepl.DeepLException, match="Bad request"):
        client.translate_text(GERMAN, source_lang="DE", target_lang="FR")


def test_key_is_required_with_a_keys_file(guarded: tuple[Server, str]) -> None:
    server, key = guarded
    deepl.http_client.max_network_retries = 0
    right = deepl.DeepLClient(key, server_url=server.base)
    result = right.translate_text(GERMAN, source_lang="DE", target_lang="EN-US")
    assert result.text == ours(server, GERMAN, Authorization=f"Bearer {key}")
    assert right.get_usage().character.count >= len(GERMAN)
    wrong = deepl.DeepLClient("wrong", server_url=server.base)
    for work in (
        lambda: wrong.translate_text(GERMAN, target_lang="EN-US"),
        wrong.get_usage,
        wrong.get_target_languages,
    ):
        with pytest.raises(deepl.AuthorizationException):
            work()
