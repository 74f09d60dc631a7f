"""The groups of requests: each has a server of its own (`same_answers.GROUPS`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from benchmarks.recorded_requests.deepl import deepl, documents, extensions, glossaries
from benchmarks.recorded_requests.generation import completions, generate
from benchmarks.recorded_requests.inspection import attention, gates, score, walkthrough
from benchmarks.recorded_requests.pages import http, pages
from benchmarks.recorded_requests.request import BEER, DOG, FORM, LONG, SENTENCES, WORLD, Request, Requests
from benchmarks.recorded_requests.small_files import multipart_form
from benchmarks.recorded_requests.translation import detect, files, translate, translate_refused

_USUAL: dict[str, Any] = {"q": BEER, "source": "de", "target": "en"}
_ONE_REQUEST_PER_ROUTE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/translate", _USUAL),
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
)


def all_requests() -> Iterator[Request]:
    for make in (_open, _precise, _several, _guarded, _small, _damaged):
        yield from make()


def _open() -> list[Request]:
    """A server as `make serve` starts it, with the fastest backends of this machine and the three demo models."""
    requests = Requests("open")
    pages(requests)
    translate(requests)
    translate_refused(requests)
    detect(requests)
    generate(requests)
    completions(requests)
    attention(requests)
    gates(requests)
    score(requests)
    walkthrough(requests)
    deepl(requests)
    glossaries(requests)
    documents(requests)
    files(requests)
    extensions(requests)
    http(requests)
    requests.get("/metrics")
    requests.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    return requests.all


def _precise() -> list[Request]:
    """Searches and samples of one text again in fp32, where the last bits depend on the other rows of the batch."""
    requests = Requests("fp32")
    translate(requests)
    generate(requests)
    attention(requests)
    score(requests)
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
    _keys(r)
    _limits_and_quotas(r)
    _stored_and_cached(r)
    _administration(r)
    _other_origins(r)
    _files_behind_a_proxy(r)
    r.get("/metrics")
    return r.all


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _keys(r: Requests) -> None:
    """Every route without, with a wrong and with a good key, and each place that a protocol has for the key."""
    r.get("/health")
    r.get("/frontend/settings")
    r.get("/languages")
    for path, body in _ONE_REQUEST_PER_ROUTE:
        r.post(path, body)
        r.post(path, body, headers=_bearer("{{wrong_key}}"))
        r.post(path, body, headers=_bearer("{{free_key}}"))
    r.get("/models")
    r.get("/models", headers=_bearer("{{free_key}}"))
    r.post("/translate", _USUAL | {"api_key": "{{free_key}}"})
    r.post("/translate", _USUAL | {"api_key": "{{wrong_key}}"})
    r.post("/translate", _USUAL | {"api_key": "{{free_key}}"}, kind=FORM)
    r.post(
        "/v2/translate", {"text": [BEER], "target_lang": "EN"}, headers={"Authorization": "DeepL-Auth-Key {{free_key}}"}
    )
    r.post("/imme?token={{free_key}}", {"text_list": [BEER], "target_lang": "en"})
    r.post("/kiss", {"text": BEER, "to": "en"}, headers={"KEY": "{{free_key}}"})
    r.post("/language/translate/v2?key={{free_key}}", {"q": BEER, "target": "en"})
    r.post("/translate", _USUAL, headers={"Authorization": "Basic eDp5"})
    r.post("/translate", _USUAL, headers={"X-Api-Key": "{{free_key}}"})


def _limits_and_quotas(r: Requests) -> None:
    """Requests until the rate limit of one key and the quota of another are used up."""
    for _ in range(4):
        r.post("/translate", _USUAL, headers=_bearer("{{slow_key}}"))
    r.post("/translate", _USUAL | {"q": [BEER] * 5}, headers=_bearer("{{slow_key}}"))
    r.post("/v1/completions", {"prompt": "我", "seed": 1, "max_tokens": 3}, headers=_bearer("{{slow_key}}"))
    r.post("/v2/translate", {"text": [BEER], "target_lang": "EN"}, headers=_bearer("{{slow_key}}"))
    for _ in range(3):
        r.post("/translate", _USUAL, headers=_bearer("{{quota_key}}"))
        r.get("/v2/usage", headers=_bearer("{{quota_key}}"))
    r.post("/v2/translate", {"text": [BEER], "target_lang": "EN"}, headers=_bearer("{{quota_key}}"))
    r.post("/v1/completions", {"prompt": "我" * 30, "seed": 1, "max_tokens": 3}, headers=_bearer("{{quota_key}}"))
    r.get("/v2/usage", headers=_bearer("{{free_key}}"))
    r.get("/v2/usage")


def _stored_and_cached(r: Requests) -> None:
    """Glossaries of a key, suggestions, and a translation asked for twice."""
    saved = {"glossary": r'"glossary_id":\s*"([^"]+)"'}
    add = {"name": "d", "source_lang": "de", "target_lang": "en", "entries": "bier\ttea", "entries_format": "tsv"}
    r.post("/v2/glossaries", add, headers=_bearer("{{free_key}}"), save=saved)
    r.get("/v2/glossaries/{{glossary}}", headers=_bearer("{{admin_key}}"))
    r.get("/v2/glossaries/{{glossary}}", headers=_bearer("{{free_key}}"))
    r.post(
        "/suggest", {"q": BEER, "s": "a beer please", "source": "de", "target": "en"}, headers=_bearer("{{free_key}}")
    )
    r.post("/suggest", {"q": "", "s": "", "source": "de", "target": "en"}, headers=_bearer("{{free_key}}"))
    r.post("/suggest", {"q": "x", "s": "y", "source": "xx", "target": "en"}, headers=_bearer("{{free_key}}"))
    for _ in range(2):
        r.post(
            "/translate", _USUAL | {"q": SENTENCES[-1], "return": ["scores", "tokens"]}, headers=_bearer("{{free_key}}")
        )
        r.post("/translate", _USUAL | {"q": LONG, "beam_size": 1}, headers=_bearer("{{free_key}}"))


def _administration(r: Requests) -> None:
    """Models loaded, unloaded and imported, with and without the admin's key."""
    for name in ("demo-de-en", "nothing", "..%2fx"):
        for action in ("load", "reload", "unload"):
            r.post(f"/models/{name}/{action}")
            r.post(f"/models/{name}/{action}", headers=_bearer("{{wrong_key}}"))
            r.post(f"/models/{name}/{action}", headers=_bearer("{{free_key}}"))
    r.get("/models/demo-de-en/load", headers=_bearer("{{admin_key}}"))
    for action in ("load", "reload", "unload", "unload", "reload", "load", "load"):
        r.post(f"/models/demo-en-es/{action}", headers=_bearer("{{admin_key}}"))
        r.post("/translate", {"q": "hello world", "source": "en", "target": "es"}, headers=_bearer("{{free_key}}"))
        r.get("/models", headers=_bearer("{{admin_key}}"))
        r.get("/languages")
    r.post("/models/nothing/load", headers={"X-Api-Key": "{{master_key}}"})
    r.post("/models/lyrics-zh/reload", headers={"X-Api-Key": "{{master_key}}"})
    r.post("/models/lyrics-zh/unload", headers={"X-Api-Key": "{{master_key}}"})
    # no name that exists: a recording asks nothing of another host
    for headers in ({}, _bearer("{{wrong_key}}"), _bearer("{{free_key}}"), {"X-Api-Key": "{{master_key}}"}):
        r.post("/models/import?model=opus%20mt", headers=headers)
        r.get("/models/imports", headers=headers)
        r.add("DELETE", "/models/imports/7", headers=headers)
    r.post("/models/import", headers={"X-Api-Key": "{{master_key}}"})
    r.add("DELETE", "/models/imports/0", headers={"X-Api-Key": "{{master_key}}"})
    r.post("/generate", {"prompt": "我", "seed": 1, "max_new_tokens": 3}, headers=_bearer("{{free_key}}"))
    r.post("/v1/completions", {"prompt": "我", "seed": 1}, headers=_bearer("{{free_key}}"))


