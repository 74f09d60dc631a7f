"""python -m benchmarks.soak --checkpoints FOLDER --minutes 60: our server under a mix of all its work for an hour.

Each minute has the same course. Requests of every kind leave at ten a second all the time; streams are left in
their middle; at second 20 a model is reloaded, at 30 one of the two device processes is killed, and from 45 to 50 five
times as many requests come as the server can answer. Seconds 5 to 20 are calm: their latencies are compared over time.

Right answers are those that the server gave before the soak, alone on its machine: decoding is deterministic, in any
batch. Lost is a request without an answer after 60 seconds or with a broken connection; of those during an overload or
a kill, refusals that say "try again" (429, 503) count as answered."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.load import percentile
from benchmarks.report import argument_parser, finish, goal
from benchmarks.servers import Server, ours, resident_mb
from benchmarks.wire import Answer, Client, get, post

ADMIN_KEY = "correct-horse-battery-staple"
HANGS_S = 60.0
CALM_S, RELOAD_S, KILL_S, OVERLOAD_S = (5, 20), 20, 30, (45, 50)
SAMPLE_S = 10.0
RATE = 10.0  # requests a second, beside the overloads
OVERLOAD_CLIENTS = 150
FIRST_SHARE = 1 / 6  # of the run, in which caches and pools fill: memory grows from there
_VARIES = re.compile(  # of an answer: ids, times, what other requests changed
    rb'"(?:request_id|id|created|seed|system_fingerprint|[a-z_]*_ms|version|loaded_at|devices)":("[^"]*"|\{[^}]*\}|\[[^]]*\]|[0-9.]+)'
)


@dataclass
class Tally:
    """What became of the requests. calm: (seconds since the start, latency) of those of calm seconds; after_kill: the
    latencies of failures within two seconds of a kill; rss: (seconds, front end, longest-lived device) in MB."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    calm: list[tuple[float, float]] = field(default_factory=list)
    after_kill: list[float] = field(default_factory=list)
    samples: list[dict[str, float]] = field(default_factory=list)
    left: int = 0
    reloads: Counter[int] = field(default_factory=Counter)
    kills: int = 0
    overload: Counter[int] = field(default_factory=Counter)
    overload_refusals_s: list[float] = field(default_factory=list)


TRANSLATOR, LYRICIST, SOURCE, TARGET, PROMPT = "everyday", "lyrics-zh", "de", "en", "春"
TEXTS = ("ich möchte ein bier", "guten morgen", "hallo welt", "wir trinken heute kein wasser", "die katze schläft")
TEXTS += ("ich wohne in berlin und arbeite als lehrer", "wie spät ist es")


def mix() -> list[bytes]:
    """One request of each kind that is answered the same each time."""
    pair = {"source": SOURCE, "target": TARGET, "model": TRANSLATOR}
    lyrics = {"prompt": PROMPT, "model": LYRICIST}
    first = TEXTS[0]
    return [
        *(post("/translate", {"q": text, **pair}) for text in TEXTS),
        post("/translate", {"q": list(TEXTS[:6]), **pair, "beam_size": 1}),
        post("/translate", {"q": f"<p>{first}</p><p>{TEXTS[1]}</p>", **pair, "format": "html"}),
        post("/translate", {"q": f"{first}. 12.03.2024, 4,50 €", **pair}),
        post("/translate", {"q": first, **pair, "alternatives": 3}),
        post("/detect", {"q": first}),
        post("/attention", {"source": first, "model": TRANSLATOR}),
        post("/generate", {**lyrics, "max_new_tokens": 40, "temperature": 0}),
        post("/generate", {**lyrics, "max_new_tokens": 40, "seed": 7, "stream": True}),
        post("/gates", {"text": PROMPT * 4, "model": LYRICIST}),
        post("/v1/completions", {**lyrics, "max_tokens": 16, "temperature": 0}),
        post("/v2/translate", {"text": [first], "source_lang": SOURCE.upper(), "target_lang": TARGET.upper()}),
        post("/language/translate/v2", {"q": first, "source": SOURCE, "target": TARGET}),
        get("/languages"),
        get("/health"),
        get("/models"),
    ]


def essence(answer: Answer) -> bytes:
    """The answer without what differs from one time to the next. A stream: the text of its last event."""
    if answer.streamed:
        events = answer.events()
        return json.dumps(events[-1][2].get("text") if events else None).encode()
    return _VARIES.sub(b"", answer.body)


