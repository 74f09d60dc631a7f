"""The requests that `benchmarks.same_answers` sends: every route, its options, and what is refused.

A request belongs to a group, and each group has a server of its own (`same_answers.GROUPS`). `{{name}}` stands for a
value that an earlier answer of the same group held, such as the id of a glossary.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
BEER, WORLD, DOG = "ich möchte ein bier", "hallo welt", "der hund sieht die roten äpfel"
SENTENCES = (
    BEER,
    WORLD,
    DOG,
    "guten morgen",
    "wir trinken heute kein wasser",
    "die katze schläft",
    "Ich möchte kein Bier.",
    "das ist ein kleines haus",
    "xyzzy quux 42",
    "der alte mann und die junge frau gehen heute nach hause und trinken dort ein kaltes bier",
)
LONG = " und ".join(SENTENCES) + ". " + ", ".join(SENTENCES * 3) + "."
PAGE = (
    '<html><head><title>ich möchte ein bier</title><style>p { color: red }</style></head><body><p class="a">ich '
    'möchte <b>ein bier</b></p><p translate="no">hallo welt</p><p>hallo&nbsp;welt &amp; <a href="x?a=1&b=2">'
    "guten morgen</a><br/>der <i>hund <u>sieht</u></i> die roten äpfel</p><script>var a = 'hallo welt';</script>"
    "<!-- hallo --></body></html>"
)
SUBTITLES = (
    "1\n00:00:01,000 --> 00:00:02,500\nich möchte ein bier\n\n2\n00:00:03,000 --> 00:00:04,000\n<i>hallo\nwelt</i>\n"
)


@dataclass(frozen=True)
class Request:
    """One HTTP request. save: a name for `{{name}}` -> a pattern whose first group is looked for in the answer.
    until: the request is repeated until its answer has this text (at most 30 s), and only the last answer counts."""

    name: str
    group: str
    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    save: dict[str, str] = field(default_factory=dict)
    until: str | None = None
    raw: bytes | None = None  # what goes over the socket instead, head and body


class Requests:
    """Collects requests of one group under one name each."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.all: list[Request] = []

    def add(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str | None = JSON,
        headers: dict[str, str] | None = None,
        save: dict[str, str] | None = None,
        until: str | None = None,
    ) -> None:
        """body: bytes as they are; other objects as JSON, or as a form where `kind` is FORM."""
        content = None
        if isinstance(body, bytes):
            content = body
        elif body is not None:
            content = (urlencode(body, doseq=True) if kind == FORM else json.dumps(body, ensure_ascii=False)).encode()
        given = dict(headers or {})
        if content is not None and kind is not None:
            given = {"Content-Type": kind, **given}
        name = f"{self.group}/{len(self.all):03d} {method} {path[:60]}"
        self.all.append(Request(name, self.group, method, path, tuple(given.items()), content, dict(save or {}), until))

    def post(self, path: str, body: Any = None, **more: Any) -> None:
        self.add("POST", path, body, **more)

    def get(self, path: str, **more: Any) -> None:
        self.add("GET", path, **more)

    def raw(self, name: str, content: bytes) -> None:
        self.all.append(Request(f"{self.group}/{len(self.all):03d} raw {name}", self.group, "RAW", "", raw=content))


def all_requests() -> Iterator[Request]:
    for make in (_open, _precise, _several, _guarded, _small, _damaged):
        yield from make()


def _open() -> list[Request]:
    """A server as `make serve` starts it, with the fastest backends of this machine and the three demo models."""
    requests = Requests("open")
    _pages(requests)
    _translate(requests)
    _translate_refused(requests)
    _detect(requests)
    _generate(requests)
    _completions(requests)
    _attention(requests)
    _gates(requests)
    _score(requests)
    _walkthrough(requests)
    _deepl(requests)
    _glossaries(requests)
    _documents(requests)
    _files(requests)
    _extensions(requests)
    _http(requests)
    requests.get("/metrics")
    requests.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    return requests.all


def _pages(r: Requests) -> None:
    for path in ("/health", "/health/live", "/health/ready", "/models", "/languages", "/frontend/settings"):
        r.get(path)
        r.add("HEAD", path)
        r.add("OPTIONS", path)
        r.post(path, {})
    for name in ("demo-de-en", "lyrics-zh", "nothing", "..%2Fsecret", "a%20b"):
        r.get(f"/models/{name}/curves")
    for path in ("/openapi.json", "/docs", "/redoc", "/", "/page.js", "/style/page.css", "/icon.svg", "/favicon.ico"):
        r.get(path)
        r.get(path, headers={"Accept-Encoding": "gzip"})
    r.add("HEAD", "/")
    r.get("/nothing")
    r.get("/models/")
    r.get("/translate/")
    for action in ("load", "reload", "unload"):
        r.post(f"/models/demo-de-en/{action}")
    r.get("/v1/models")
    r.get("/v1/models/lyrics-zh")
    r.get("/v1/models/demo-de-en")
    r.get("/v1/models/nothing")


