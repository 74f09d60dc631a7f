"""Word alignment and token log-probabilities of translation pairs, in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.engine import input_processor
from app.engine.admission import Demand
from app.engine.dispatch.dispatcher import Part, gather, read_tokens
from app.engine.interface import AlignedWord
from app.engine.output.output_processor import OutputProcessor
from app.engine.output.text_stream import WrittenToken
from app.engine.output.token_views import SourceSide, TargetSide, sentence_word_spans, source_side, target_side
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelVersion
from app.engine.tasks import Task

MOST_PAIRS, MOST_PADDED_TOKENS = 16, 512  # per forward pass, which delays the next step of all other requests


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


class AlignmentTask(Task):
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
                readings = await self.read(sentences, links=True, nats=False, part="whole")
        return [reading.words for reading in readings]

    async def read(
        self, sentences: Sequence[SentencePair | None], *, links: bool, nats: bool, part: Part = "look"
    ) -> list[PairReading]:
        """Readings in the order of `sentences`. part: "look" if the sentences are translations of the same request."""
        readings = [PairReading()] * len(sentences)

        async def read_batch(batch: Sequence[tuple[int, SentencePair]]) -> None:
            pairs = [sentence.message() for _, sentence in batch]
            message = m.AlignPairs(0, batch[0][1].checkpoint.key, pairs, links, nats)
            answer = await self.dispatcher.ask(message, read_tokens(message), part=part)
            for place, (number, sentence) in enumerate(batch):
                words = aligned_words(sentence, answer.links[place]) if links else ()
                readings[number] = PairReading(words, written_tokens(sentence, answer.nats[place]) if nats else ())

        await gather(read_batch(batch) for batch in length_batches(sentences))
        return readings


def length_batches(sentences: Sequence[SentencePair | None]) -> Iterator[list[tuple[int, SentencePair]]]:
    """Batches of (index, sentence): of one model, of similar length, and small enough for one short forward pass."""
    numbered = [(number, sentence) for number, sentence in enumerate(sentences) if sentence is not None]
    batch: list[tuple[int, SentencePair]] = []
    for number, sentence in sorted(numbered, key=lambda entry: (entry[1].checkpoint.key, entry[1].tokens)):
        full = len(batch) == MOST_PAIRS or sentence.tokens * (len(batch) + 1) > MOST_PADDED_TOKENS
        if batch and (full or batch[0][1].checkpoint.key != sentence.checkpoint.key):
            yield batch
            batch = []
        batch.append((number, sentence))
    if batch:
        yield batch


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
