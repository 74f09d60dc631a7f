"""The worst requests of `benchmarks.stalls`: one for each way of each endpoint, of sizes just below the limits."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.served import LYRICIST, PROMPT, TRANSLATOR
from benchmarks.stall_files import FILE_BYTES, RUN, TAGGED_FILE_BYTES, form, open_document, repeated, word

TEXT_CHARACTERS, BODY_BYTES = 100_000, 1_900_000  # below PARLANCE_MAX_TEXT_CHARACTERS and PARLANCE_MAX_BODY_BYTES
BATCH_TEXTS = 512
TERMS = 20_000  # of a dictionary
ADMIN_KEY = "stalls-admin-key-0123456789"
SENTENCE = "Ein kleiner Satz ohne Besonderheit. "
OK, ACCEPTED, REFUSED, OVERLOADED = 200, 201, 400, 429
Body = tuple[str, bytes]  # its content type, and its bytes


@dataclass(frozen=True, slots=True)
class Ask:
    """Asks the server that is measured, before it is. known: what later requests need, such as ids."""

    port: int
    known: Mapping[str, str]

    def __call__(self, path: str, body: Body | None) -> tuple[int, Any]:
        """The status and the answer, read as JSON where it is JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(*request_of(path, body))
            answer = connection.getresponse()
            content = answer.read()
            is_json = "json" in (answer.getheader("Content-Type") or "")
            return answer.status, json.loads(content) if is_json else content
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Case:
    """body: None for a GET. status: the one that is expected where the answer comes in time: any other is a mistake of
    this benchmark, for what is refused measures no work. path: may name a key of `Ask.known` in braces. goes_on: the
    work goes on after the answer."""

    name: str
    path: str
    body: Callable[[Ask], Body] | None = None
    status: int = OK
    method: str = ""
    goes_on: bool = False


def request_of(path: str, body: Body | None, method: str = "") -> tuple[str, str, bytes | None, dict[str, str]]:
    """The arguments of http.client's `request`."""
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"} if path.startswith("/models/") else {}
    if body is None:
        return method or "GET", path, None, headers
    return method or "POST", path, body[1], {**headers, "Content-Type": body[0]}


def _json(fields: Any) -> Body:
    return "application/json", json.dumps(fields, ensure_ascii=False).encode()


def _fields(**fields: Any) -> Callable[[Ask], Body]:
    return lambda ask: _json(fields)