def _translate(r: Requests) -> None:
    def ask(**fields: Any) -> None:
        r.post("/translate", {"q": BEER, "source": "de", "target": "en"} | fields)

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
    r.post("/translate", {"q": BEER, "source": "de", "target": "en"}, kind=FORM)
    form = {"q": [BEER, WORLD], "source": "auto", "target": "en", "alternatives": "2"}
    r.post("/translate", form, kind=FORM)
    r.post("/translate", {**form, "q": BEER, "beam_size": "8", "return": "scores,tokens", "split": "false"}, kind=FORM)
    r.post("/translate", {"q": BEER, "source": "de", "target": "en", "glossary": '{"bier": "tea"}'}, kind=FORM)
    r.post("/translate", {"q": BEER, "source": "de", "target": "en", "stream": "true"}, kind=FORM)
    r.post("/translate?" + urlencode({"q": BEER, "source": "de", "target": "en"}))
    r.post("/translate?source=de&target=en", {"q": BEER})
    r.post("/translate?source=de&target=en", {"q": BEER}, kind=FORM)
    r.post("/translate?target=es", {"q": BEER, "source": "de", "target": "en"})
    multipart, kind = _multipart({"q": BEER, "source": "de", "target": "en", "beam_size": "2"}, {})
    r.post("/translate", multipart, kind=kind)


def _translate_refused(r: Requests) -> None:
    def ask(**fields: Any) -> None:
        r.post("/translate", {"q": BEER, "source": "de", "target": "en"} | fields)

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
    r.post("/translate", {"q": BEER, "source": "de", "target": "en"}, kind="application/json; charset=utf-8")
    r.post("/translate", {"q": BEER, "source": "de", "target": "en"}, kind="APPLICATION/JSON")
    r.post("/translate", {"q": BEER, "source": "de", "target": "en"}, kind="application/vnd.api+json")
    r.post("/translate", b"q=%ff%fe&source=de&target=en", kind=FORM)
    r.post("/translate", b"q=a&q=b&source=de&source=en&target=en", kind=FORM)
    r.post("/translate", b"no form at all", kind="multipart/form-data")
    r.post("/translate", b"--x\r\nbroken", kind="multipart/form-data; boundary=x")
    r.post("/translate", b" " * 2_000_001)
    for method in ("GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"):
        r.add(method, "/translate")


def _detect(r: Requests) -> None:
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


def _generate(r: Requests) -> None:
    def ask(**fields: Any) -> None:
        r.post("/generate", {"prompt": "分开", "max_new_tokens": 20, "seed": 7} | fields)

    for seed in (0, 1, 7, 2**31, 2**63 - 1):
        ask(seed=seed)
    for temperature in (0, 0.3, 1, 2.5, 10):
        ask(temperature=temperature)
        ask(temperature=temperature, logprobs=True, n=2)
    for top_k in (1, 2, 40, 100_000):
        ask(top_k=top_k)
    for top_p in (0.01, 0.5, 0.95, 1):
        ask(top_p=top_p)
        ask(top_p=top_p, top_k=40, temperature=1.2)
    for n in (1, 2, 5, 16):
        ask(n=n)
        ask(n=n, stream=True)
    ask(n=3, logprobs=True, stream=True)
    ask(logprobs=True, stream=True)
    for stop in ("\n", ["的", "\n"], [], "没有这个", ["\n"] * 16, ["\n"] * 17, "", [""], 5):
        ask(stop=stop, max_new_tokens=60)
        ask(stop=stop, max_new_tokens=60, stream=True, logprobs=True)
    for prompt in ("", "我", "\n", "abc", "🍺", "分开后的街道下着旧雨\n", "我" * 1025, "我" * 100_001, 5, None, ["a"]):
        ask(prompt=prompt)
    for tokens in (1, 2, 200, 1024, 1025, 0, -1, "x", 1.5):
        ask(max_new_tokens=tokens)
    ask(temperature=0, max_new_tokens=300)
    ask(temperature=0, max_new_tokens=300, stream=True)
    for name, values in {
        "temperature": (-1, 11, "hot", None),
        "top_k": (-1, 1_000_001, "x", 1.5),
        "top_p": (0, 1.5, -1, "x"),
        "seed": (-1, 2**63, 2**64, "x", 1.5),
        "n": (0, 17, "x"),
        "model": ("nothing", "demo-de-en", "lyrics-zh", 5),
        "logprobs": ("maybe", 5),
        "stream": ("maybe",),
        "unknown": (1,),
        "beam_size": (4,),
    }.items():
        for value in values:
            ask(**{name: value})
    r.post("/generate", {"prompt": "分开", "temperature": 0, "max_new_tokens": 5, "seed": None})
    r.post("/generate", {"temperature": 0})
    r.post("/generate", b"{")
    r.post("/generate", b"[]")
    r.post("/generate", {"prompt": "分开", "max_new_tokens": "5", "seed": "7"}, kind=FORM)
    r.get("/generate")


