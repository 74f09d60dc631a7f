"""Word alignment and token probabilities of given or finished translations, read in batches."""

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

MOST_PAIRS, MOST_PADDED_TOKENS = 16, 512  # that are read in one pass: between two steps, all other texts wait for it


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A source, and its translation, as `checkpoint` reads them."""

    checkpoint: ModelVersion
    source: SourceSide
    target: TargetSide

    @property
    def given(self) -> int:
        return len(self.target.inputs) + 1 - len(self.target.outputs)

    @property
    def target_ids(self) -> list[int]:
        return [*(token.id for token in self.target.inputs), self.target.outputs[-1].id]

    @property
    def tokens(self) -> int:
        return len(self.source.tokens) + len(self.target.inputs)

    def pair(self) -> m.TokenPair:
        units = [token.word for token in self.target.outputs]
        return m.TokenPair(self.source.ids, self.target_ids, self.given, self.source.units, units)


class PairReading(NamedTuple):
    """Both empty where they were not asked for."""

    words: tuple[AlignedWord, ...] = ()
    tokens: tuple[WrittenToken, ...] = ()


class AlignmentTask(Task):
    async def align(
        self, model: str | None, source_language: str, target_language: str, pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[AlignedWord, ...]]:
        """() of a pair of which one side has no tokens. TextTooLong for a side that is longer than the model takes."""
        checkpoint = self.registry.for_pair(source_language, target_language, model)
        with self.registry.in_use([checkpoint]):
            size = sum(len(source) + len(target) for source, target in pairs)
            sentences = await input_processor.run_tokenizer(
                size, lambda: [given_pair(checkpoint, *pair) for pair in pairs]
            )
            there = [each for each in sentences if each is not None]
            demand = Demand(checkpoint.name, 1, sum(each.tokens for each in there), 0, rows=0)
            with self.admission.admitted(demand):
                readings = iter(await self.read(there, links=True, nats=False, part="whole"))
        return [() if each is None else next(readings).words for each in sentences]

    async def read(
        self, sentences: Sequence[SentencePair], *, links: bool, nats: bool, part: Part = "look"
    ) -> list[PairReading]:
        """In their order; part: "look" where a translation was the request."""
        found: dict[int, PairReading] = {}

        async def together(numbers: Sequence[int]) -> None:
            group = [sentences[number] for number in numbers]
            message = m.AlignPairs(0, group[0].checkpoint.key, [each.pair() for each in group], links, nats)
            result: m.PairsAligned = await self.dispatcher.ask(message, read_tokens(message), part=part)
            for place, (number, sentence) in enumerate(zip(numbers, group, strict=True)):
                words = aligned_words(sentence, result.links[place]) if links else ()
                found[number] = PairReading(words, written_tokens(sentence, result.nats[place]) if nats else ())

        groups = list(length_batches(sentences))
        if groups:
            await gather(together(numbers) for numbers in groups)
        return [found[number] for number in range(len(sentences))]


def length_batches(sentences: Sequence[SentencePair]) -> Iterator[list[int]]:
    """The numbers of those that are read together: of one model, of similar length, few enough to hold nobody up."""

    def size(number: int) -> tuple[str, int]:
        return sentences[number].checkpoint.key, sentences[number].tokens

    group: list[int] = []
    for number in sorted(range(len(sentences)), key=size):
        model, tokens = size(number)
        full = len(group) == MOST_PAIRS or tokens * (len(group) + 1) > MOST_PADDED_TOKENS
        if group and (full or size(group[0])[0] != model):
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def given_pair(checkpoint: ModelVersion, source: str, target: str) -> SentencePair | None:
    """Of two texts; None if one of them has no tokens."""
    ids = checkpoint.tokenizers["target"].encode(target)
    input_processor.refuse_long_target(checkpoint, ids, "target")
    if not ids or not input_processor.source_token_ids(checkpoint, source, "source"):
        return None
    seen = target_side(checkpoint, target, ids, finished=True)
    return SentencePair(checkpoint, source_side(checkpoint, source, None), seen)


def translated_pair(
    checkpoint: ModelVersion, source: str, tokens: Sequence[int], *, finished: bool
) -> SentencePair | None:
    """Of what the model wrote; None if that is nothing at all."""
    target = target_side(checkpoint, None, tokens, finished=finished)
    return SentencePair(checkpoint, source_side(checkpoint, source, None), target) if target.outputs else None


def aligned_words(sentence: SentencePair, links: Sequence[tuple[int, int, float]]) -> tuple[AlignedWord, ...]:
    """From numbers of words to where they stand, in the order of the translation."""
    sources = sentence_word_spans(sentence.source.tokens, sentence.source.text)
    targets = sentence_word_spans(sentence.target.outputs, sentence.target.text)
    return tuple(AlignedWord(*targets[target], *sources[source], weight) for source, target, weight in links)


def written_tokens(sentence: SentencePair, nats: Sequence[float]) -> tuple[WrittenToken, ...]:
    """The tokens of the text, without the end token. EngineFailed for a probability that is no number."""
    tokens = [token.id for token in sentence.target.outputs if not token.special]
    writing = OutputProcessor(sentence.checkpoint, logprobs=True)
    writing.finish(tokens, nats[: len(tokens)])
    return tuple(writing.written)
