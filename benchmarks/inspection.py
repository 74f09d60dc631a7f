"""How large an answer of POST /attention is, and how long it takes, over HTTP.

python -m benchmarks.inspection [--shape base] [--tokens 64] [--times 15] [--bertviz PYTHON] [--results FILE] [--json]

A translator with random weights reads a source of so many tokens and a forced target of one word less: with its start
token the decoder reads so many too. The server is the one that `make serve` starts, gzip included, beside its client on
the same cores; once more it has one process that computes with a thread for each core. Processor times are those of
all the server's processes. PYTHON: an interpreter that has bertviz, whose page is measured beside it.

Random weights attend almost evenly, which no trained model does. So each encoding is measured on softmax(N(0, 3)) too,
through the server's own encoding and gzip.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from app.api.inspection.encoded_arrays import Encoding, encode_array
from app.api.responses import compress
from benchmarks.report import finish, goal
from benchmarks.servers import Server, ours
from benchmarks.shapes import SHAPES, SPECIAL, Shape, write_checkpoint
from benchmarks.wire import Answer, Client, post

WARM_UPS = 3
MOST_KB, MOST_MS = 100, 150
KINDS = ["encoder", "decoder", "cross"]
ONE_HEAD = {"kinds": ["cross"], "layers": [-1], "heads": [0]}
HEADLINE = "one kind, u8"
ASKED: dict[str, dict[str, Any]] = {
    HEADLINE: {"kinds": ["cross"], "encoding": "u8"},
    "one kind, u16": {"kinds": ["cross"], "encoding": "u16"},
    "one kind, json of 4 decimals": {"kinds": ["cross"], "decimals": 4},
    "all three kinds, u8": {"kinds": KINDS, "encoding": "u8"},
    "one head, json of 4 decimals": {**ONE_HEAD, "decimals": 4},
    "pharaoh": {"kinds": ["cross"]},
}
SERVERS: dict[str, tuple[dict[str, Any], Sequence[str]]] = {
    "as shipped": ({}, tuple(ASKED)),
    "one process": ({"cpu_workers": 1}, (HEADLINE,)),
}
TRIED: tuple[tuple[Encoding, int], ...] = (("u8", 0), ("u16", 0), ("f32", 0), ("json", 4))
BERTVIZ = """
import sys, torch, bertviz
heads, layers, tokens = map(int, sys.argv[1:])
torch.manual_seed(0)
def maps(causal):
    scores = 3 * torch.randn(layers, 1, heads, tokens, tokens)
    upper = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    return list((scores.masked_fill(upper, -torch.inf) if causal else scores).softmax(-1))
words = [f"w{i}" for i in range(tokens)]
page = bertviz.model_view(encoder_attention=maps(False), decoder_attention=maps(True), cross_attention=maps(False),
                          encoder_tokens=words, decoder_tokens=words, html_action="return")
