"""Plain FastAPI with dynamic batching over the same checkpoint as ours: one queue, a window of some milliseconds, a
batch run to completion in a thread. While a batch runs, the next one gathers; a full or overdue batch starts at once;
cancelled requests are skipped.

python -m benchmarks.peers.batching_server --checkpoint FOLDER --port PORT --beam 1 --threads 1 --batch 32 --window-ms 5
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.peers.exported import decoded
from models import checkpoint as checkpoints
from models.backends.select import Network, decodable
from models.interface import Decodable, Precision
from models.networks.loading import load_network


class Prepared:
    """A network made ready for decoding once: a peer that did it for every batch would be slowed down by us."""

    def __init__(self, network: Network) -> None:
        self._decodable = decodable(network, "fp32")

    def decodable(self, precision: Precision = "fp32") -> Decodable:
        assert precision == "fp32"
        return self._decodable


class Translator:
    """A translator checkpoint in fp32; beam 1 is greedy. Its limits equal our server's."""

    def __init__(self, folder: Path, *, beam: int, threads: int) -> None:
        torch.set_num_threads(threads)
        self.checkpoint, self.beam = checkpoints.read(folder), beam
        self.network = Prepared(load_network(self.checkpoint))

    def translate(self, texts: Sequence[str]) -> list[str]:
        """All texts in one batch, until the longest has ended."""
        sources = [self.checkpoint.source_ids(text) for text in texts]
        outputs = decoded(self.network, self.checkpoint, sources, self.beam, slots=len(texts) * self.beam)
        return [self.checkpoint.decode(tokens) for tokens in outputs]


class Waiting(NamedTuple):
    text: str
    answer: asyncio.Future[str]


class Batcher:
    """Gathers texts; `translate` runs in one thread of its own."""

    def __init__(self, translate: Callable[[Sequence[str]], list[str]], most: int, window_s: float) -> None:
        self.translate, self.most, self.window_s = translate, most, window_s
        self.queue: asyncio.Queue[Waiting] = asyncio.Queue()
        self.thread = ThreadPoolExecutor(1)

    async def ask(self, text: str) -> str:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.queue.put_nowait(Waiting(text, answer))
        return await answer

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [each for each in await self._gather() if not each.answer.done()]
            if not batch:
                continue
            try:
                texts = await loop.run_in_executor(self.thread, self.translate, [each.text for each in batch])
            except Exception as error:
                for each in batch:
                    if not each.answer.done():
                        each.answer.set_exception(error)
                continue
            for each, text in zip(batch, texts, strict=True):
                if not each.answer.done():
                    each.answer.set_result(text)

    async def _gather(self) -> list[Waiting]:
        loop = asyncio.get_running_loop()
        batch = [await self.queue.get()]
        end = loop.time() + self.window_s
        while len(batch) < self.most:
            if not self.queue.empty():
                batch.append(self.queue.get_nowait())
                continue
            try:
                batch.append(await asyncio.wait_for(self.queue.get(), end - loop.time()))
            except TimeoutError:
                break
        return batch


class Body(BaseModel):
    q: str | list[str]


class Answer(BaseModel):
    translatedText: str | list[str]


def create_app(batcher: Batcher) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        running = asyncio.create_task(batcher.run())
        yield
        running.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.get("/health")
    async def health() -> str:
        return "ok"

    @app.post("/translate")
    async def translate(body: Body) -> Answer:
        if isinstance(body.q, str):
            return Answer(translatedText=await batcher.ask(body.q))
        return Answer(translatedText=list(await asyncio.gather(*(batcher.ask(text) for text in body.q))))

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    for option in ("--port", "--beam", "--threads"):
        parser.add_argument(option, type=int, required=True)
    parser.add_argument("--batch", type=int, required=True, help="most texts in one batch")
    parser.add_argument("--window-ms", type=float, required=True, help="how long a batch waits for more texts")
    given = parser.parse_args()
    translator = Translator(given.checkpoint, beam=given.beam, threads=given.threads)
    app = create_app(Batcher(translator.translate, given.batch, given.window_ms / 1000))
    uvicorn.run(app, port=given.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