class Soak:
    def __init__(self, server: Server, minutes: float) -> None:
        self.server, self.requests = server, mix()
        self.seconds, self.tally, self.client = minutes * 60, Tally(), Client(server.port)
        self.right: dict[bytes, bytes] = {}
        self.began = self.killed_at = 0.0
        self.random = random.Random(0)

    @property
    def now_s(self) -> float:
        return time.perf_counter() - self.began

    async def run(self) -> None:
        for request in self.requests:
            answer = await self.client.ask(request)
            assert answer.status == 200, (request.split(b"\r\n")[0], answer.body[:300])
            self.right[request] = essence(answer)
        self.began = time.perf_counter()
        parts = (self.steady(), self.leaving(), self.reloading(), self.killing(), self.overloading(), self.sampling())
        await asyncio.gather(*parts)
        self.client.close()

    async def steady(self) -> None:
        tasks = set[asyncio.Task[None]]()
        at = 0.0
        while (at := at + self.random.expovariate(RATE)) < self.seconds:
            await asyncio.sleep(max(0.0, at - self.now_s))
            tasks.add(task := asyncio.create_task(self.one(self.random.choice(self.requests), at)))
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    async def one(self, request: bytes, at: float) -> None:
        answer = await self.client.ask(request)
        latency_s, tally = self.now_s - at, self.tally
        tally.statuses[answer.status] += 1
        retryable = answer.status == 503 or (answer.streamed and (answer.events() or [(0, "", "")])[-1][1] == "error")
        if latency_s > HANGS_S:
            tally.lost.append(f"{at:.1f} s {_line(request)}: {latency_s:.0f} s")
        elif retryable:
            tally.after_kill.append(self.now_s - max(at, self.killed_at))
        elif self.judged(request, answer, at) and CALM_S[0] <= at % 60 < CALM_S[1]:
            tally.calm.append((at, latency_s))

    def judged(self, request: bytes, answer: Answer, at: float) -> bool:
        """Whether it is the right answer; what is lost or wrong is noted. 429 is neither."""
        said = f"{at:.1f} s {_line(request)}: {answer.status} {answer.body[:300].decode(errors='replace')}"
        if answer.status == 0 or (answer.streamed and not answer.succeeded):
            self.tally.lost.append(said)
        elif answer.status == 200 and essence(answer) == self.right[request]:
            return True
        elif answer.status != 429:
            self.tally.wrong.append(said)
        return False

    async def leaving(self) -> None:
        """Every second a stream is left in its middle."""
        streams = [request for request in self.requests if b'"stream": true' in request]
        while self.now_s < self.seconds:
            task = asyncio.create_task(self.client.ask(self.random.choice(streams)))
            await asyncio.sleep(self.random.random() * 0.02)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.tally.left += 1
            await asyncio.sleep(1)

    async def each_minute(self, second: float) -> bool:
        """Waits for this second of the next minute; False: the soak ends before."""
        minute = int(self.now_s // 60) + (self.now_s % 60 > second)
        at = minute * 60 + second
        if at >= self.seconds - 5:
            return False
        await asyncio.sleep(max(0.0, at - self.now_s))
        return True

    async def reloading(self) -> None:
        while await self.each_minute(RELOAD_S):
            name = self.random.choice((TRANSLATOR, LYRICIST))
            head = (
                f"POST /models/{name}/reload HTTP/1.1\r\nHost: x\r\nX-Api-Key: {ADMIN_KEY}\r\nContent-Length: 0\r\n\r\n"
            )
            self.tally.reloads[(await self.client.ask(head.encode())).status] += 1
            await asyncio.sleep(1)

    async def killing(self) -> None:
        while await self.each_minute(KILL_S):
            devices = self.server.devices()
            if len(devices) > 1:
                self.killed_at = self.now_s
                os.kill(devices[-1], signal.SIGKILL)  # the youngest: one device lives through the whole soak
                self.tally.kills += 1
            await asyncio.sleep(1)

    async def overloading(self) -> None:
        """As many clients as keep the queue full, each asking again as soon as it is answered."""
        while await self.each_minute(OVERLOAD_S[0]):
            end, client = self.now_s + OVERLOAD_S[1] - OVERLOAD_S[0], Client(self.server.port)

            async def insist(end: float = end, client: Client = client) -> None:
                while self.now_s < end:
                    request, began = self.random.choice(self.requests), self.now_s
                    answer = await client.ask(request)
                    self.tally.overload[answer.status] += 1
                    if answer.status == 429:
                        self.tally.overload_refusals_s.append(self.now_s - began)
                        await asyncio.sleep(0.05)
                    elif answer.status != 503 and not answer.streamed:
                        self.judged(request, answer, began)

            await asyncio.gather(*(insist() for _ in range(OVERLOAD_CLIENTS)))
            client.close()

    async def sampling(self) -> None:
        while self.now_s < self.seconds:
            devices = self.server.devices()
            self.tally.samples.append(
                {
                    "s": round(self.now_s, 1),
                    "front_end_mb": resident_mb(self.server.process.pid),
                    "device_mb": resident_mb(devices[0]) if devices else 0.0,
                }
            )
            await asyncio.sleep(SAMPLE_S)


def _line(request: bytes) -> str:
    return request.split(b" HTTP", 1)[0].decode()


def growth(samples: Sequence[dict[str, float]], name: str, seconds: float) -> float:
    """Per cent from the median of the second sixth of the run to that of its last."""

    def median(begin: float, end: float) -> float:
        return percentile([each[name] for each in samples if begin <= each["s"] <= end], 0.5)

    part = seconds * FIRST_SHARE
    return round(100 * (median(seconds - part, seconds) / median(part, 2 * part) - 1), 2)


def drift(calm: Sequence[tuple[float, float]], seconds: float) -> tuple[float, float]:
    """p99 in milliseconds of the first and of the last half, the first sixth left out."""
    begin = seconds * FIRST_SHARE
    middle = (begin + seconds) / 2
    halves = [s for at, s in calm if begin <= at < middle], [s for at, s in calm if at >= middle]
    first, last = (round(1000 * percentile(half, 0.99), 1) for half in halves)
    return first, last


def main() -> None:
    top = argument_parser("soak", __doc__)
    top.add_argument("--checkpoints", type=Path, required=True, help="with the models that come with Parlance")
    top.add_argument("--minutes", type=float, default=60)
    options = top.parse_args()
    with tempfile.TemporaryDirectory() as data:
        settings = {"admin_key": ADMIN_KEY, "cpu_workers": 2, "cpu_threads": 1, "data": data, "request_log": "false"}
        settings |= {"max_inflight_requests": 64, "log_level": "error"}
        with ours(options.checkpoints, **settings) as server:
            soak = Soak(server, options.minutes)
            asyncio.run(soak.run())
    tally, seconds = soak.tally, soak.seconds
    first, last = drift(tally.calm, seconds)
    for sentence in [*tally.lost[:10], *tally.wrong[:10]]:
        print(sentence)
    rows = [
        {"answers": dict(sorted(tally.statuses.items())), "streams_left": tally.left},
        {"kills": tally.kills, "told_of_a_kill": len(tally.after_kill), "reloads": dict(tally.reloads)},
        {"overload": dict(sorted(tally.overload.items()))},
        {"p99_ms_first_half": first, "p99_ms_last_half": last, "calm_requests": len(tally.calm)},
        {"memory": tally.samples[:: max(1, len(tally.samples) // 12)]},
    ]
    goals = [
        goal("lost or hung requests", len(tally.lost), 0, "", "lower"),
        goal("wrong answers", len(tally.wrong), 0, "", "lower"),
        goal("memory growth of the front end", growth(tally.samples, "front_end_mb", seconds), 2, "%", "lower"),
        goal("memory growth of a device process", growth(tally.samples, "device_mb", seconds), 2, "%", "lower"),
        goal("p99 drift of calm seconds", round(100 * (last / first - 1), 1), 10, "%", "lower"),
        goal("p99 of a failure after a kill", _p99(tally.after_kill), 1, "s", "lower", "nothing failed"),
        goal(
            "p99 of a refusal under overload", _p99(tally.overload_refusals_s), 0.05, "s", "lower", "none was refused"
        ),
    ]
    finish(options, rows, goals)


def _p99(seconds: Sequence[float]) -> float | None:
    return round(percentile(seconds, 0.99), 3) if seconds else None


if __name__ == "__main__":
    main()