def _completions(r: Requests) -> None:
    def ask(**fields: Any) -> None:
        given = {"model": "lyrics-zh", "prompt": "分开", "max_tokens": 12, "temperature": 0.8, "seed": 7} | fields
        r.post("/v1/completions", given)

    for fields in (
        {},
        {"n": 3},
        {"prompt": ["分开", "我"], "n": 2},
        {"prompt": [1, 2, 3]},
        {"prompt": [[1, 2], [3]]},
        {"prompt": []},
        {"prompt": ""},
        {"prompt": [""]},
        {"prompt": [10**9]},
        {"prompt": [-1]},
        {"prompt": [["x"]]},
        {"echo": True},
        {"echo": True, "max_tokens": 0, "logprobs": 3},
        {"echo": True, "max_tokens": 0},
        {"max_tokens": 0},
        {"echo": True, "logprobs": 2},
        {"logprobs": 0},
        {"logprobs": 5},
        {"logprobs": 6},
        {"logprobs": 2, "n": 2, "prompt": ["分开", "我"]},
        {"logprobs": 2, "stop": "\n", "max_tokens": 60},
        {"stop": ["\n", "的"], "max_tokens": 60},
        {"stop": ["a"] * 17},
        {"presence_penalty": 1.5},
        {"frequency_penalty": 1.5},
        {"repetition_penalty": 1.5},
        {"presence_penalty": -2, "frequency_penalty": 2, "repetition_penalty": 0.5, "logprobs": 2},
        {"presence_penalty": 3},
        {"repetition_penalty": 0},
        {"no_repeat_ngram_size": 2, "temperature": 0, "max_tokens": 80},
        {"no_repeat_ngram_size": 1, "max_tokens": 80},
        {"no_repeat_ngram_size": -1},
        {"temperature": 0, "max_tokens": 200},
        {"temperature": None, "top_p": None, "n": None, "max_tokens": None, "stop": None, "echo": None, "user": "a"},
        {"top_k": 5},
        {"top_k": -1},
        {"top_k": -2},
        {"top_p": 0.5},
        {"top_p": 0},
        {"min_p": 0.1},
        {"min_p": 0},
        {"best_of": 2},
        {"best_of": 2, "n": 2},
        {"suffix": "x"},
        {"suffix": ""},
        {"logit_bias": {"5": 1}},
        {"logit_bias": {}},
        {"seed": -1},
        {"seed": "x"},
        {"n": 0},
        {"n": 17},
        {"max_tokens": 5000},
        {"max_tokens": -1},
        {"model": "nothing"},
        {"model": "demo-de-en"},
        {"model": None},
        {"stream_options": {"include_usage": True}},
        {"unknown": 1},
        {"temperature": 3},
        {"temperature": "x"},
        {"prompt": "我" * 2000},
    ):
        ask(**fields)
    for fields in (
        {},
        {"n": 2},
        {"prompt": ["分开", "我"], "n": 2},
        {"echo": True},
        {"logprobs": 2},
        {"echo": True, "logprobs": 2},
        {"echo": True, "max_tokens": 0, "logprobs": 1},
        {"stop": "\n", "max_tokens": 60, "logprobs": 1},
        {"stream_options": {"include_usage": True}},
        {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
        {"stream_options": {"continuous_usage_stats": True}},
        {"stream_options": {"unknown": True}},
        {"max_tokens": 0},
        {"model": "nothing"},
        {"temperature": 0, "max_tokens": 100, "no_repeat_ngram_size": 2},
    ):
        ask(stream=True, **fields)
    r.post("/v1/completions", b"{")
    r.post("/v1/completions", b"")
    r.post("/v1/completions", {})
    r.post("/v1/completions", {"prompt": "我"}, kind=FORM)
    r.get("/v1/completions")
    r.post("/v1/chat/completions", {"messages": []})
    r.get("/v1/nothing")


def _attention(r: Requests) -> None:
    def ask(query: str = "", **fields: Any) -> None:
        r.post(f"/attention{query}", {"source": WORLD, "model": "demo-de-en"} | fields)

    for kind in ("encoder", "decoder", "cross"):
        for encoding in ("json", "u8", "u16", "f32"):
            ask(kinds=[kind], encoding=encoding, target="hello world")
        ask(kinds=[kind], layers=[-1], heads=[0, 2], decimals=3)
        ask(kinds=[kind], reduce={"heads": "mean", "layers": "mean"}, source=SENTENCES[-1])
        ask(kinds=[kind], reduce={"heads": "max"})
        ask(kinds=[kind], reduce={"layers": "mean"}, encoding="u16")
        for mode in ("pharaoh", "nematus", "csv"):
            ask(f"?format={mode}", kinds=[kind], source=DOG)
        ask(kinds=[kind], qk={"kind": kind, "layer": -1, "head": 1, "row": -1})
        ask(kinds=[kind], mask_heads=[{"kind": kind, "layer": 0, "head": 0}, {"kind": kind, "layer": 1, "head": -1}])
    ask(include=["alignment", "rollout", "stats", "steps"], top_k=3, source=DOG)
    ask(include=["alignment", "steps"], top_k=10, target="a dog sees red apples", source=DOG)
    ask(include=["rollout"], kinds=[], decimals=4)
    ask(prefix="the", source=DOG, kinds=["cross"])
    ask(decode={"beam_size": 8, "length_penalty": 0.5, "max_new_tokens": 4}, source=DOG, kinds=["cross"])
    ask(decode={"beam_size": 1}, source=DOG, kinds=["cross"])
    ask(source_ids=[61, 85], source=None, kinds=["cross"], heads=[0])
    ask(model=None)
    ask(model="demo-en-es", source=WORLD)
    for fields in (
        {"source": ""},
        {"source": None},
        {"source": 5},
        {"source": "hallo " * 300},
        {"target": ""},
        {"target": "a " * 300},
        {"target": "x", "prefix": "y"},
        {"source_ids": [1, 2]},
        {"source_ids": [10**9], "source": None},
        {"kinds": ["other"]},
        {"kinds": []},
        {"layers": [9]},
        {"layers": "some"},
        {"heads": [-9]},
        {"heads": []},
        {"encoding": "u4"},
        {"decimals": 2},
        {"decimals": 9},
        {"top_k": 11},
        {"include": ["everything"]},
        {"mask_heads": [{"kind": "cross", "layer": 7, "head": 0}]},
        {"mask_heads": [{"kind": "cross", "layer": 0, "head": 0}] * 17},
        {"qk": {"kind": "cross", "layer": 0, "head": 0, "row": 99}},
        {"qk": {"kind": "none"}},
        {"decode": {"beam_size": 100}},
        {"decode": {"beam_size": "x"}},
        {"reduce": {"heads": "sum"}},
        {"model": "nothing"},
        {"model": "lyrics-zh"},
        {"unknown": 1},
        {"source": "haus " * 110, "target": "house " * 110},
    ):
        ask(**fields)
    ask("?format=xml")
    ask("?format=csv", kinds=["encoder", "cross"])
    r.post("/attention", b"{")
    r.get("/attention")


def _gates(r: Requests) -> None:
    def ask(**fields: Any) -> None:
        r.post("/gates", {"text": "分开后的街道"} | fields)

    for encoding in ("json", "u8", "u16", "f32"):
        ask(encoding=encoding, units=4)
    for fields in (
        {"units": 2, "top_k": 3},
        {"units": [0, 5, -1], "gates": ["z"]},
        {"gates": ["r", "z", "n", "h"], "units": 1, "decimals": 6},
        {"gates": [], "units": 1},
        {"layers": [0], "units": 3},
        {"layers": [5]},
        {"gates": ["i"]},
        {"units": 0},
        {"units": 10**6},
        {"units": [10**6]},
        {"units": "x"},
        {"text": ""},
        {"text": "我" * 3000},
        {"text": "abc🍺"},
        {"text": 5},
        {"top_k": 11},
        {"decimals": 9},
        {"encoding": "x"},
        {"model": "demo-de-en"},
        {"model": "nothing"},
        {"unknown": 1},
    ):
        ask(**fields)
    r.post("/gates", {})


def _score(r: Requests) -> None:
    for fields in (
        {"text": "分开后的街道"},
        {"text": "分开后的街道", "top_k": 3},
        {"text": "分开后的街道", "distribution": "network", "top_k": 1},
        {"text": "我"},
        {"text": ""},
        {"text": "🍺 abc"},
        {"text": "我" * 3000},
        {"source": BEER, "target": "i want a beer", "model": "demo-de-en"},
        {"source": BEER, "target": "i want a beer", "model": "demo-de-en", "top_k": 10, "distribution": "network"},
        {"source": BEER, "target": "zzz qqq", "model": "demo-de-en", "top_k": 2},
        {"source": BEER, "target": "", "model": "demo-de-en"},
        {"source": "", "target": "beer", "model": "demo-de-en"},
        {"source": BEER, "target": "i want a beer"},
        {"source": BEER, "model": "demo-de-en"},
        {"source": BEER, "target": "a", "text": "b"},
        {"text": "我", "model": "demo-de-en"},
        {"text": "我", "model": "nothing"},
        {"source": "hallo " * 300, "target": "hello", "model": "demo-de-en"},
        {"text": 5},
        {"text": "我", "top_k": 11},
        {"text": "我", "distribution": "x"},
        {"text": "我", "unknown": 1},
        {},
    ):
        r.post("/score", fields)


def _walkthrough(r: Requests) -> None:
    for fields in (
        {},
        {"side": "encoder"},
        {"side": "encoder", "layer": 0, "head": 3, "position": 1, "values": 3, "places": 2},
        {"side": "decoder", "layer": 0, "head": 2, "position": 0},
        {"target": "hello world"},
        {"target": "something else", "values": 64, "places": 256},
        {"layer": 9},
        {"head": 9},
        {"position": 99},
        {"side": "middle"},
        {"values": 0},
        {"places": 0},
        {"source": ""},
        {"source": "hallo " * 300},
        {"model": "lyrics-zh"},
        {"model": None},
        {"unknown": 1},
    ):
        r.post("/walkthrough", {"source": WORLD, "model": "demo-de-en"} | fields)


def _deepl(r: Requests) -> None:
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


def _glossaries(r: Requests) -> None:
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


def _documents(r: Requests) -> None:
    """DeepL's documents: given, waited for, fetched."""
    saved = {"document": r'"document_id":\s*"([^"]+)"', "key": r'"document_key":\s*"([^"]+)"'}
    for name, content in _files_of_each_kind().items():
        body, kind = _multipart({"target_lang": "EN", "source_lang": "DE"}, {"file": (name, content)})
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
        body, kind = _multipart(fields, files)
        r.post("/v2/document", body, kind=kind, save=saved)
        r.post("/v2/document/{{document}}", {"document_key": "{{key}}"}, until='"(done|error|message)"')
    r.post("/v2/document/{{document}}", {"document_key": "wrong"})
    r.post("/v2/document/{{document}}", {})
    r.post("/v2/document/nothing", {"document_key": "x"})
    r.post("/v2/document/nothing/result", {"document_key": "x"})
    r.post("/v2/document", {"target_lang": "EN"})


def _files(r: Requests) -> None:
    """LibreTranslate's files: translated, then fetched by the address."""
    saved = {"download": r'"translatedFileUrl":\s*"https?://[^/]+(/download_file/[^"]+)"'}
    for name, content in _files_of_each_kind().items():
        for more in ({}, {"beam_size": "1", "glossary": '{"bier": "tea"}'}):
            body, kind = _multipart({"source": "de", "target": "en", **more}, {"file": (name, content)})
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
        body, kind = _multipart(fields, files)
        r.post("/translate_file", body, kind=kind)
    r.post("/translate_file", {"source": "de", "target": "en"})
    r.post("/translate_file", {"source": "de", "target": "en"}, kind=FORM)
    r.get("/translate_file")
    r.get("/download_file/nothing.txt")
    r.get("/download_file/..%2f..%2fetc%2fpasswd")


def _extensions(r: Requests) -> None:
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


def _http(r: Requests) -> None:
    """What HTTP itself allows and forbids."""
    body = json.dumps({"q": BEER, "source": "de", "target": "en"}, ensure_ascii=False).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    r.raw("plain", head + length + body)
    r.raw("chunked", head + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
    r.raw("expect", head + b"Expect: 100-continue\r\n" + length + body)
    r.raw("expect other", head + b"Expect: something\r\n" + length + body)
    r.raw("bad length", head + b"Content-Length: x\r\n\r\n" + body)
    r.raw("huge length", head + b"Content-Length: 3000000\r\n\r\n")
    r.raw("no host", b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    r.raw("HTTP/1.0", b"GET /health HTTP/1.0\r\n\r\n")
    r.raw("no HTTP", b"hello\r\n\r\n")
    r.raw("gzip body", head + b"Content-Encoding: gzip\r\n" + length + body)
    r.get("/health", headers={"X-Request-Id": "mine-1"})
    r.get("/health", headers={"X-Request-Id": "not mine\t1"})
    r.post("/translate", {"q": BEER, "source": "de", "target": "xx"}, headers={"X-Request-Id": "mine-2"})
    r.get("/health", headers={"Origin": "https://example.org"})
    r.add("OPTIONS", "/translate", headers={"Origin": "https://example.org", "Access-Control-Request-Method": "POST"})
    r.post("/translate", {"q": BEER, "source": "de", "target": "en"}, headers={"Accept-Encoding": "gzip"})
    r.get("/openapi.json", headers={"Accept-Encoding": "gzip, br"})
    r.post(
        "/translate", {"q": BEER, "source": "de", "target": "en", "api_key": "x"}, headers={"Authorization": "Bearer x"}
    )
    r.get("/metrics?name[]=x")
    r.get("/health?" + "a" * 3000)
    r.get("/" + "a" * 3000)


def _precise() -> list[Request]:
    """fp32, whose last bits depend on the rows beside a row: searches and samples of one text again."""
    requests = Requests("fp32")
    _translate(requests)
    _generate(requests)
    _attention(requests)
    _score(requests)
    requests.get("/models")
    return [request for request in requests.all if b'"q": [' not in (request.body or b"")]


def _several() -> list[Request]:
    """Several models of a kind and of other architectures (`same_answers.train_extra`)."""
    r = Requests("several")
    r.get("/models")
    r.get("/languages")
    r.get("/health/ready")
    r.get("/v1/models")
    r.post("/generate", {"prompt": "the", "seed": 1})
    r.post("/score", {"text": "the"})
    r.post("/gates", {"text": "the"})
    r.post("/v1/completions", {"prompt": "the", "seed": 1, "max_tokens": 4})
    r.post("/translate", {"q": BEER, "source": "de", "target": "en"})
    for model in ("post-de-en", "pre-de-en", "demo-de-en"):
        r.get(f"/models/{model}/curves")
        for q in (*SENTENCES, LONG):
            r.post(
                "/translate",
                {"q": q, "source": "de", "target": "en", "model": model, "return": ["scores", "alignment"]},
            )
            r.post("/translate", {"q": q, "source": "de", "target": "en", "model": model, "beam_size": 1})
        for more in (
            {"beam_size": 8, "alternatives": 7},
            {"prefix": "the"},
            {"glossary": {"bier": "tea"}},
            {"stream": True},
            {"no_repeat_ngram_size": 2, "max_new_tokens": 30},
        ):
            r.post("/translate", {"q": SENTENCES[-1], "source": "de", "target": "en", "model": model} | more)
        r.post(
            "/attention",
            {"source": DOG, "model": model, "include": ["alignment", "stats", "rollout", "steps"], "top_k": 2},
        )
        r.post(
            "/attention",
            {
                "source": DOG,
                "model": model,
                "encoding": "f32",
                "mask_heads": [{"kind": "encoder", "layer": 0, "head": 0}],
            },
        )
        r.post(
            "/attention", {"source": DOG, "model": model, "qk": {"kind": "decoder", "layer": 0, "head": 0, "row": -1}}
        )
        r.post("/walkthrough", {"source": DOG, "model": model, "side": "encoder"})
        r.post("/walkthrough", {"source": DOG, "model": model})
        r.post("/score", {"source": DOG, "target": "the dog", "model": model, "top_k": 2})
        r.post("/gates", {"text": "the", "model": model})
    for model in ("gru", "lstm", "rnn"):
        r.get(f"/models/{model}/curves")
        for seed in range(3):
            r.post(
                "/generate", {"prompt": "the ", "model": model, "seed": seed, "max_new_tokens": 60, "logprobs": True}
            )
        r.post("/generate", {"prompt": "the ", "model": model, "temperature": 0, "max_new_tokens": 200})
        r.post(
            "/generate", {"prompt": "the ", "model": model, "seed": 5, "n": 3, "top_k": 5, "top_p": 0.9, "stream": True}
        )
        r.post("/v1/completions", {"prompt": "the ", "model": model, "seed": 5, "n": 2, "logprobs": 3, "echo": True})
        r.post(
            "/v1/completions", {"prompt": "the ", "model": model, "seed": 5, "frequency_penalty": 1, "max_tokens": 50}
        )
        for encoding in ("json", "f32"):
            r.post("/gates", {"text": "the cat", "model": model, "encoding": encoding, "top_k": 2, "units": 5})
        r.post("/gates", {"text": "the cat", "model": model, "gates": ["c", "f"]})
        r.post("/score", {"text": "the cat", "model": model, "top_k": 2})
        r.post("/attention", {"source": DOG, "model": model})
    return r.all


def _guarded() -> list[Request]:
    """Keys, limits, quotas, administration, suggestions, the cache, CORS and addresses behind a proxy."""
    r = Requests("guarded")
    ask = {"q": BEER, "source": "de", "target": "en"}

    def bearer(key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    r.get("/health")
    r.get("/frontend/settings")
    r.get("/languages")
    for path, body in (
        ("/translate", ask),
        ("/detect", {"q": BEER}),
        ("/generate", {"prompt": "我", "seed": 1, "max_new_tokens": 3}),
        ("/v1/completions", {"prompt": "我", "seed": 1, "max_tokens": 3}),
        ("/v2/translate", {"text": [BEER], "target_lang": "EN"}),
        ("/deepl", {"text": [BEER], "target_lang": "EN"}),
        ("/deeplx", {"text": BEER, "target_lang": "EN"}),
        ("/imme", {"text_list": [BEER], "target_lang": "en"}),
        ("/kiss", {"text": BEER, "to": "en"}),
        ("/hcfy", {"text": BEER, "destination": ["英语"]}),
        ("/language/translate/v2", {"q": BEER, "target": "en"}),
        ("/attention", {"source": WORLD, "model": "demo-de-en", "kinds": ["cross"]}),
        ("/gates", {"text": "我", "units": 1}),
        ("/score", {"text": "我"}),
        ("/walkthrough", {"source": WORLD, "model": "demo-de-en"}),
        ("/suggest", {"q": BEER, "s": "a beer please", "source": "de", "target": "en"}),
    ):
        r.post(path, body)
        r.post(path, body, headers=bearer("{{wrong_key}}"))
        r.post(path, body, headers=bearer("{{free_key}}"))
    r.get("/models")
    r.get("/models", headers=bearer("{{free_key}}"))
    r.post("/translate", ask | {"api_key": "{{free_key}}"})
    r.post("/translate", ask | {"api_key": "{{wrong_key}}"})
    r.post("/translate", ask | {"api_key": "{{free_key}}"}, kind=FORM)
    r.post(
        "/v2/translate", {"text": [BEER], "target_lang": "EN"}, headers={"Authorization": "DeepL-Auth-Key {{free_key}}"}
    )
    r.post("/imme?token={{free_key}}", {"text_list": [BEER], "target_lang": "en"})
    r.post("/kiss", {"text": BEER, "to": "en"}, headers={"KEY": "{{free_key}}"})
    r.post("/language/translate/v2?key={{free_key}}", {"q": BEER, "target": "en"})
    r.post("/translate", ask, headers={"Authorization": "Basic eDp5"})
    r.post("/translate", ask, headers={"X-Api-Key": "{{free_key}}"})
    for _ in range(4):
        r.post("/translate", ask, headers=bearer("{{slow_key}}"))
    r.post("/translate", ask | {"q": [BEER] * 5}, headers=bearer("{{slow_key}}"))
    r.post("/v1/completions", {"prompt": "我", "seed": 1, "max_tokens": 3}, headers=bearer("{{slow_key}}"))
    r.post("/v2/translate", {"text": [BEER], "target_lang": "EN"}, headers=bearer("{{slow_key}}"))
    for _ in range(3):
        r.post("/translate", ask, headers=bearer("{{quota_key}}"))
        r.get("/v2/usage", headers=bearer("{{quota_key}}"))
    r.post("/v2/translate", {"text": [BEER], "target_lang": "EN"}, headers=bearer("{{quota_key}}"))
    r.post("/v1/completions", {"prompt": "我" * 30, "seed": 1, "max_tokens": 3}, headers=bearer("{{quota_key}}"))
    r.get("/v2/usage", headers=bearer("{{free_key}}"))
    r.get("/v2/usage")
    saved = {"glossary": r'"glossary_id":\s*"([^"]+)"'}
    add = {"name": "d", "source_lang": "de", "target_lang": "en", "entries": "bier\ttea", "entries_format": "tsv"}
    r.post("/v2/glossaries", add, headers=bearer("{{free_key}}"), save=saved)
    r.get("/v2/glossaries/{{glossary}}", headers=bearer("{{admin_key}}"))
    r.get("/v2/glossaries/{{glossary}}", headers=bearer("{{free_key}}"))
    r.post(
        "/suggest", {"q": BEER, "s": "a beer please", "source": "de", "target": "en"}, headers=bearer("{{free_key}}")
    )
    r.post("/suggest", {"q": "", "s": "", "source": "de", "target": "en"}, headers=bearer("{{free_key}}"))
    r.post("/suggest", {"q": "x", "s": "y", "source": "xx", "target": "en"}, headers=bearer("{{free_key}}"))
    for _ in range(2):
        r.post("/translate", ask | {"q": SENTENCES[-1], "return": ["scores", "tokens"]}, headers=bearer("{{free_key}}"))
        r.post("/translate", ask | {"q": LONG, "beam_size": 1}, headers=bearer("{{free_key}}"))
    for name in ("demo-de-en", "nothing", "..%2fx"):
        for action in ("load", "reload", "unload"):
            r.post(f"/models/{name}/{action}")
            r.post(f"/models/{name}/{action}", headers=bearer("{{wrong_key}}"))
            r.post(f"/models/{name}/{action}", headers=bearer("{{free_key}}"))
    r.get("/models/demo-de-en/load", headers=bearer("{{admin_key}}"))
    for action in ("load", "reload", "unload", "unload", "reload", "load", "load"):
        r.post(f"/models/demo-en-es/{action}", headers=bearer("{{admin_key}}"))
        r.post("/translate", {"q": "hello world", "source": "en", "target": "es"}, headers=bearer("{{free_key}}"))
        r.get("/models", headers=bearer("{{admin_key}}"))
        r.get("/languages")
    r.post("/models/nothing/load", headers={"X-Api-Key": "{{master_key}}"})
    r.post("/models/lyrics-zh/reload", headers={"X-Api-Key": "{{master_key}}"})
    r.post("/models/lyrics-zh/unload", headers={"X-Api-Key": "{{master_key}}"})
    r.post("/generate", {"prompt": "我", "seed": 1, "max_new_tokens": 3}, headers=bearer("{{free_key}}"))
    r.post("/v1/completions", {"prompt": "我", "seed": 1}, headers=bearer("{{free_key}}"))
    for origin in ("https://example.org", "https://other.example"):
        r.get("/health", headers={"Origin": origin})
        r.post("/translate", ask, headers={"Origin": origin, **bearer("{{free_key}}")})
        r.add(
            "OPTIONS",
            "/translate",
            headers={
                "Origin": origin,
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "content-type,authorization",
            },
        )
    body, kind = _multipart({"source": "de", "target": "en"}, {"file": ("a.txt", BEER.encode())})
    r.post(
        "/translate_file",
        body,
        kind=kind,
        headers=bearer("{{free_key}}"),
        save={"download": r'(/download_file/[^"]+)"'},
    )
    r.get("{{download}}")
    r.post("/translate_file", body, kind=kind)
    r.get("/metrics")
    return r.all


def _small() -> list[Request]:
    """Limits so low that each is met."""
    r = Requests("small")
    ask = {"q": BEER, "source": "de", "target": "en"}
    r.get("/frontend/settings")
    r.get("/languages")
    r.post("/translate", ask)
    r.post("/translate", ask | {"q": "x" * 41})
    r.post("/translate", ask | {"q": [WORLD] * 3})
    r.post("/translate", ask | {"q": [WORLD] * 2})
    r.post("/translate", ask | {"alternatives": 2})
    r.post("/translate", ask | {"q": [DOG, DOG]})
    r.post("/translate", ask | {"q": "der hund sieht die roten äpfel der hund"})
    r.post("/translate", ask | {"q": "x" * 700})
    r.post("/translate", ask | {"stream": True, "q": "x" * 41})
    r.post("/generate", {"prompt": "我", "max_new_tokens": 9})
    r.post("/generate", {"prompt": "我", "n": 3, "max_new_tokens": 5})
    r.post("/generate", {"prompt": "我" * 41, "max_new_tokens": 5})
    r.post("/v1/completions", {"prompt": "我", "max_tokens": 9})
    r.post("/v1/completions", {"prompt": ["我"] * 3, "max_tokens": 2})
    r.post("/v1/completions", {"prompt": "我", "n": 3, "max_tokens": 2})
    r.post("/attention", {"source": DOG, "model": "demo-de-en"})
    r.post("/attention", {"source": DOG, "model": "demo-de-en", "encoding": "u8"})
    r.post("/attention", {"source": "x" * 41, "model": "demo-de-en"})
    r.post("/gates", {"text": "我" * 20, "units": 16})
    r.post("/v2/translate", {"text": [BEER] * 3, "target_lang": "EN"})
    r.post("/v2/translate", {"text": ["x" * 41], "target_lang": "EN"})
    r.post("/imme", {"text_list": [BEER] * 3, "target_lang": "en"})
    r.post("/language/translate/v2", {"q": [BEER] * 3, "target": "en"})
    r.post("/kiss", {"text": "x" * 41, "to": "en"})
    r.post("/detect", {"q": "x" * 41})
    r.post("/detect", {"q": [BEER] * 3})
    r.post("/score", {"text": "我" * 41})
    r.post("/walkthrough", {"source": "x" * 41, "model": "demo-de-en"})
    body, kind = _multipart({"source": "de", "target": "en"}, {"file": ("a.txt", b"x" * 1300)})
    r.post("/translate_file", body, kind=kind)
    r.post("/v2/document", body, kind=kind)
    body, kind = _multipart({"source": "de", "target": "en"}, {"file": ("a.txt", b"hallo welt\n" * 60)})
    r.post("/translate", ask | {"q": "x" * 1100})
    r.post("/translate_file", body, kind=kind)
    r.post("/translate_file", body, kind=kind)
    r.get("/metrics")
    return r.all


def _damaged() -> list[Request]:
    """Checkpoint folders that are damaged in a way each (`same_answers.damaged_checkpoints`)."""
    r = Requests("damaged")
    admin = {"X-Api-Key": "{{master_key}}"}
    r.get("/health/ready")
    r.get("/models")
    for name in ("truncated", "flipped", "newer", "no-config", "bad-config", "no-weights", "no-tokenizer", "good"):
        r.post(f"/models/{name}/load", headers=admin)
        r.post(f"/models/{name}/reload", headers=admin)
        r.get(f"/models/{quote(name)}/curves")
    r.post("/translate", {"q": BEER, "source": "de", "target": "en"})
    r.get("/health/ready")
    return r.all


def _multipart(fields: dict[str, str], files: dict[str, tuple[str, bytes]]) -> tuple[bytes, str]:
    """A form with files, and its content type."""
    boundary = "recorded-boundary"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    for name, (filename, content) in files.items():
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n'
        parts.append(f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + content + b"\r\n")
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def _files_of_each_kind() -> dict[str, bytes]:
    return {
        "a.txt": f"{BEER}\n\n{WORLD}.\n".encode(),
        "b.srt": SUBTITLES.encode(),
        "c.html": PAGE.encode(),
        "d.docx": _word_document(),
        "e.odt": _open_document(),
    }


def _package(parts: dict[str, str], stored_first: bool = False) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as package:
        for index, (name, text) in enumerate(parts.items()):
            info = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            method = zipfile.ZIP_STORED if stored_first and index == 0 else zipfile.ZIP_DEFLATED
            package.writestr(info, text.encode(), method)
    return content.getvalue()


def _word_document() -> bytes:
    """A .docx with two paragraphs, of which the first has a bold word."""
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    return _package(
        {
            "[Content_Types].xml": f'{head}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
            "_rels/.rels": f'{head}<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
            f'<Relationship Id="rId1" Type="{office}" Target="word/document.xml"/></Relationships>',
            "word/document.xml": f'{head}<w:document xmlns:w="{word}"><w:body><w:p><w:r><w:t xml:space="preserve">ich '
            "möchte </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>ein bier</w:t></w:r></w:p>"
            f"<w:p><w:r><w:t>{WORLD}</w:t></w:r></w:p></w:body></w:document>",
        }
    )


def _open_document() -> bytes:
    """An .odt with two paragraphs."""
    kind = "application/vnd.oasis.opendocument.text"
    names = "urn:oasis:names:tc:opendocument:xmlns"
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return _package(
        {
            "mimetype": kind,
            "META-INF/manifest.xml": f'{head}<manifest:manifest xmlns:manifest="{names}:manifest:1.0" '
            f'manifest:version="1.2"><manifest:file-entry manifest:full-path="/" manifest:media-kind="{kind}"/>'
            '<manifest:file-entry manifest:full-path="content.xml" manifest:media-kind="text/xml"/>'
            "</manifest:manifest>",
            "content.xml": f'{head}<office:document-content xmlns:office="{names}:office:1.0" xmlns:text="{names}:text'
            ':1.0" office:version="1.2"><office:body><office:text><text:p>ich möchte '
            f"<text:span>ein bier</text:span></text:p><text:p>{WORLD}</text:p></office:text></office:body>"
            "</office:document-content>",
        },
        stored_first=True,
    )
