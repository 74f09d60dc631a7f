"""How large an answer of POST /attention is, and how long it takes, over HTTP.

python -m benchmarks.inspection [--shape base] [--tokens 64] [--times 15] [--bertviz PYTHON] [--results FILE] [--json]

A translator with random weights reads a source of so many tokens and a forced target of one word less: with its start
token the decoder reads so many too. One kind of attention is asked for in u8. The server is the one that `make serve`
starts, gzip included, beside its client on the same cores; once more it has one process that computes with a thread for
each core. PYTHON: an interpreter that has bertviz, whose page is measured beside it.

Random weights attend almost evenly, which no trained model does. So the encoding is measured on softmax(N(0, 3)) too,
through the server's own encoding and gzip.
"""

from __future__ import annotations

import asyncio
import gzip
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from app.api.inspection.encoded_arrays import encode_array
from app.api.responses import compress
from benchmarks.report import argument_parser, finish, goal
from benchmarks.servers import Server, ours
from benchmarks.shapes import SHAPES, SPECIAL, Shape, write_checkpoint
from benchmarks.wire import Answer, Client, post

WARM_UPS = 3
MOST_KB, MOST_MS = 100, 150
SERVERS: dict[str, dict[str, Any]] = {"as shipped": {}, "one process": {"cpu_workers": 1}}
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


def request(shape: Shape, tokens: int) -> bytes:
    """What a client that takes gzip sends."""
    texts = {"source": words(shape, tokens, 1), "target": words(shape, tokens - 1, 2)}
    whole = post("/attention", {**texts, "kinds": ["cross"], "encoding": "u8"})
    return whole.replace(b"\r\n", b"\r\nAccept-Encoding: gzip\r\n", 1)


def body_of(answer: Answer) -> bytes:
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status}: {answer.body[:300]!r}")
    packed = answer.headers.get(b"content-encoding") == b"gzip"
    return gzip.decompress(answer.body) if packed else answer.body


async def ask(server: Server, shape: Shape, tokens: int, times: int, how: str) -> dict[str, Any]:
    client, sent, answer, seconds = Client(server.port), request(shape, tokens), Answer(), list[float]()
    for _ in range(WARM_UPS + times):
        began = time.perf_counter()
        answer = await client.ask(sent)
        seconds.append(answer.ended - began)
    client.close()
    sizes = {"wire_kb": kilobytes(answer.body), "unpacked_kb": kilobytes(body_of(answer))}
    median_ms = round(1000 * statistics.median(seconds[WARM_UPS:]), 1)
    return {"server": how, **sizes, "times": times, "median_ms": median_ms}


def kilobytes(body: bytes) -> float:
    return round(len(body) / 1000, 1)


def peaked(shape: Shape, tokens: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    """softmax(N(0, 3)), [layers, heads, tokens, tokens]."""
    scores = np.random.default_rng(seed).normal(0, 3, (shape.layers, shape.heads, tokens, tokens))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: np.ndarray[Any, np.dtype[np.float32]] = (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)
    return result


def compressed(shape: Shape, tokens: int) -> dict[str, Any]:
    """One kind of peaked attention: the array's fields alone."""
    fields = encode_array(peaked(shape, tokens), "u8", decimals=4, bounds=(0.0, 1.0))
    body = msgspec.json.encode(fields)
    sizes = {"unpacked_kb": kilobytes(body), "gzipped_kb": kilobytes(compress(body))}
    return {"encoded": "softmax(N(0, 3)), one kind, u8", **sizes, "max_abs_error": fields.get("max_abs_error")}


def bertviz_page(shape: Shape, tokens: int, python: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {"encoded": "bertviz's page, softmax(N(0, 3)), three kinds, model view"}
    if python is None:
        return row | {"unpacked_kb": None, "why": "bertviz is no dependency: --bertviz PYTHON names one that has it"}
    command = [python, "-c", BERTVIZ, *map(str, (shape.heads, shape.layers, tokens))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return row | {"unpacked_kb": None, "why": (done.stderr.strip().splitlines() or ["no reason given"])[-1]}
    return row | {"unpacked_kb": round(int(done.stdout.split()[-1]) / 1000, 1)}


def goals(shipped: dict[str, Any], one_process: dict[str, Any], encoded: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        goal("one kind, u8, gzipped, random weights, the whole answer", shipped["wire_kb"], MOST_KB, "kB", "lower"),
        goal("one kind, u8, gzipped, softmax(N(0, 3))", encoded["gzipped_kb"], MOST_KB, "kB", "lower"),
        goal("one kind, u8, over HTTP, median", shipped["median_ms"], MOST_MS, "ms", "lower"),
        goal("the same, one process with a thread for each core", one_process["median_ms"], MOST_MS, "ms", "lower"),
    ]


def measure(shape: Shape, tokens: int, times: int, bertviz: str | None) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(Path(folder) / f"random-{shape.name}", shape)
        for how, settings in SERVERS.items():
            with ours(Path(folder), log_level="warning", **settings) as server:
                rows.append(asyncio.run(ask(server, shape, tokens, times, how)))
    return [*rows, compressed(shape, tokens), bertviz_page(shape, tokens, bertviz)]


def main() -> None:
    top = argument_parser("inspection", __doc__)
    top.add_argument("--shape", choices=SHAPES, default="base")
    top.add_argument("--tokens", type=int, default=64)
    top.add_argument("--times", type=int, default=15)
    top.add_argument("--bertviz", metavar="PYTHON")
    given = top.parse_args()
    rows = measure(SHAPES[given.shape], given.tokens, given.times, given.bertviz)
    finish(given, rows, goals(*rows[:3]))


if __name__ == "__main__":
    main()