print(len(page.data.encode()))
"""


def words(shape: Shape, count: int, seed: int) -> str:
    rng = random.Random(seed)
    return " ".join(f"w{rng.randrange(len(SPECIAL), shape.vocabulary - len(SPECIAL))}" for _ in range(count))


def request(name: str, shape: Shape, tokens: int) -> bytes:
    """What a client that takes gzip sends."""
    body = {"source": words(shape, tokens, 1), "target": words(shape, tokens - 1, 2), **ASKED[name]}
    whole = post("/attention?format=pharaoh" if name == "pharaoh" else "/attention", body)
    return whole.replace(b"\r\n", b"\r\nAccept-Encoding: gzip\r\n", 1)


def body_of(answer: Answer) -> bytes:
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status}: {answer.body[:300]!r}")
    packed = answer.headers.get(b"content-encoding") == b"gzip"
    return gzip.decompress(answer.body) if packed else answer.body


async def ask(server: Server, name: str, shape: Shape, tokens: int, times: int, how: str) -> dict[str, Any]:
    client, sent, answer = Client(server.port), request(name, shape, tokens), Answer()
    seconds, cpu_seconds = list[float](), list[float]()
    for turn in range(WARM_UPS + times):
        cpu_s, began = server.cpu_s(), time.perf_counter()
        answer = await client.ask(sent)
        if turn >= WARM_UPS:
            seconds.append(answer.ended - began)
            cpu_seconds.append(server.cpu_s() - cpu_s)
        body_of(answer)
    client.close()
    body = body_of(answer)
    row = {"asked": name, "server": how, "wire_kb": kilobytes(answer.body)}
    row |= {"unpacked_kb": kilobytes(body), "median_ms": round(1000 * statistics.median(seconds), 1)}
    row |= {
        "times": times,
        "least_ms": round(1000 * min(seconds), 1),
        "server_cpu_ms": round(1000 * statistics.median(cpu_seconds), 1),
    }
    return row | ({} if name == "pharaoh" else {"shapes": shapes_of(body)})


def shapes_of(body: bytes) -> dict[str, list[int]]:
    return {kind: each["shape"] for kind, each in json.loads(body)["attention"].items()}


def kilobytes(body: bytes) -> float:
    return round(len(body) / 1000, 1)


def peaked(shape: Shape, tokens: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    """softmax(N(0, 3)), [layers, heads, tokens, tokens]."""
    scores = np.random.default_rng(seed).normal(0, 3, (shape.layers, shape.heads, tokens, tokens))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: np.ndarray[Any, np.dtype[np.float32]] = (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)
    return result


def compressed(shape: Shape, tokens: int) -> list[dict[str, Any]]:
    """One kind of peaked attention in each encoding: the array's fields alone."""
    weights, rows = peaked(shape, tokens), []
    for encoding, decimals in TRIED:
        fields = encode_array(weights, encoding, decimals=decimals or 4, bounds=(0.0, 1.0))
        body = msgspec.json.encode(fields)
        name = f"softmax(N(0, 3)), one kind, {encoding}" + (f" of {decimals} decimals" if decimals else "")
        row = {"encoded": name, "shape": list(weights.shape), "unpacked_kb": kilobytes(body)}
        row |= {"gzipped_kb": kilobytes(compress(body))}
        rows.append(row | {"max_abs_error": fields.get("max_abs_error")})
    return rows


def bertviz_page(shape: Shape, tokens: int, python: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {"encoded": "bertviz's page, softmax(N(0, 3)), three kinds, model view"}
    if python is None:
        return row | {"unpacked_kb": None, "why": "bertviz is no dependency: --bertviz PYTHON names one that has it"}
    command = [python, "-c", BERTVIZ, *map(str, (shape.heads, shape.layers, tokens))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return row | {"unpacked_kb": None, "why": (done.stderr.strip().splitlines() or ["no reason given"])[-1]}
    return row | {"unpacked_kb": round(int(done.stdout.split()[-1]) / 1000, 1)}


def served(
    folder: Path, how: str, settings: dict[str, Any], names: Sequence[str], shape: Shape, tokens: int, times: int
) -> list[dict[str, Any]]:
    with ours(folder, log_level="warning", **settings) as server:
        return [asyncio.run(ask(server, name, shape, tokens, times, how)) for name in names]


def goals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shipped, one_process = (row for row in rows if row.get("asked") == HEADLINE)
    peaked_row = next(row for row in rows if row.get("encoded") == "softmax(N(0, 3)), one kind, u8")
    return [
        goal("one kind, u8, gzipped, random weights, the whole answer", shipped["wire_kb"], MOST_KB, "kB", "lower"),
        goal("one kind, u8, gzipped, softmax(N(0, 3))", peaked_row["gzipped_kb"], MOST_KB, "kB", "lower"),
        goal("one kind, u8, over HTTP, median", shipped["median_ms"], MOST_MS, "ms", "lower"),
        goal("the same, one process with a thread for each core", one_process["median_ms"], MOST_MS, "ms", "lower"),
    ]


def measure(shape: Shape, tokens: int, times: int, bertviz: str | None) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(Path(folder) / f"random-{shape.name}", shape)
        rows = [
            row
            for how, (settings, names) in SERVERS.items()
            for row in served(Path(folder), how, settings, names, shape, tokens, times)
        ]
    return [*rows, *compressed(shape, tokens), bertviz_page(shape, tokens, bertviz)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="base")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--bertviz", metavar="PYTHON")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = measure(SHAPES[given.shape], given.tokens, given.times, given.bertviz)
    finish("inspection", rows, goals(rows), as_json=given.json, out=given.results)


if __name__ == "__main__":
    main()
