"""Requests to DeepL's routes and to the translation-extension routes."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from benchmarks.recorded_requests.request import BEER, FORM, LONG, WORLD, Requests
from benchmarks.recorded_requests.small_files import files_of_each_kind, multipart_form


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
    saved = {"glossary": r'"glossary_id":\s*"([^"]+)"'}
    add = {
        "name": "drinks",
        "source_lang": "de",
        "target_lang": "en",
        "entries": "bier\ttea\nhund\tcat",
        "entries_format": "tsv",
    }
    r.get("/v2/glossaries")
    r.post("/v2/glossaries", add, save=saved)
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
        add | {"entries": 'bier,tea\r\n"ein, zwei","one ""two"""\r\n', "entries_format": "csv", "name": "csv"},
        save={"csv": saved["glossary"]},
    )
    r.get("/v2/glossaries/{{csv}}/entries")
    for fields in (
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
    ):
        r.post("/v2/glossaries", add | fields, save={"extra": saved["glossary"]})
    r.post("/v2/glossaries", {"name": "x"})
    r.post(
        "/v2/glossaries",
        {k: str(v) for k, v in add.items()} | {"name": "form"},
        kind=FORM,
        save={"form": saved["glossary"]},
    )
    r.add("DELETE", "/v2/glossaries/{{form}}")
    r.add("DELETE", "/v2/glossaries/{{form}}")
    r.get("/v2/glossaries/{{form}}")
    r.get("/v2/glossaries/no-such-id")
    pair = {"source_lang": "de", "target_lang": "en", "entries": "bier\tale", "entries_format": "tsv"}
    other = {"source_lang": "en", "target_lang": "es", "entries": "beer,agua", "entries_format": "csv"}
    r.get("/v3/glossaries")
    r.post("/v3/glossaries", {"name": "two", "dictionaries": [pair, other]}, save={"two": saved["glossary"]})
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
    r.add("PATCH", "/v3/glossaries/{{two}}", {"name": "renamed"})
    r.add("PATCH", "/v3/glossaries/{{two}}", {"dictionaries": [pair | {"entries": "hund\tpuppy"}]})
    r.add("PATCH", "/v3/glossaries/{{two}}", {"dictionaries": [pair | {"entries": "hund"}]})
    r.add("PATCH", "/v3/glossaries/{{two}}", {})
    r.add("PATCH", "/v3/glossaries/no-such-id", {"name": "x"})
    r.get("/v3/glossaries/{{two}}/entries?source_lang=de&target_lang=en")
    r.add("PUT", "/v3/glossaries/{{two}}/dictionaries", pair | {"entries": "welt\tearth"})
    r.add("PUT", "/v3/glossaries/{{two}}/dictionaries", pair | {"entries": ""})
    r.add("PUT", "/v3/glossaries/no-such-id/dictionaries", pair)
    r.get("/v3/glossaries/{{two}}/entries?source_lang=de&target_lang=en")
    r.add("DELETE", "/v3/glossaries/{{two}}/dictionaries?source_lang=de&target_lang=en")
    r.add("DELETE", "/v3/glossaries/{{two}}/dictionaries?source_lang=de&target_lang=en")
    r.add("DELETE", "/v3/glossaries/{{two}}/dictionaries")
    r.get("/v3/glossaries/{{two}}")
    r.post("/v3/glossaries", {"name": "none", "dictionaries": []})
    r.post("/v3/glossaries", {"name": "same", "dictionaries": [pair, pair]})
    r.post("/v3/glossaries", {"dictionaries": [pair]})
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