def _other_origins(r: Requests) -> None:
    """CORS: an origin that the server allows and one that it does not."""
    for origin in ("https://example.org", "https://other.example"):
        r.get("/health", headers={"Origin": origin})
        r.post("/translate", _USUAL, headers={"Origin": origin, **_bearer("{{free_key}}")})
        r.add(
            "OPTIONS",
            "/translate",
            headers={
                "Origin": origin,
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "content-type,authorization",
            },
        )


def _files_behind_a_proxy(r: Requests) -> None:
    """A translated file, whose address is that of the proxy."""
    body, kind = multipart_form({"source": "de", "target": "en"}, {"file": ("a.txt", BEER.encode())})
    r.post(
        "/translate_file",
        body,
        kind=kind,
        headers=_bearer("{{free_key}}"),
        save={"download": r'(/download_file/[^"]+)"'},
    )
    r.get("{{download}}")
    r.post("/translate_file", body, kind=kind)


def _small() -> list[Request]:
    """Limits so low that each is met."""
    r = Requests("small")
    r.get("/frontend/settings")
    r.get("/languages")
    r.post("/translate", _USUAL)
    r.post("/translate", _USUAL | {"q": "x" * 41})
    r.post("/translate", _USUAL | {"q": [WORLD] * 3})
    r.post("/translate", _USUAL | {"q": [WORLD] * 2})
    r.post("/translate", _USUAL | {"alternatives": 2})
    r.post("/translate", _USUAL | {"q": [DOG, DOG]})
    r.post("/translate", _USUAL | {"q": "der hund sieht die roten äpfel der hund"})
    r.post("/translate", _USUAL | {"q": "x" * 700})
    r.post("/translate", _USUAL | {"stream": True, "q": "x" * 41})
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
    body, kind = multipart_form({"source": "de", "target": "en"}, {"file": ("a.txt", b"x" * 1300)})
    r.post("/translate_file", body, kind=kind)
    r.post("/v2/document", body, kind=kind)
    body, kind = multipart_form({"source": "de", "target": "en"}, {"file": ("a.txt", b"hallo welt\n" * 60)})
    r.post("/translate", _USUAL | {"q": "x" * 1100})
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
