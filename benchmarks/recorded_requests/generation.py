"""Requests to /generate and /v1/completions."""

from __future__ import annotations

from typing import Any

from benchmarks.recorded_requests.request import FORM, Requests

# Fields of a request that differ from the usual ones, request by request.
_COMPLETIONS: tuple[dict[str, Any], ...] = (
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
)
_STREAMED_COMPLETIONS: tuple[dict[str, Any], ...] = (
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
)


def generate(r: Requests) -> None:
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


def completions(r: Requests) -> None:
    def ask(**fields: Any) -> None:
        given = {"model": "lyrics-zh", "prompt": "分开", "max_tokens": 12, "temperature": 0.8, "seed": 7} | fields
        r.post("/v1/completions", given)

    for fields in _COMPLETIONS:
        ask(**fields)
    for fields in _STREAMED_COMPLETIONS:
        ask(stream=True, **fields)
    r.post("/v1/completions", b"{")
    r.post("/v1/completions", b"")
    r.post("/v1/completions", {})
    r.post("/v1/completions", {"prompt": "我"}, kind=FORM)
    r.get("/v1/completions")
    r.post("/v1/chat/completions", {"messages": []})
    r.get("/v1/nothing")
