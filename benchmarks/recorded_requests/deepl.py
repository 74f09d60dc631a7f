"""Requests to DeepL's routes and to the translation-extension routes."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from benchmarks.recorded_requests.request import BEER, FORM, LONG, WORLD, Requests
from benchmarks.recorded_requests.small_files import files_of_each_kind, multipart_form

_SAVED = {"glossary": r'"glossary_id":\s*"([^"]+)"'}
_DRINKS = {
    "name": "drinks",
    "source_lang": "de",
    "target_lang": "en",
    "entries": "bier\ttea\nhund\tcat",
    "entries_format": "tsv",
}
_GERMAN_ENGLISH = {"source_lang": "de", "target_lang": "en", "entries": "bier\tale", "entries_format": "tsv"}
_ENGLISH_SPANISH = {"source_lang": "en", "target_lang": "es", "entries": "beer,agua", "entries_format": "csv"}
# Fields of _DRINKS that make it a glossary to refuse.
_REFUSED_GLOSSARIES: tuple[dict[str, Any], ...] = (
    {"entries": ""},
    {"entries": "bier"},
    {"entries": "bier\ttea\tx"},
    {"entries": "bier\ttea\nbier\tbeer"},
    {"entries": "\ttea"},
    {"entries": "a" * 2000 + "\tx"},
    {"entries_format": "xml"},
    {"name": ""},
    {"name": 5},
    {"source_lang": "fr"},
    {"target_lang": "de"},
    {"unknown": 1},
)


def deepl(r: Requests) -> None:
    def ask(**fields: Any) -> None:
        r.post("/v2/translate", {"text": [BEER], "target_lang": "EN"} | fields)

    for fields in (
        {},
        {"source_lang": "DE"},
        {"source_lang": "de", "target_lang": "en-gb"},
        {"source_lang": "EN", "target_lang": "ES", "text": ["hello world", "i want a beer"]},
        {"text": []},
        {"text": BEER},
        {"text": [""]},
        {"text": ["x"] * 51},
        {"text": [5]},
        {"target_lang": "FR"},
        {"target_lang": ""},
        {"target_lang": "EN-AU"},
        {"source_lang": "EN-GB", "target_lang": "ES"},
        {"source_lang": "FR"},
        {"tag_handling": "html", "text": ["<p>ich möchte <b>ein bier</b></p>"]},
        {"tag_handling": "xml", "text": ["<a>ich möchte <x>ein bier</x></a>"], "ignore_tags": ["x"]},
        {"tag_handling": "xml", "text": ["<a>ich möchte <b>ein bier</a>"]},
        {"tag_handling": "pdf"},
        {"tag_handling": "html", "tag_handling_version": "v2"},
        {"ignore_tags": ["x"]},
        {"splitting_tags": ["x"]},
        {"non_splitting_tags": ["x"]},
        {"outline_detection": False},
        {"formality": "prefer_more"},
        {"formality": "more"},
        {"formality": "x"},
        {"split_sentences": "0"},
        {"split_sentences": "nonewlines"},
        {"split_sentences": "x"},
        {"split_sentences": 1},
        {"preserve_formatting": True, "show_billed_characters": True, "context": "im wirtshaus"},
        {"model_type": "quality_optimized"},
        {"model_type": "x"},
        {"style_id": "x"},
        {"translation_memory_id": "x"},
        {"custom_instructions": ["x"]},
        {"custom_instructions": []},
        {"glossary_id": "559192ed-8e23-4b3c-b7a3-2fa1c6f5a9a2", "source_lang": "DE"},
        {"glossary_id": "x"},
        {"glossary_ids": ["x"] * 6},
        {"unknown": 1},
        {"text": [LONG]},
        {"text": ["a" * 100_001]},
    ):
        ask(**fields)
    r.post("/v2/translate", {"text": [BEER, WORLD], "target_lang": "EN"}, kind=FORM)
    r.post(
        "/v2/translate", {"text": BEER, "target_lang": "EN", "tag_handling": "html", "split_sentences": "0"}, kind=FORM
    )
    r.post("/v2/translate", {"text": BEER, "target_lang": "EN", "ignore_tags": "a,b", "tag_handling": "xml"}, kind=FORM)
    r.post("/v2/translate", b"{")
    r.post("/v2/translate", {})
    r.get("/v2/translate")
    for kind in ("source", "target", "x", ""):
        r.get(f"/v2/languages?type={kind}")
    r.get("/v2/languages")
    r.post("/v2/languages", {"type": "target"}, kind=FORM)
    r.post("/v2/languages?type=source")
    r.get("/v2/usage")
    r.post("/v2/usage")
    r.get("/v2/glossary-language-pairs")
    r.get("/v2/nothing")
    r.get("/v3/nothing")


def glossaries(r: Requests) -> None:
    _glossaries_of_one_pair(r)
    _glossaries_of_several_pairs(r)
    _edited_glossaries(r)


def _glossaries_of_one_pair(r: Requests) -> None:
    """/v2/glossaries, and translations with them."""
    r.get("/v2/glossaries")
    r.post("/v2/glossaries", _DRINKS, save=_SAVED)
    r.get("/v2/glossaries")
    r.get("/v2/glossaries/{{glossary}}")
    r.get("/v2/glossaries/{{glossary}}/entries")
    r.get("/v2/glossaries/{{glossary}}/entries", headers={"Accept": "text/tab-separated-values"})
    r.get("/v2/glossaries/{{glossary}}/entries", headers={"Accept": "application/json"})
    r.post("/v2/translate", {"text": [BEER], "source_lang": "DE", "target_lang": "EN", "glossary_id": "{{glossary}}"})
    r.post("/v2/translate", {"text": [BEER], "target_lang": "EN", "glossary_id": "{{glossary}}"})
    r.post("/v2/translate", {"text": ["beer"], "source_lang": "EN", "target_lang": "ES", "glossary_id": "{{glossary}}"})
    r.post("/translate", {"q": BEER, "source": "de", "target": "en", "glossary": "{{glossary}}"})
    r.post(
        "/translate", {"q": BEER, "source": "de", "target": "en", "glossary": "{{glossary}}", "beam_size": 1}, kind=FORM
    )
    r.post(
        "/v2/glossaries",
        _DRINKS | {"entries": 'bier,tea\r\n"ein, zwei","one ""two"""\r\n', "entries_format": "csv", "name": "csv"},
        save={"csv": _SAVED["glossary"]},
    )
    r.get("/v2/glossaries/{{csv}}/entries")
    for fields in _REFUSED_GLOSSARIES:
        r.post("/v2/glossaries", _DRINKS | fields, save={"extra": _SAVED["glossary"]})
    r.post("/v2/glossaries", {"name": "x"})
    r.post(
        "/v2/glossaries",
        {k: str(v) for k, v in _DRINKS.items()} | {"name": "form"},
        kind=FORM,
        save={"form": _SAVED["glossary"]},
    )
    r.add("DELETE", "/v2/glossaries/{{form}}")
    r.add("DELETE", "/v2/glossaries/{{form}}")
    r.get("/v2/glossaries/{{form}}")
    r.get("/v2/glossaries/no-such-id")


