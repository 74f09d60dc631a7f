"""Requests to /attention, /gates, /score and /walkthrough."""

from __future__ import annotations

from typing import Any

from benchmarks.recorded_requests.request import BEER, DOG, SENTENCES, WORLD, Requests


def attention(r: Requests) -> None:
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


def gates(r: Requests) -> None:
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


def score(r: Requests) -> None:
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


def walkthrough(r: Requests) -> None:
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
