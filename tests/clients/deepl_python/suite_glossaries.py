"""Glossaries of one pair (v2) and of several (v3)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deepl
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries as Dictionary
from deepl.api_data import MultilingualGlossaryInfo

from tests.clients.deepl_python.conftest import Terms

NO_ID, UNKNOWN_ID = "no id", "0c5f3e0a-51c7-4b8e-8e0c-3f1d2a9b7c66"
CSV = 'bier,beer,de,en\n"das ""Haus""","house, home",de,en'
CSV_ENTRIES = {"bier": "beer", 'das "Haus"': "house, home"}
ENTRIES = {"Apple": "Apfel", "A%=&": "B&=%", "Δぁ": "深", "🪨": "🪵"}
MANY = {f"source {number}": f"target {number}" for number in range(10_000)}
Several = Callable[..., MultilingualGlossaryInfo]


@pytest.fixture
def several(client: deepl.DeepLClient, name: str) -> Iterator[Several]:
    made: list[MultilingualGlossaryInfo] = []

    def make(*dictionaries: Any) -> MultilingualGlossaryInfo:
        made.append(client.create_multilingual_glossary(name, dictionaries or [Dictionary("EN", "DE", ENTRIES)]))
        return made[-1]

    yield make
    for glossary in made:
        with contextlib.suppress(deepl.GlossaryNotFoundException):
            client.delete_multilingual_glossary(glossary)


def assert_unknown_ids_are_refused(call: Callable[..., Any], *arguments: str) -> None:
    with pytest.raises(deepl.DeepLException):
        call(NO_ID, *arguments)
    with pytest.raises(deepl.GlossaryNotFoundException):
        call(UNKNOWN_ID, *arguments)


def test_created(client: deepl.DeepLClient, terms: Terms, name: str) -> None:
    made = terms(name=name)
    assert (made.name, made.source_lang, made.target_lang, made.entry_count) == (name, "EN", "DE", 1)
    read = client.get_glossary(made.glossary_id)
    assert (read.name, read.creation_time, read.entry_count) == (name, made.creation_time, 1)


def test_created_from_csv(client: deepl.DeepLClient, name: str) -> None:
    made = client.create_glossary_from_csv(name, "DE", "EN", csv_data=CSV)
    assert made.entry_count == 2
    assert client.get_glossary_entries(made.glossary_id) == CSV_ENTRIES
    client.delete_glossary(made)


def test_wrong_ones_are_refused(client: deepl.DeepLClient, name: str) -> None:
    for wrong in ((("", "EN", "DE"), ENTRIES), ((name, "EN", "DE"), {})):
        with pytest.raises(ValueError, match="must not be empty"):
            client.create_glossary(*wrong[0], wrong[1])
    with pytest.raises(deepl.DeepLException):
        client.create_glossary(name, "EN", "XX", ENTRIES)


def test_large_one(client: deepl.DeepLClient, terms: Terms) -> None:
    made = terms(MANY)
    assert made.entry_count == len(MANY)
    assert client.get_glossary_entries(made) == MANY


def test_read(client: deepl.DeepLClient, terms: Terms) -> None:
    made = terms(ENTRIES)
    read = client.get_glossary(made.glossary_id)
    assert (read.glossary_id, read.name, read.entry_count) == (made.glossary_id, made.name, len(ENTRIES))
    assert (read.source_lang, read.target_lang) == ("EN", "DE")
    assert_unknown_ids_are_refused(client.get_glossary)


def test_entries_are_read(client: deepl.DeepLClient, terms: Terms) -> None:
    made = terms(ENTRIES)
    assert client.get_glossary_entries(made) == client.get_glossary_entries(made.glossary_id) == ENTRIES
    assert_unknown_ids_are_refused(client.get_glossary_entries)


def test_listed(client: deepl.DeepLClient, terms: Terms) -> None:
    made = terms()
    assert made.glossary_id in {glossary.glossary_id for glossary in client.list_glossaries()}


def test_deleted(client: deepl.DeepLClient, terms: Terms) -> None:
    made = terms()
    client.delete_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)
    assert_unknown_ids_are_refused(client.delete_glossary)