def _glossaries_of_several_pairs(r: Requests) -> None:
    """/v3/glossaries, and translations with one or several of them."""
    r.get("/v3/glossaries")
    r.post(
        "/v3/glossaries",
        {"name": "two", "dictionaries": [_GERMAN_ENGLISH, _ENGLISH_SPANISH]},
        save={"two": _SAVED["glossary"]},
    )
    r.get("/v3/glossaries/{{two}}")
    r.get("/v3/glossaries/{{two}}/entries?source_lang=de&target_lang=en")
    r.get("/v3/glossaries/{{two}}/entries?source_lang=de&target_lang=es")
    r.get("/v3/glossaries/{{two}}/entries")
    r.get("/v2/glossaries/{{two}}")
    r.post(
        "/v2/translate", {"text": ["i want a beer"], "source_lang": "EN", "target_lang": "ES", "glossary_id": "{{two}}"}
    )
    r.post(
        "/v2/translate",
        {"text": [BEER], "source_lang": "DE", "target_lang": "EN", "glossary_ids": ["{{two}}", "{{glossary}}"]},
    )
    r.post(
        "/v2/translate",
        {"text": [BEER], "source_lang": "DE", "target_lang": "EN", "glossary_ids": ["{{glossary}}", "{{two}}"]},
    )


