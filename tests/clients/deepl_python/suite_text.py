"""Texts, their options, styles and translation memories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import deepl
import pytest

from tests.clients.deepl_python.conftest import Ours
from tests.clients.deepl_server import KEY, TEXTS
from tests.serving import Server

SENTENCE = "the dog sleeps in the house and we see the garden"  # long enough to be detected
PAGE = "\n<!DOCTYPE html>\n<html>\n  <body>\n    <p>We see the house and the dog.</p>\n  </body>\n</html>\n"
STYLE = "6f1c9f52-0d4e-4f8e-9a52-51b1d2a4c0aa"


def test_one_text(client: deepl.DeepLClient, ours: Ours) -> None:
    result = client.translate_text(SENTENCE, target_lang="DE")
    assert (result.text, str(result)) == (ours(SENTENCE), ours(SENTENCE))
    assert (result.detected_source_lang, result.billed_characters) == ("EN", len(SENTENCE))


@pytest.mark.parametrize("model_type", list(deepl.ModelType))
def test_kind_of_model_is_told(model_type: deepl.ModelType, client: deepl.DeepLClient) -> None:
    assert client.translate_text(TEXTS["en"], target_lang="DE", model_type=model_type).model_type_used is not None


def test_texts_of_two_languages(client: deepl.DeepLClient, ours: Ours) -> None:
    french = "le chien dort dans la maison et nous voyons le jardin"
    results = client.translate_text([french, SENTENCE], target_lang="EN-US")
    assert [result.text for result in results] == [ours(french, "fr", "en"), SENTENCE]
    assert [result.detected_source_lang for result in results] == ["FR", "EN"]


def test_texts_of_a_generator(client: deepl.DeepLClient, ours: Ours) -> None:
    results = client.translate_text((SENTENCE for _ in range(3)), target_lang="DE")
    assert [(result.text, result.detected_source_lang) for result in results] == [(ours(SENTENCE), "EN")] * 3


def test_source_language_in_any_form(client: deepl.DeepLClient, ours: Ours) -> None:
    (listed,) = [language for language in client.get_source_languages() if language.code == "EN"]
    for source in (None, "EN", "en", "eN", listed):
        result = client.translate_text(SENTENCE, source_lang=source, target_lang="DE")
        assert (result.text, result.detected_source_lang) == (ours(SENTENCE), "EN")


def test_target_language_in_any_form(client: deepl.DeepLClient, ours: Ours) -> None:
    (listed,) = [language for language in client.get_target_languages() if language.code == "DE"]
    for target in ("DE", "de", "De", listed):
        assert client.translate_text(SENTENCE, target_lang=target).text == ours(SENTENCE)
    for old in ("EN", "PT"):
        with pytest.raises(deepl.DeepLException, match="deprecated"):
            client.translate_text(TEXTS["de"], target_lang=old)


def test_unknown_language_is_named(client: deepl.DeepLClient) -> None:
    with pytest.raises(deepl.DeepLException, match=r"target_lang.*not supported"):
        client.translate_text(TEXTS["en"], target_lang="XX")
    with pytest.raises(deepl.DeepLException, match=r"source_lang.*not supported"):
        client.translate_text(TEXTS["en"], source_lang="XX", target_lang="DE")


def test_error_of_an_unknown_language_names_the_field(deepl_server: Server) -> None:
    client = deepl.DeepLClient(KEY, server_url=deepl_server.base, skip_language_check=True)
    with pytest.raises(deepl.DeepLException, match="target_lang"):
        client.translate_text(TEXTS["en"], target_lang="XX")
    with pytest.raises(deepl.DeepLException, match="source_lang"):
        client.translate_text(TEXTS["en"], source_lang="XX", target_lang="DE")


def test_text_is_a_text(client: deepl.DeepLClient) -> None:
    for wrong in ({"text": 123}, {}):
        with pytest.raises(TypeError):
            client.translate_text(**wrong, target_lang="DE")


def test_client_waits_for_the_rate(deepl_server: Server, ours: Ours) -> None:
    client = deepl.DeepLClient("rate-1", server_url=deepl_server.base, skip_language_check=True)
    results = [client.translate_text(SENTENCE, target_lang="DE") for _ in range(2)]
    assert [result.text for result in results] == [ours(SENTENCE)] * 2


def test_formality(client: deepl.DeepLClient) -> None:
    def translate(formality: str | deepl.Formality, target: str = "DE") -> None:
        assert client.translate_text(SENTENCE, target_lang=target, formality=formality).text

    with pytest.raises(deepl.DeepLException, match="formality"):
        translate("loud")
    for formality in ("default", "DEFAULT", deepl.Formality.PREFER_LESS, deepl.Formality.PREFER_MORE):
        translate(formality)
    translate("prefer_more", "TR")
    with pytest.raises(deepl.DeepLException, match="formality"):
        translate("more", "TR")
    for formality in ("less", "Less", deepl.Formality.MORE):
        translate(formality)


def test_preserved_formatting(client: deepl.DeepLClient, ours: Ours) -> None:
    for preserved in (True, False):
        assert client.translate_text(SENTENCE, target_lang="DE", preserve_formatting=preserved).text == ours(SENTENCE)


def test_context(client: deepl.DeepLClient, ours: Ours) -> None:
    german = "das ist scharf und das messer auch"
    for context in (None, "das ist ein messer"):
        assert client.translate_text(german, target_lang="EN-US", context=context).text == ours(german, "de", "en")


def test_splitting_into_sentences(client: deepl.DeepLClient) -> None:
    text = "We see the house.\n  The dog sleeps in it."
    for split in (*deepl.SplitSentences, "0", "1", "nonewlines"):
        assert client.translate_text(text, target_lang="DE", split_sentences=split).text
    with pytest.raises(deepl.DeepLException, match="split_sentences"):
        client.translate_text(text, target_lang="DE", split_sentences="everywhere")


def test_tags(client: deepl.DeepLClient) -> None:
    for kind in ("html", "xml"):
        result = client.translate_text(PAGE, source_lang="EN", target_lang="DE", tag_handling=kind)
        assert result.text.startswith("\n<!DOCTYPE html>\n<html>")


def test_empty_key() -> None:
    with pytest.raises(ValueError, match="auth_key must not be empty"):
        deepl.DeepLClient("")


def test_wrong_key_translates_nothing(deepl_server: Server) -> None:
    with pytest.raises(deepl.AuthorizationException, match="Authorization failure"):
        deepl.DeepLClient("wrong", server_url=deepl_server.base).translate_text(SENTENCE, target_lang="DE")


def test_empty_text(client: deepl.DeepLClient) -> None:
    with pytest.raises(ValueError, match="empty"):
        client.translate_text("", target_lang="DE")


def test_codes_of_mixed_case(client: deepl.DeepLClient, ours: Ours) -> None:
    german = "der hund schläft in dem haus und wir sehen den garten"
    for source, target in ((None, "en-us"), (None, "EN-us"), ("de", "EN-US"), ("dE", "En-gb")):
        result = client.translate_text(german, source_lang=source, target_lang=target)
        assert (result.text, result.detected_source_lang) == (ours(german, "de", "en"), "DE")


def test_extra_fields_win(client: deepl.DeepLClient, ours: Ours) -> None:
    extra = {"target_lang": "FR", "debug": "1"}
    result = client.translate_text(SENTENCE, target_lang="DE", extra_body_parameters=extra)
    assert result.text == ours(SENTENCE, "en", "fr")
    assert (result.detected_source_lang, result.billed_characters) == ("EN", len(SENTENCE))


def test_rephrases(client: deepl.DeepLClient) -> None:
    result = client.rephrase_text(SENTENCE, target_lang="EN-GB")
    assert result.detected_source_language.upper() == "EN"


def test_style_rules_are_listed(client: deepl.DeepLClient) -> None:
    assert client.get_all_style_rules(detailed=True)


def test_style_rules_are_kept(client: deepl.DeepLClient) -> None:
    made = client.create_style_rule(name="ours", language="en")
    assert client.get_style_rule(made.style_id).name == "ours"
    client.delete_style_rule(made.style_id)


def test_style_rules_are_taken_as_objects(client: deepl.DeepLClient) -> None:
    made = client.create_style_rule(name="ours", language="en")
    assert client.update_style_rule_name(made, "theirs").name == "theirs"
    client.delete_style_rule(made)


def test_style_rules_have_names_and_languages(client: deepl.DeepLClient) -> None:
    calls: list[tuple[Callable[..., Any], dict[str, str]]] = [
        (client.create_style_rule, {"name": "", "language": "en"}),
        (client.create_style_rule, {"name": "ours", "language": ""}),
        (client.get_style_rule, {"style_rule": ""}),
        (client.update_style_rule_name, {"style_rule": STYLE, "name": ""}),
        (client.delete_style_rule, {"style_rule": ""}),
        (client.create_style_rule_custom_instruction, {"style_rule": STYLE, "label": "", "prompt": "be brief"}),
        (client.get_style_rule_custom_instruction, {"style_rule": STYLE, "instruction_id": ""}),
    ]
    for call, arguments in calls:
        with pytest.raises(ValueError, match="must not be empty"):
            call(**arguments)


def test_style_of_a_text(client: deepl.DeepLClient) -> None:
    assert client.translate_text(SENTENCE, target_lang="DE", style_rule=STYLE).text


def test_translation_memories_are_listed(client: deepl.DeepLClient) -> None:
    assert client.list_translation_memories()


def test_translation_memory_of_a_text(client: deepl.DeepLClient) -> None:
    assert client.translate_text(SENTENCE, target_lang="DE", translation_memory=STYLE).text


def test_translation_memory_with_a_threshold(client: deepl.DeepLClient) -> None:
    options: dict[str, Any] = {"translation_memory": STYLE, "translation_memory_threshold": 80}
    assert client.translate_text(SENTENCE, target_lang="DE", **options).text