def test_translates_terms(client: deepl.DeepLClient, terms: Terms) -> None:
    english, german = ["Apple", "Banana"], ["Apfel", "Banane"]
    there = terms(dict(zip(english, german, strict=True)))
    back = terms(dict(zip(german, english, strict=True)), "DE", "EN")
    assert [result.text for result in client.translate_text_with_glossary(english, there)] == german
    for target in (None, "EN-US"):
        results = client.translate_text_with_glossary(german, back, target_lang=target)
        assert [result.text for result in results] == english
    for glossary in (back, back.glossary_id):
        results = client.translate_text(german, source_lang="DE", target_lang="EN-US", glossary=glossary)
        assert [result.text for result in results] == english


def assert_document_has_terms(client: deepl.DeepLClient, glossary: Any, path: Path) -> None:
    path.write_text("artist\nprize")
    output = path.with_name("output.txt")
    client.translate_document_from_filepath(path, output, source_lang="EN", target_lang="DE", glossary=glossary)
    assert output.read_text() == "Maler\nGewinn"


def test_translates_a_document(client: deepl.DeepLClient, terms: Terms, document: Path) -> None:
    assert_document_has_terms(client, terms({"artist": "Maler", "prize": "Gewinn"}), document)


def assert_misuse_is_refused(client: deepl.DeepLClient, glossary: Any, wrong_pair: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="source_lang is required"):
        client.translate_text("Hello", target_lang="DE", glossary=glossary)
    with pytest.raises(ValueError, match="glossary"):
        client.translate_text("Hello", source_lang=wrong_pair[0], target_lang=wrong_pair[1], glossary=glossary)
    with pytest.raises(deepl.DeepLException, match='target_lang="EN" is deprecated'):
        client.translate_text("Hallo", source_lang="DE", target_lang="EN", glossary=glossary.glossary_id)
    with pytest.raises(ValueError, match="GlossaryInfo"):
        client.translate_text_with_glossary("Hello", glossary=glossary.glossary_id)


def test_glossary_of_another_pair(client: deepl.DeepLClient, terms: Terms) -> None:
    assert_misuse_is_refused(client, terms(), ("DE", "EN"))


def test_several_created(client: deepl.DeepLClient, several: Several, name: str) -> None:
    made = several(Dictionary("EN", "DE", ENTRIES), Dictionary("DE", "EN", {"Hallo": "Hello"}))
    for glossary in (made, client.get_multilingual_glossary(made.glossary_id)):
        assert (glossary.name, glossary.creation_time) == (name, made.creation_time)
        kept = {(each.source_lang, each.target_lang): each.entry_count for each in glossary.dictionaries}
        assert kept == {("EN", "DE"): len(ENTRIES), ("DE", "EN"): 1}


def test_dictionary_of_several_changed(client: deepl.DeepLClient, several: Several) -> None:
    made = several(Dictionary("EN", "DE", {"Hello": "Hallo"}), Dictionary("DE", "EN", {"Hallo": "Hello"}))
    changed = client.update_multilingual_glossary_dictionary(made, Dictionary("EN", "DE", {"Hello": "Hi", "a": "b"}))
    assert {(each.source_lang, each.entry_count) for each in changed.dictionaries} == {("EN", 2), ("DE", 1)}


def test_name_of_several_changed(client: deepl.DeepLClient, several: Several) -> None:
    made = several()
    assert client.update_multilingual_glossary_name(made, "another").name == "another"
    assert client.get_multilingual_glossary(made.glossary_id).name == "another"
    with pytest.raises(ValueError, match="name must not be empty"):
        client.update_multilingual_glossary_name(made, "")


def test_dictionary_of_several_replaced(client: deepl.DeepLClient, several: Several) -> None:
    made = several()
    assert client.replace_multilingual_glossary_dictionary(made, Dictionary("EN", "DE", {"a": "b"})).entry_count == 1
    read = client.get_multilingual_glossary_entries(made.glossary_id, "EN", "DE")
    assert [dictionary.entries for dictionary in read.dictionaries] == ["a\tb"]