def _edited_glossaries(r: Requests) -> None:
    """Dictionaries of the glossary "two" changed, replaced and deleted, and then the glossary itself."""
    r.add("PATCH", "/v3/glossaries/{{two}}", {"name": "renamed"})
    r.add("PATCH", "/v3/glossaries/{{two}}", {"dictionaries": [_GERMAN_ENGLISH | {"entries": "hund\tpuppy"}]})
    r.add("PATCH", "/v3/glossaries/{{two}}", {"dictionaries": [_GERMAN_ENGLISH | {"entries": "hund"}]})
    r.add("PATCH", "/v3/glossaries/{{two}}", {})
    r.add("PATCH", "/v3/glossaries/no-such-id", {"name": "x"})
    r.get("/v3/glossaries/{{two}}/entries?source_lang=de&target_lang=en")
    r.add("PUT", "/v3/glossaries/{{two}}/dictionaries", _GERMAN_ENGLISH | {"entries": "welt\tearth"})
    r.add("PUT", "/v3/glossaries/{{two}}/dictionaries", _GERMAN_ENGLISH | {"entries": ""})
    r.add("PUT", "/v3/glossaries/no-such-id/dictionaries", _GERMAN_ENGLISH)
    r.get("/v3/glossaries/{{two}}/entries?source_lang=de&target_lang=en")
    r.add("DELETE", "/v3/glossaries/{{two}}/dictionaries?source_lang=de&target_lang=en")
    r.add("DELETE", "/v3/glossaries/{{two}}/dictionaries?source_lang=de&target_lang=en")
    r.add("DELETE", "/v3/glossaries/{{two}}/dictionaries")
    r.get("/v3/glossaries/{{two}}")
    r.post("/v3/glossaries", {"name": "none", "dictionaries": []})
    r.post("/v3/glossaries", {"name": "same", "dictionaries": [_GERMAN_ENGLISH, _GERMAN_ENGLISH]})
    r.post("/v3/glossaries", {"dictionaries": [_GERMAN_ENGLISH]})
    r.post("/v3/glossaries", b"{")
    r.get("/v3/glossaries")
    r.add("DELETE", "/v3/glossaries/{{two}}")
    r.add("DELETE", "/v3/glossaries/{{two}}")
    r.get("/v3/glossaries/{{two}}")


