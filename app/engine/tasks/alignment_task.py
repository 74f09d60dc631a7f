"""Word alignment and token log-probabilities of translation pairs. Pairs of all requests that wait for the same reading
of the same model share batches, so that alignment, which repairs need, takes few forward passes under load."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import NamedTuple

from app.engine import input_processor
from app.engine.admission import Demand
from app.engine.dispatch.dispatcher import RequestPhase, read_tokens
from app.engine.interface import AlignedWord
from app.engine.output.output_processor import OutputProcessor
from app.engine.output.text_stream import WrittenToken
from app.engine.output.token_views import SourceSide, TargetSide, sentence_word_spans, source_side, target_side
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelVersion
from app.engine.tasks import Task
from app.errors import EngineFailed, InvalidRequest

MOST_PAIRS, MOST_PADDED_TOKENS = 16, 512  # per forward pass, for which all other inspections wait
MAX_PADDING, SPARE_PADDING = 1.25, 64  # ratio of padded to real tokens, or padding tokens


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A source and its translation, tokenized for `checkpoint`."""

    checkpoint: ModelVersion
    source: SourceSide
    target: TargetSide

    @property
    def tokens(self) -> int:
        return len(self.source.tokens) + len(self.target.inputs)

    def message(self) -> m.TokenPair:
        inputs, outputs = self.target.inputs, self.target.outputs
        ids, given = [*(token.id for token in inputs), outputs[-1].id], len(inputs) + 1 - len(outputs)
        return m.TokenPair(self.source.ids, ids, given, self.source.units, [token.word for token in outputs])


class PairReading(NamedTuple):
    """Aligned words and tokens of one pair; empty if not requested, or for a pair without tokens."""

    words: tuple[AlignedWord, ...] = ()
    tokens: tuple[WrittenToken, ...] = ()


class ReadingKey(NamedTuple):
    """What is read of a pair, and by which loaded version: pairs of one key can share a batch."""

    model: str
    links: bool
    nats: bool
    phase: RequestPhase


@dataclass(frozen=True, slots=True, eq=False)
class WaitingPair:
    request: WaitingRequest
    sentence: SentencePair
    reading: asyncio.Future[PairReading]


@dataclass(frozen=True, slots=True, eq=False)
class WaitingRequest:
    """pairs: those that are in no batch yet, the shortest first."""

    key: ReadingKey
    pairs: deque[WaitingPair] = field(default_factory=deque)


@dataclass
class AlignmentTask(Task):
    """_waiting: requests with pairs that wait, the next one first. _readers: running while any wait."""

    _waiting: deque[WaitingRequest] = field(default_factory=deque, init=False)
    _readers: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def align(
        self, model: str | None, source_language: str, target_language: str, pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[AlignedWord, ...]]:
        """The aligned words of each pair; () if either side has no tokens. Raises TextTooLong."""
        checkpoint = self.registry.for_pair(source_language, target_language, model)
        with self.registry.in_use([checkpoint]):
            size = sum(len(source) + len(target) for source, target in pairs)
            sentences = await input_processor.run_tokenizer(
                size, lambda: [given_pair(checkpoint, *pair) for pair in pairs]
            )
            read = sum(sentence.tokens for sentence in sentences if sentence is not None)
            with self.admission.admitted(Demand(checkpoint.name, 1, read, 0, rows=0)):
                readings = await self.read(sentences, links=True, nats=False, phase="whole")
        return [reading.words for reading in readings]

    async def read(
        self, sentences: Sequence[SentencePair | None], *, links: bool, nats: bool, phase: RequestPhase = "inspection"
    ) -> list[PairReading]:
        """Readings in the order of `sentences`. phase: "inspection" if these are translations of the same request."""
        loop, requests = asyncio.get_running_loop(), dict[ReadingKey, WaitingRequest]()
        readings: list[asyncio.Future[PairReading]] = [loop.create_future() for _ in sentences]
        for number in sorted(range(len(sentences)), key=lambda number: _tokens(sentences[number])):
            if (sentence := sentences[number]) is None:
                readings[number].set_result(PairReading())
                continue
            key = ReadingKey(sentence.checkpoint.key, links, nats, phase)
            request = requests.setdefault(key, WaitingRequest(key))
            request.pairs.append(WaitingPair(request, sentence, readings[number]))
        self._waiting += requests.values()
        if requests and len(self._readers) < self.dispatcher.turns.at_once:
            # in a context of its own: it reads for all requests, and not only for the one that starts it
            self._readers.add(loop.create_task(self._read_waiting(), context=Context()))
        try:
            async with asyncio.timeout(self.dispatcher.timeout_s):
                return await asyncio.gather(*readings)
        except TimeoutError:
            raise self.dispatcher.too_late() from None
        finally:
            for reading in readings:
                reading.cancel()  # what is not read yet, if the request failed or its client left

    async def _read_waiting(self) -> None:
        """Reads batches until no request waits."""
        try:
            while self._waiting:
                if batch := self._next_batch():
                    await self._read_batch(batch)
        finally:
            self._readers -= {task for task in self._readers if task is asyncio.current_task()}

    def _next_batch(self) -> list[WaitingPair]:
        """The next request's shortest pair, and pairs of similar length from all requests in turn, so that a page
        delays a single sentence by a batch or two. Empty if the clients have left."""
        key, batch = self._waiting[0].key, list[WaitingPair]()
        joining = deque(request for request in self._waiting if request.key == key)
        while joining:
            request = joining.popleft()
            while request.pairs and request.pairs[0].reading.done():
                request.pairs.popleft()
            if request.pairs and fits(batch, request.pairs[0]):
                batch.append(request.pairs.popleft())
                joining.append(request)
        self._waiting.rotate(-1)
        self._waiting = deque(request for request in self._waiting if request.pairs)
        return batch

    async def _read_batch(self, batch: Sequence[WaitingPair]) -> None:
        """Sets the readings of the pairs, or their error. Requests that share a batch that fails are read again, each
        alone: the error may be of one of them."""
        key, pairs = batch[0].request.key, [pair.sentence.message() for pair in batch]
        message = m.AlignPairs(0, key.model, pairs, key.links, key.nats)
        try:
            answer = await self.dispatcher.ask(message, read_tokens(message), phase=key.phase)
            for number, pair in enumerate(batch):
                words = aligned_words(pair.sentence, answer.links[number]) if key.links else ()
                tokens = written_tokens(pair.sentence, answer.nats[number]) if key.nats else ()
                if not pair.reading.done():
                    pair.reading.set_result(PairReading(words, tokens))
        except Exception as error:
            left = [pair for pair in batch if not pair.reading.done()]
            requests = {id(pair.request): pair.request for pair in left}
            if len(requests) > 1 and isinstance(error, EngineFailed | InvalidRequest):
                for request in requests.values():
                    await self._read_batch([pair for pair in left if pair.request is request])
                return
            for pair in left:
                pair.reading.set_exception(error)
        except BaseException:  # the event loop ends
            for pair in batch:
                pair.reading.cancel()
            raise