def test_several_created_from_csv(client: deepl.DeepLClient, name: str) -> None:
    made = client.create_multilingual_glossary_from_csv(name, "DE", "EN", csv_data=CSV)
    assert [(each.source_lang, each.target_lang, each.entry_count) for each in made.dictionaries] == [("DE", "EN", 2)]
    read = client.get_multilingual_glossary_entries(made.glossary_id, "DE", "EN")
    assert deepl.convert_tsv_to_dict(read.dictionaries[0].entries) == CSV_ENTRIES
    client.delete_multilingual_glossary(made)


def test_several_wrong_ones_are_refused(client: deepl.DeepLClient, name: str) -> None:
    for wrong, entries in (("", ENTRIES), (name, {})):
        with pytest.raises(ValueError, match="must not be empty"):
            client.create_multilingual_glossary(wrong, [Dictionary("EN", "DE", entries)])
    with pytest.raises(deepl.DeepLException):
        client.create_multilingual_glossary(name, [Dictionary("EN", "XX", ENTRIES)])


def test_several_large(client: deepl.DeepLClient, several: Several) -> None:
    made = several(Dictionary("EN", "DE", MANY))
    assert [dictionary.entry_count for dictionary in made.dictionaries] == [len(MANY)]
    read = client.get_multilingual_glossary_entries(made, "EN", "DE")
    assert deepl.convert_tsv_to_dict(read.dictionaries[0].entries) == MANY


def test_several_read(client: deepl.DeepLClient, several: Several, name: str) -> None:
    made = several()
    read = client.get_multilingual_glossary(made.glossary_id)
    assert (read.glossary_id, read.name) == (made.glossary_id, name)
    assert_unknown_ids_are_refused(client.get_multilingual_glossary)


def test_entries_of_several_are_read(client: deepl.DeepLClient, several: Several) -> None:
    made = several()
    for glossary in (made, made.glossary_id):
        read = client.get_multilingual_glossary_entries(glossary, "EN", "DE")
        assert [deepl.convert_tsv_to_dict(dictionary.entries) for dictionary in read.dictionaries] == [ENTRIES]
    assert_unknown_ids_are_refused(client.get_multilingual_glossary_entries, "EN", "DE")


def test_several_listed(client: deepl.DeepLClient, several: Several) -> None:
    made = several()
    assert made.glossary_id in {glossary.glossary_id for glossary in client.list_multilingual_glossaries()}


def test_several_deleted(client: deepl.DeepLClient, several: Several) -> None:
    made = several()
    client.delete_multilingual_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(made.glossary_id)
    assert_unknown_ids_are_refused(client.delete_multilingual_glossary)


def test_dictionary_of_several_deleted(client: deepl.DeepLClient, several: Several) -> None:
    made = several(Dictionary("EN", "DE", ENTRIES), Dictionary("DE", "EN", {"Hallo": "Hello"}))
    client.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="DE")
    (left,) = client.get_multilingual_glossary(made.glossary_id).dictionaries
    assert (left.source_lang, left.target_lang) == ("DE", "EN")
    with pytest.raises(ValueError, match="must provide dictionary or both"):
        client.delete_multilingual_glossary_dictionary(made)

    def delete(glossary: str) -> None:
        client.delete_multilingual_glossary_dictionary(glossary, source_lang="EN", target_lang="DE")

    assert_unknown_ids_are_refused(delete)


def test_several_translate_terms(client: deepl.DeepLClient, several: Several) -> None:
    german = {"Apfel": "Apple", "Banane": "Banana"}
    made = several(Dictionary("EN", "DE", ENTRIES), Dictionary("DE", "EN", german))
    for glossary in (made, made.glossary_id):
        results = client.translate_text(list(german), source_lang="DE", target_lang="EN-US", glossary=glossary)
        assert [result.text for result in results] == list(german.values())


def test_several_translate_a_document(client: deepl.DeepLClient, several: Several, document: Path) -> None:
    made = several(Dictionary("EN", "DE", {"artist": "Maler", "prize": "Gewinn"}))
    assert_document_has_terms(client, made, document)


def test_several_of_other_pairs(client: deepl.DeepLClient, several: Several) -> None:
    assert_misuse_is_refused(client, several(), ("ES", "DE"))