def documents(r: Requests) -> None:
    """DeepL's documents: given, waited for, fetched."""
    saved = {"document": r'"document_id":\s*"([^"]+)"', "key": r'"document_key":\s*"([^"]+)"'}
    for name, content in files_of_each_kind().items():
        body, kind = multipart_form({"target_lang": "EN", "source_lang": "DE"}, {"file": (name, content)})
        r.post("/v2/document", body, kind=kind, save=saved)
        r.post("/v2/document/{{document}}", {"document_key": "{{key}}"}, until='"done"')
        r.post("/v2/document/{{document}}/result", {"document_key": "{{key}}"})
        r.post("/v2/document/{{document}}/result", {"document_key": "{{key}}"})
    for fields, files in (
        ({"target_lang": "EN"}, {"file": ("a.txt", BEER.encode())}),
        ({"target_lang": "FR"}, {"file": ("a.txt", BEER.encode())}),
        ({}, {"file": ("a.txt", BEER.encode())}),
        ({"target_lang": "EN"}, {}),
        ({"target_lang": "EN"}, {"file": ("a.pdf", b"%PDF")}),
        ({"target_lang": "EN", "filename": "b.txt"}, {"file": ("", BEER.encode())}),
        ({"target_lang": "EN", "output_format": "pdf"}, {"file": ("a.txt", BEER.encode())}),
        ({"target_lang": "EN", "formality": "more"}, {"file": ("a.txt", BEER.encode())}),
        ({"target_lang": "EN", "glossary_id": "x"}, {"file": ("a.txt", BEER.encode())}),
        ({"target_lang": "EN", "source_lang": "DE"}, {"file": ("a.docx", b"no zip")}),
    ):
        body, kind = multipart_form(fields, files)
        r.post("/v2/document", body, kind=kind, save=saved)
        r.post("/v2/document/{{document}}", {"document_key": "{{key}}"}, until='"(done|error|message)"')
    r.post("/v2/document/{{document}}", {"document_key": "wrong"})
    r.post("/v2/document/{{document}}", {})
    r.post("/v2/document/nothing", {"document_key": "x"})
    r.post("/v2/document/nothing/result", {"document_key": "x"})
    r.post("/v2/document", {"target_lang": "EN"})


def extensions(r: Requests) -> None:
    for path, good, changes in (
        (
            "/imme",
            {"source_lang": "de", "target_lang": "en", "text_list": [BEER, WORLD]},
            (
                {"source_lang": "auto"},
                {"text_list": []},
                {"text_list": "x"},
                {"target_lang": "xx"},
                {"target_lang": None},
            ),
        ),
        (
            "/kiss",
            {"from": "auto", "to": "en", "text": BEER},
            ({"text": None, "texts": [BEER, WORLD]}, {"texts": ["x"]}, {"text": None}, {"to": "xx"}, {"from": "xx"}),
        ),
        (
            "/hcfy",
            {"name": "parlance", "text": BEER, "destination": ["英语"], "source": "德语"},
            (
                {"source": None},
                {"destination": ["英语", "西班牙语"]},
                {"destination": []},
                {"destination": ["火星语"]},
                {"text": f"{BEER}\n{WORLD}"},
            ),
        ),
        (
            "/deeplx",
            {"text": BEER, "source_lang": "DE", "target_lang": "EN"},
            (
                {"source_lang": "auto"},
                {"source_lang": ""},
                {"target_lang": "XX"},
                {"text": ""},
                {"text": "<b>ein bier</b>"},
                {"tag_handling": "html"},
            ),
        ),
        ("/deepl", {"text": [BEER], "target_lang": "EN"}, ({"text": []}, {"target_lang": "XX"}, {"source_lang": "DE"})),
        (
            "/language/translate/v2",
            {"q": BEER, "source": "de", "target": "en"},
            (
                {"source": None},
                {"q": [BEER, WORLD]},
                {"format": "text", "q": "ein bier & mehr"},
                {"q": "<b>ein bier</b>"},
                {"target": "xx"},
                {"q": []},
                {"format": "x"},
                {"model": "nmt"},
            ),
        ),
        ("/language/translate/v2/detect", {"q": BEER}, ({"q": [BEER, "hello world"]}, {"q": []}, {"q": 5})),
    ):
        r.post(path, good)
        for change in changes:
            r.post(path, good | change)
        r.post(path, good | {"unknown": 1})
        r.post(path, {})
        r.post(path, b"{")
        r.post(path, good, kind=FORM)
        r.get(path)
        r.add("OPTIONS", path)
    r.get("/language/translate/v2?" + urlencode({"q": BEER, "source": "de", "target": "en", "format": "text"}))
    r.get("/language/translate/v2?" + urlencode({"q": [BEER, WORLD], "target": "en"}, doseq=True))
    for target in ("en", "de", "", "xx"):
        r.get(f"/language/translate/v2/languages?target={target}")
    r.get("/language/translate/v2/languages")
