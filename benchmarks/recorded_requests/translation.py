"""Requests to /translate, /detect and /translate_file."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import urlencode

from benchmarks.recorded_requests.request import BEER, DOG, FORM, LONG, PAGE, SENTENCES, WORLD, Requests
from benchmarks.recorded_requests.small_files import files_of_each_kind, multipart_form

_USUAL: dict[str, Any] = {"q": BEER, "source": "de", "target": "en"}


def _ask(r: Requests, **fields: Any) -> None:
    r.post("/translate", _USUAL | fields)


def translate(r: Requests) -> None:
    _beams(r)
    _alternatives_and_returned_fields(r)
    _text_formats(r)
    _languages_and_models(r)
    _constraints(r)
    _streams(r)
    _forms(r)


def _beams(r: Requests) -> None:
    ask = partial(_ask, r)
    for sentence in SENTENCES:
        ask(q=sentence)
    for beam in (1, 2, 4, 8):
        ask(q=DOG, beam_size=beam)
        ask(q=LONG, beam_size=beam)
        for penalty in (-1.0, 0, 0.6, 1.5, 10):
            ask(q=SENTENCES[-1], beam_size=beam, length_penalty=penalty, **{"return": ["scores"]})
        ask(q=SENTENCES[-1], beam_size=beam, alternatives=min(beam, 8) - 1, **{"return": "scores,tokens,alignment"})
        ask(q=SENTENCES[-1], beam_size=beam, max_new_tokens=3)
        ask(q=SENTENCES[-1], beam_size=beam, prefix="the old", **{"return": ["tokens", "scores"]})
        ask(q=SENTENCES[-1], beam_size=beam, glossary={"bier": "tea", "mann": "boy"}, **{"return": ["alignment"]})
        ask(q=SENTENCES[-1], beam_size=beam, no_repeat_ngram_size=2)
        ask(q=SENTENCES[-1], beam_size=beam, stream=True)
        ask(q=SENTENCES[-1], beam_size=beam, stream=True, alternatives=1, **{"return": ["scores", "tokens"]})


def _alternatives_and_returned_fields(r: Requests) -> None:
    ask = partial(_ask, r)
    ask(alternatives=3)
    ask(alternatives=8)
    ask(q=[BEER, WORLD], alternatives=2, **{"return": ["scores", "tokens", "alignment"]})
    ask(q=list(SENTENCES))
    ask(q=list(SENTENCES), beam_size=1, split=False)
    ask(q=[])
    ask(q="")
    ask(q="   \n\t ")
    ask(q=["", " ", BEER])
    for value in ("scores", "tokens", "alignment", "scores,tokens", ["scores"], ["tokens", "alignment"], [], "", None):
        ask(**{"return": value})


def _text_formats(r: Requests) -> None:
    """Numbers, links, long texts, unusual characters; HTML."""
    ask = partial(_ask, r)
    ask(q="ich möchte ein bier.\n\n  hallo welt!\tguten morgen? 😀 https://example.org/a?b=1 {name} %s 3,50 <0>")
    ask(q="Ich zahle 1.234,56 Euro am 3. Mai 2024 an info@example.org.")
    ask(q="hallo welt " * 300)
    ask(q="hallo welt " * 60, split=False)
    ask(q="a" * 600)
    ask(q="bier " * 200, no_repeat_ngram_size=3)
    ask(q="äöü ß 你好 🍺 \u202e abc \x07")
    ask(q="e\u0301a\u0308")
    ask(q=PAGE, format="html")
    ask(q=PAGE, format="html", beam_size=1, glossary={"bier": "beer"})
    ask(q="<p>ich möchte <b>ein bier", format="html")
    ask(q="<p>ich möchte <b>ein bier</b></p>", format="html", **{"return": ["alignment"]})
    ask(q="a < b & c", format="html")
    ask(q=PAGE, format="text")


def _languages_and_models(r: Requests) -> None:
    ask = partial(_ask, r)
    ask(source="auto")
    ask(source="AUTO", q=[BEER, "i want a beer"])
    ask(source="DE", target="EN")
    ask(source="auto", q="12345")
    ask(source="auto", q="the dog sees the red apples", target="es")
    ask(source="en", target="es", q="the dog sees the red apples", alternatives=2)
    ask(source="en", target="es", q=["hello world", "i want a beer"], beam_size=8)
    ask(source="de", target="es")
    ask(source="de", target="de")
    ask(model="demo-de-en")
    ask(model=None)


def _constraints(r: Requests) -> None:
    """Prefixes that a translation begins with, and glossaries."""
    ask = partial(_ask, r)
    ask(prefix="i would")
    ask(prefix="I Would like", beam_size=4, alternatives=2)
    ask(prefix="zzz 漢字", beam_size=4)
    ask(prefix="i want a beer")
    ask(prefix="i", stream=True)
    ask(q=[BEER], prefix="i")
    ask(glossary={"bier": "large beer", "ich": "we"}, stream=True)
    ask(glossary={"bier": "漢字"})
    ask(glossary={"Bier": "Tea"}, q="Ich möchte kein Bier.")
    ask(glossary={"nothing": "tea"})
    ask(glossary={})
    ask(glossary=[["bier", "tea"]])
    ask(glossary={"bier": "tea"}, alternatives=3, beam_size=4, **{"return": ["scores", "tokens"]})


def _streams(r: Requests) -> None:
    ask = partial(_ask, r)
    ask(stream=True)
    ask(stream=True, q=LONG)
    ask(stream=True, beam_size=1, q=LONG)
    ask(stream=True, beam_size=1, q=LONG, no_repeat_ngram_size=2, max_new_tokens=7)
    ask(stream=True, source="auto")
    ask(stream=True, format="html", q="<p>ich möchte <b>ein bier</b></p>")
    ask(stream=True, q="")
    ask(stream=True, q=[BEER])
    ask(stream=True, q=[BEER, WORLD])
    ask(stream=True, **{"return": ["scores", "tokens", "alignment"]})


def _forms(r: Requests) -> None:
    """Forms, query strings and multipart bodies."""
    r.post("/translate", _USUAL, kind=FORM)
    form = {"q": [BEER, WORLD], "source": "auto", "target": "en", "alternatives": "2"}
    r.post("/translate", form, kind=FORM)
    r.post("/translate", {**form, "q": BEER, "beam_size": "8", "return": "scores,tokens", "split": "false"}, kind=FORM)
    r.post("/translate", {"q": BEER, "source": "de", "target": "en", "glossary": '{"bier": "tea"}'}, kind=FORM)
    r.post("/translate", {"q": BEER, "source": "de", "target": "en", "stream": "true"}, kind=FORM)
    r.post("/translate?" + urlencode(_USUAL))
    r.post("/translate?source=de&target=en", {"q": BEER})
    r.post("/translate?source=de&target=en", {"q": BEER}, kind=FORM)
    r.post("/translate?target=es", _USUAL)
    multipart, kind = multipart_form({"q": BEER, "source": "de", "target": "en", "beam_size": "2"}, {})
    r.post("/translate", multipart, kind=kind)


def translate_refused(r: Requests) -> None:
    ask = partial(_ask, r)
    for name in ("q", "source", "target"):
        r.post("/translate", {key: "de" for key in ("q", "source", "target") if key != name})
        ask(**{name: 7})
        ask(**{name: None})
        ask(**{name: {"a": 1}})
    ask(q=[BEER, 3])
    ask(q=[[BEER]])
    ask(q=["hallo"] * 513)
    ask(q="a" * 100_001)
    ask(source="fr")
    ask(target="fr")
    ask(source="auto", target="xx")
    ask(source="", target="")
    ask(model="nothing")
    ask(model="lyrics-zh")
    ask(model="demo-en-es")
    for name, values in {
        "beam_size": (0, -1, 65, 1000, "four", 2.5, True, [], 10**30),
        "length_penalty": ("x", 1e9, -11, "1.5", [1]),
        "max_new_tokens": (0, -1, 100_000, "x", 1.5),
        "alternatives": (-1, 9, "x", 1.5, None),
        "no_repeat_ngram_size": (-1, 101, "x", None),
        "format": ("markdown", "", None, 1),
        "return": (["everything"], "scores,nothing", 5, {"a": 1}),
        "split": ("maybe", 3, None),
        "stream": ("maybe", 3, None),
        "prefix": (5, None, "a" * 5000, "\n", "two\nlines"),
        "glossary": (5, "unknown-id", {"bier": 5}, {"": "x"}, {"bier": ""}, {"a" * 201: "x"}, {"b": "x" * 201}),
        "api_key": (5, "x", None),
        "model": (5, [], ""),
        "unknown": (1,),
        "temperature": (0.5,),
    }.items():
        for value in values:
            ask(**{name: value})
    ask(glossary={f"word{i}": "x" for i in range(1001)})
    ask(q=[BEER, WORLD], prefix="i")
    ask(prefix="the", format="html")
    ask(beam_size=2, alternatives=4)
    for body in (b"", b"{", b"[]", b"null", b'"text"', b'{"q": "\xff"}', b'{"q": NaN}', b'{"q": "a", "q": "b"}'):
        r.post("/translate", body)
    r.post("/translate", b"[" * 2000)
    r.post("/translate", b'{"a":' * 500 + b"1" + b"}" * 500)
    r.post("/translate", b'{"q": "\\ud800", "source": "de", "target": "en"}')
    r.post("/translate", b'{"q": "hallo", "source": "de", "target": "en"} trailing')
    r.post("/translate", b'\xef\xbb\xbf{"q": "hallo welt", "source": "de", "target": "en"}')
    r.post("/translate", '{"q": "hallo welt", "source": "de", "target": "en"}'.encode("utf-16"))
    r.post("/translate", b"q=hallo", kind="text/plain")
    r.post("/translate", b"<q/>", kind="application/xml")
    r.post("/translate", b'{"q": "hallo welt", "source": "de", "target": "en"}', kind=None)
    r.post("/translate", _USUAL, kind="application/json; charset=utf-8")
    r.post("/translate", _USUAL, kind="APPLICATION/JSON")
    r.post("/translate", _USUAL, kind="application/vnd.api+json")
    r.post("/translate", b"q=%ff%fe&source=de&target=en", kind=FORM)
    r.post("/translate", b"q=a&q=b&source=de&source=en&target=en", kind=FORM)
    r.post("/translate", b"no form at all", kind="multipart/form-data")
    r.post("/translate", b"--x\r\nbroken", kind="multipart/form-data; boundary=x")
    r.post("/translate", b" " * 2_000_001)
    for method in ("GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"):
        r.add(method, "/translate")


def detect(r: Requests) -> None:
    for q in (BEER, "i want a beer", "", "12345", [BEER, "quiero una cerveza"], [], "zzz"):
        r.post("/detect", {"q": q})
    r.post("/detect", {"q": BEER}, kind=FORM)
    r.post("/detect?" + urlencode({"q": BEER}))
    r.post("/detect", {})
    r.post("/detect", {"q": 5})
    r.post("/detect", {"q": BEER, "unknown": 1})
    r.get("/detect")
    r.post("/suggest", {"q": BEER, "s": "i would like a beer", "source": "de", "target": "en"})
    r.post("/suggest", {"q": BEER})


def files(r: Requests) -> None:
    """LibreTranslate's files: translated, then fetched by the address."""
    saved = {"download": r'"translatedFileUrl":\s*"https?://[^/]+(/download_file/[^"]+)"'}
    for name, content in files_of_each_kind().items():
        for more in ({}, {"beam_size": "1", "glossary": '{"bier": "tea"}'}):
            body, kind = multipart_form({"source": "de", "target": "en", **more}, {"file": (name, content)})
            r.post("/translate_file", body, kind=kind, save=saved)
            r.get("{{download}}")
        r.add("HEAD", "{{download}}")
    for fields, files in (
        ({"source": "auto", "target": "en"}, {"file": ("a.txt", BEER.encode())}),
        ({"source": "de", "target": "fr"}, {"file": ("a.txt", BEER.encode())}),
        ({"source": "de"}, {"file": ("a.txt", BEER.encode())}),
        ({"source": "de", "target": "en"}, {}),
        ({"source": "de", "target": "en", "file": "text"}, {}),
        ({"source": "de", "target": "en"}, {"file": ("a.txt", b"")}),
        ({"source": "de", "target": "en"}, {"file": ("a.txt", b"\xff\xfe\xfa")}),
        ({"source": "de", "target": "en"}, {"file": ("a.exe", b"MZ")}),
        ({"source": "de", "target": "en"}, {"file": ("noextension", b"hallo")}),
        ({"source": "de", "target": "en"}, {"file": ("a.odt", b"no zip")}),
        ({"source": "de", "target": "en"}, {"file": ("a.srt", b"no subtitles")}),
        ({"source": "de", "target": "en", "beam_size": "x"}, {"file": ("a.txt", b"hallo")}),
        ({"source": "de", "target": "en", "unknown": "x"}, {"file": ("a.txt", b"hallo")}),
        ({"source": "de", "target": "en", "format": "html"}, {"file": ("a.txt", b"<b>hallo</b> welt")}),
    ):
        body, kind = multipart_form(fields, files)
        r.post("/translate_file", body, kind=kind)
    r.post("/translate_file", {"source": "de", "target": "en"})
    r.post("/translate_file", {"source": "de", "target": "en"}, kind=FORM)
    r.get("/translate_file")
    r.get("/download_file/nothing.txt")
    r.get("/download_file/..%2f..%2fetc%2fpasswd")