def _whole_text(text: str, characters: int = TEXT_CHARACTERS) -> str:
    return text * (characters // len(text))


def _texts(text: str, characters: int = TEXT_CHARACTERS) -> list[str]:
    """As many texts of that length as one body takes."""
    whole = _whole_text(text, characters)
    return [whole] * max(1, min(BATCH_TEXTS, BODY_BYTES // len(whole.encode())))


def _translate(text: str, characters: int = TEXT_CHARACTERS, **fields: Any) -> Callable[[Ask], Body]:
    languages = {"source": "de", "target": "en", "model": TRANSLATOR}
    return lambda ask: _json({"q": _texts(text, characters), **languages, **fields})


def _file(name: str, content: Callable[[], bytes]) -> Callable[[Ask], Body]:
    return lambda ask: form(name, content(), {"source": "de", "target": "en", "model": TRANSLATOR})


def _terms(separator: str = "\t") -> str:
    return "".join(f"wort{number:05}{separator}word{number:05} of a glossary\n" for number in range(TERMS))


def _dictionary(form_: str = "tsv") -> dict[str, str]:
    separator = "\t" if form_ == "tsv" else ","
    return {"source_lang": "de", "target_lang": "en", "entries_format": form_, "entries": _terms(separator)}


def _largest(path: str, make: Callable[[int], Mapping[str, Any]], sizes: Sequence[int]) -> Callable[[Ask], Body]:
    """The body of the largest size that the server takes: what fits depends on the model that it is given."""

    def body(ask: Ask) -> Body:
        answer: Any = None
        for size in sizes:
            candidate = _json(make(size))
            status, answer = ask(path, candidate)
            if status == OK:
                return candidate
        raise RuntimeError(f"{path} takes none of the sizes {list(sizes)}: {answer}.")

    return body


_SIZES = range(250, 9, -10)  # words of a sentence
_EVERYTHING = {"include": ["alignment", "rollout", "stats", "steps"], "top_k": 10}


def _pair(words: int) -> dict[str, str]:
    return {"source": "mann " * words, "target": "man " * words}


def _attention(**fields: Any) -> Callable[[Ask], Body]:
    return _largest("/attention", lambda words: {**_pair(words), "model": TRANSLATOR, **fields}, _SIZES)


def _gates(ask: Ask) -> Body:
    fields = {"model": LYRICIST, "units": list(range(256)), "top_k": 10}
    return _largest("/gates", lambda size: {**fields, "text": PROMPT * (size // 2)}, range(1020, 100, -20))(ask)


def _score_text(ask: Ask) -> Body:
    fields = {"model": LYRICIST, "top_k": 10}
    return _largest("/score", lambda size: {**fields, "text": PROMPT * (size // 2)}, range(1022, 100, -20))(ask)


def _walkthrough(ask: Ask) -> Body:
    fields = {"model": TRANSLATOR, "layer": 0, "head": 0, "position": 1, "values": 64, "places": 10}
    return _largest("/walkthrough", lambda words: {**_pair(words), **fields}, _SIZES)(ask)


def _score_pair(ask: Ask) -> Body:
    return _largest("/score", lambda words: {**_pair(words), "model": TRANSLATOR, "top_k": 10}, _SIZES)(ask)


def _completions(prompts: int, prompt_characters: int, **fields: Any) -> Callable[[Ask], Body]:
    prompt = PROMPT * (prompt_characters // len(PROMPT))
    return _fields(model=LYRICIST, prompt=[prompt] * prompts, **fields)


def _documents() -> Iterator[Case]:
    sentence = "<p>Ein <b>kleiner</b> Satz ohne eine Besonderheit.</p>\n"
    cues = "1\n00:00:01,000 --> 00:00:02,000\nEin Satz.\n\n"
    for name, file, content, status in (
        ("txt", "a.txt", repeated("Ein Satz mit 12 Worten. "), OK),
        ("md", "a.md", repeated("# Titel\n\n- **Ein** [Satz](a.de).\n\n"), OK),
        ("html", "a.html", repeated(sentence, TAGGED_FILE_BYTES), OK),
        ("html of 10 MB", "a.html", repeated(sentence), OK),
        ("html of tags alone", "a.html", repeated("<b>x</b>y", TAGGED_FILE_BYTES), OK),
        ("html of too many tags", "a.html", repeated("<b>x</b>y"), REFUSED),
        ("srt", "a.srt", repeated(cues), OK),
        ("srt of digits", "a.srt", repeated("1" * 300 + "\n"), REFUSED),
        ("vtt", "a.vtt", repeated("00:01.000 --> 00:02.000\nEin Satz.\n\n", before="WEBVTT\n\n"), OK),
        ("docx", "a.docx", word(RUN, 9_000_000), OK),
        ("docx of empty paragraphs", "a.docx", word("<w:p/>", 9_000_000), OK),
        ("odt", "a.odt", lambda: open_document(2_000_000), OK),
        ("odt of 9 MB", "a.odt", lambda: open_document(9_000_000), OK),
        ("txt of spaces", "a.txt", repeated(" "), OK),
    ):
        yield Case(f"translate_file, {name}", "/translate_file", _file(file, content), status)


_COLD = (Case("openapi.json, cold", "/openapi.json"), Case("docs, cold", "/docs"))
_TEXT_CASES = (
    Case("translate, prose", "/translate", _translate(SENTENCE)),
    Case("translate, many short texts", "/translate", _translate("Ein Satz. ", 3700)),
    Case("translate, numbers and links", "/translate", _translate("Um 12:30 kostet www.a.de/b 1.234,50 € mehr. ")),
    Case("translate, variation selectors", "/translate", _translate("a" + "\ufe0f" * 30, split=False)),
    Case("translate, one long line", "/translate", _translate("wort ", split=False)),
    Case("translate, detected", "/translate", _translate(SENTENCE, source="auto")),
    Case("translate, pages of tags", "/translate", _translate("<b>ein</b> wort <code>{1}</code>{1} ", format="html")),
    Case("translate, pages of blocks", "/translate", _translate("<p>a</p>", format="html")),
    Case(
        "translate, details",
        "/translate",
        _translate(SENTENCE, 3700, alternatives=3, **{"return": ["tokens", "alignment", "scores"]}),
    ),
    Case(
        "translate, stored glossary",
        "/translate",
        lambda ask: _translate("Ein wort00017 ohne wort19999. ", glossary=ask.known["glossary"])(ask),
    ),
    Case(
        "translate, streamed",
        "/translate",
        _fields(q=_whole_text(SENTENCE), source="de", target="en", model=TRANSLATOR, stream=True),
    ),
    Case("v2/translate", "/v2/translate", _fields(text=_texts(SENTENCE), source_lang="DE", target_lang="EN")),
    Case(
        "v2/translate, xml",
        "/v2/translate",
        _fields(
            text=_texts("<p>Ein <b>Satz</b>.</p>"),
            source_lang="DE",
            target_lang="EN",
            tag_handling="xml",
            ignore_tags=["b"],
        ),
    ),
    Case("language/translate/v2", "/language/translate/v2", _fields(q=_texts(SENTENCE)[:19], source="de", target="en")),
    Case(
        "language/translate/v2/detect",
        "/language/translate/v2/detect",
        _fields(q=_texts(SENTENCE)[:19]),
    ),
    Case("imme", "/imme", _fields(source_lang="de", target_lang="en", text_list=_texts("Ein <b1>Satz</b1>. "))),
    Case("kiss", "/kiss", _fields(**{"from": "de", "to": "en", "texts": _texts(SENTENCE)})),
    Case("hcfy", "/hcfy", _fields(text=_whole_text(SENTENCE * 5 + "\n", 90_000), destination=["英语"], source="德语")),
    Case("detect", "/detect", _fields(q=_texts(SENTENCE))),
    Case("detect, no letters", "/detect", _fields(q=_texts("12 "))),
    Case(
        "suggest", "/suggest", _fields(q=_whole_text(SENTENCE), s=_whole_text("A sentence. "), source="de", target="en")
    ),
)
_GLOSSARY_CASES = (
    Case("v2/glossaries, create", "/v2/glossaries", _fields(name="g", **_dictionary()), ACCEPTED),
    Case("v2/glossaries, create of csv", "/v2/glossaries", _fields(name="g", **_dictionary("csv")), ACCEPTED),
    Case("v3/glossaries, create", "/v3/glossaries", _fields(name="g", dictionaries=[_dictionary()]), ACCEPTED),
    Case("v3/glossaries, change", "/v3/glossaries/{glossary}", _fields(dictionaries=[_dictionary()]), method="PATCH"),
    Case(
        "v3/glossaries, replace", "/v3/glossaries/{glossary}/dictionaries", _fields(**_dictionary()), method="PUT"
    ),
    Case("v2/glossaries", "/v2/glossaries"),
    Case("v2/glossaries, one", "/v2/glossaries/{glossary}"),
    Case("v2/glossaries, entries", "/v2/glossaries/{glossary}/entries"),
    Case("v3/glossaries", "/v3/glossaries"),
    Case("v3/glossaries, one", "/v3/glossaries/{glossary}"),
    Case("v3/glossaries, entries", "/v3/glossaries/{glossary}/entries?source_lang=de&target_lang=en"),
    Case("v2/glossaries, delete", "/v2/glossaries/{deleted}", status=204, method="DELETE"),
    Case("v3/glossaries, delete of a pair", "/v3/glossaries/{glossary}/dictionaries?source_lang=de&target_lang=en",
         status=204, method="DELETE"),
    Case("v3/glossaries, delete", "/v3/glossaries/{glossary}", status=204, method="DELETE"),
)  # fmt: skip
_LAST = (
    Case(
        "v2/document",
        "/v2/document",
        lambda ask: form("a.txt", repeated("Ein Satz. ")(), {"source_lang": "DE", "target_lang": "EN"}),
        goes_on=True,
    ),
)
_DEEPL_DOCUMENT_CASES = (
    Case("v2/document, status", "/v2/document/{document}", lambda ask: _json({"document_key": ask.known["key"]})),
    Case(
        "v2/document, result", "/v2/document/{document}/result", lambda ask: _json({"document_key": ask.known["key"]})
    ),
)
_INSPECTION_CASES = (
    Case("attention", "/attention", _attention()),
    Case("attention, everything", "/attention", _attention(**_EVERYTHING)),
    Case("attention, u8", "/attention", _attention(encoding="u8")),
    Case("attention, f32", "/attention", _attention(encoding="f32", **_EVERYTHING)),
    Case(
        "attention, own translation",
        "/attention",
        _largest("/attention", lambda words: {"source": "mann " * words, "kinds": ["cross"]}, range(120, 9, -10)),
    ),
    Case("attention, table", "/attention?format=csv", _attention(kinds=["cross"])),
    Case("walkthrough", "/walkthrough", _walkthrough),
    Case("gates", "/gates", _gates),
    Case("gates, u8", "/gates", _largest(
        "/gates",
        lambda size: {"model": LYRICIST, "units": list(range(256)), "encoding": "u8", "text": PROMPT * (size // 2)},
        range(1020, 100, -20),
    )),
    Case("score, translation", "/score", _score_pair),
    Case("score, text", "/score", _score_text),
)  # fmt: skip
_GENERATION_CASES = (
    Case("generate", "/generate", _fields(model=LYRICIST, prompt=PROMPT, n=16, max_new_tokens=1024)),
    Case("generate, streamed", "/generate", _fields(
        model=LYRICIST, prompt=PROMPT * 400, n=16, max_new_tokens=1024, logprobs=True, stream=True, temperature=1.5
    )),
    Case("completions", "/v1/completions", _completions(BATCH_TEXTS, 60, max_tokens=8, echo=True, logprobs=5)),
    Case("completions, all tokens", "/v1/completions",
         _completions(200, 40, max_tokens=20, echo=True, logprobs=20)),
    Case("completions, long prompts", "/v1/completions",
         _completions(12, 1000, max_tokens=8, echo=True, logprobs=20)),
    Case("completions, many prompts", "/v1/completions", _completions(30, 1000, max_tokens=8)),
    Case("completions, more prompts than the queue takes", "/v1/completions",
         _completions(BATCH_TEXTS, 1000, max_tokens=8), OVERLOADED),
    Case("completions, streamed", "/v1/completions",
         _completions(BATCH_TEXTS, 40, max_tokens=24, logprobs=20, stream=True)),
    Case("completions, streamed with echo", "/v1/completions",
         _completions(BATCH_TEXTS, 60, max_tokens=8, echo=True, logprobs=5, stream=True)),
)  # fmt: skip
_PAGES = tuple(
    Case(path.lstrip("/"), path)
    for path in (
        "/openapi.json",
        "/docs",
        "/docs-assets/swagger-ui-bundle.js",
        "/",
        "/metrics",
        "/models",
        f"/models/{TRANSLATOR}/curves",
        "/models/imports",
        "/languages",
        "/frontend/settings",
        "/health",
        "/health/ready",
        "/v1/models",
        f"/v1/models/{LYRICIST}",
        "/v2/languages?type=source",
        "/v2/usage",
        "/v2/glossary-language-pairs",
        "/language/translate/v2/languages",
        "/language/translate/v2?q=Ein%20Satz&target=en",
        "/download_file/{file}",
    )
)
CASES: tuple[Case, ...] = (
    *_COLD,
    *_TEXT_CASES,
    *_documents(),
    *_DEEPL_DOCUMENT_CASES,
    *_INSPECTION_CASES,
    *_GENERATION_CASES,
    *_PAGES,
    *_GLOSSARY_CASES,
    *_LAST,  # whose work may go on beside other cases
)
_LONG = ("mann " * 200).strip()


def _long_sources(texts: int, **fields: Any) -> Callable[[Ask], Body]:
    """The longest sources that the model reads, which the server does not split."""

    def body(ask: Ask) -> Body:
        languages = {"source": "de", "target": "en", "model": TRANSLATOR, "split": False, **fields}
        return _json({"q": [f"{_LONG} {number}" for number in range(texts)], **languages})

    return body


# What a device process does beside the steps of a stream: prefill, wide beams, looks inside, loading.
DEVICE_CASES: tuple[Case, ...] = (
    Case("prefill of 64 long sources", "/translate", _long_sources(64, beam_size=1, max_new_tokens=1)),
    Case("steps of 64 long sources", "/translate", _long_sources(64, beam_size=1)),
    Case("beam of 64", "/translate", _long_sources(1, beam_size=64)),
    Case("beams of 4 for 512 texts", "/translate", _long_sources(BATCH_TEXTS)),
    Case("attention, everything", "/attention", _attention(**_EVERYTHING)),
    Case("attention, masked heads", "/attention", _largest(
        "/attention",
        lambda words: {
            "source": "mann " * words,
            "kinds": ["cross"],
            "reduce": {"heads": "mean", "layers": "mean"},
            "mask_heads": [{"kind": "cross", "layer": 0, "head": 0}],
        },
        _SIZES,
    )),
    Case("walkthrough", "/walkthrough", _walkthrough),
    Case("gates", "/gates", _gates),
    Case("score, translation", "/score", _score_pair),
    Case("score, text", "/score", _score_text),
    Case("completions, long prompts", "/v1/completions",
         _completions(12, 1000, max_tokens=8, echo=True, logprobs=20)),
    Case("completions of 500 texts", "/v1/completions", _completions(500, 60, max_tokens=100)),
    Case("reload of a model", f"/models/{TRANSLATOR}/reload", _fields()),
    Case("reload of the stream's model", f"/models/{LYRICIST}/reload", _fields()),
)  # fmt: skip
# Endpoints without a worst request here: the probe itself asks for the first one, and the others fetch models from the
# network or change those that are served.
NOT_MEASURED = (
    "/health/live",
    "/models/import",
    "/models/imports/{number}",
    "/models/{name}/load",
    "/models/{name}/reload",
    "/models/{name}/unload",
)


def known(port: int) -> dict[str, str]:
    """Stores what some cases read: two glossaries, a translated file of 9.9 MB, and a document of DeepL's form."""
    ask = Ask(port, {})

    def answer(path: str, body: Body, status: int) -> Any:
        given, fields = ask(path, body)
        if given != status:
            raise RuntimeError(f"{path} answers {given} to the benchmark's preparation: {fields}.")
        return fields

    glossary = _json({"name": "g", "dictionaries": [_dictionary()]})
    blank = form("a.txt", b" " * FILE_BYTES, {"source": "de", "target": "en"})
    file = answer("/translate_file", blank, OK)["translatedFileUrl"].rpartition("/")[2]
    document = answer("/v2/document", form("a.txt", b" " * FILE_BYTES, {"source_lang": "DE", "target_lang": "EN"}), OK)
    key = _json({"document_key": document["document_key"]})
    while answer(f"/v2/document/{document['document_id']}", key, OK)["status"] not in ("done", "error"):
        pass
    return {
        "glossary": answer("/v3/glossaries", glossary, ACCEPTED)["glossary_id"],
        "deleted": answer("/v3/glossaries", glossary, ACCEPTED)["glossary_id"],
        "file": file,
        "document": document["document_id"],
        "key": document["document_key"],
    }