def _tokens(sentence: SentencePair | None) -> int:
    return 0 if sentence is None else sentence.tokens


def fits(batch: Sequence[WaitingPair], pair: WaitingPair) -> bool:
    """Whether the pair can join the batch: a short forward pass with little padding."""
    tokens = [joined.sentence.tokens for joined in (*batch, pair)]
    padded, real = len(tokens) * max(tokens), sum(tokens)
    if len(tokens) == 1:
        return True
    little = padded <= max(MAX_PADDING * real, real + SPARE_PADDING)
    return little and len(tokens) <= MOST_PAIRS and padded <= MOST_PADDED_TOKENS


def given_pair(checkpoint: ModelVersion, source: str, target: str) -> SentencePair | None:
    """The pair of two texts; None if either has no tokens. Raises TextTooLong."""
    ids = checkpoint.tokenizers["target"].encode(target)
    input_processor.refuse_long_target(checkpoint, ids, "target")
    if not ids or not input_processor.source_token_ids(checkpoint, source, "source"):
        return None
    both = source_side(checkpoint, source, None), target_side(checkpoint, target, ids, finished=True)
    return SentencePair(checkpoint, *both)


def translated_pair(
    checkpoint: ModelVersion, source: str, tokens: Sequence[int], *, finished: bool
) -> SentencePair | None:
    """The pair of a source and its generated tokens; None if there are none."""
    target = target_side(checkpoint, None, tokens, finished=finished)
    return SentencePair(checkpoint, source_side(checkpoint, source, None), target) if target.outputs else None


def aligned_words(sentence: SentencePair, links: Sequence[tuple[int, int, float]]) -> tuple[AlignedWord, ...]:
    """Maps word numbers to text offsets, in the order of the translation."""
    sources = sentence_word_spans(sentence.source.tokens, sentence.source.text)
    targets = sentence_word_spans(sentence.target.outputs, sentence.target.text)
    return tuple(AlignedWord(*targets[target], *sources[source], weight) for source, target, weight in links)


def written_tokens(sentence: SentencePair, nats: Sequence[float]) -> tuple[WrittenToken, ...]:
    """The tokens of the text without the end token. Raises EngineFailed for a log-probability that is not finite."""
    tokens = [token.id for token in sentence.target.outputs if not token.special]
    output = OutputProcessor(sentence.checkpoint, logprobs=True)
    output.finish(tokens, nats[: len(tokens)])
    return tuple(output.written)
