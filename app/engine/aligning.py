"""What each word and each token of a translation comes to, once it is written: read for many sentences at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.engine import intake
from app.engine import messages as m
from app.engine.admission import Demand
from app.engine.entrance import Entrance
from app.engine.jobs import AlignedWord
from app.engine.library import Edition
from app.engine.sides import Side, TargetSide, source_side, target_side
from app.engine.switchboard import Part, Switchboard, gather
from app.engine.token_texts import WrittenToken
from app.engine.words import spans_beside
from app.engine.writing import Writing

MOST_PAIRS, MOST_PADDED = 16, 1024  # that are read in one pass: between two steps, all other texts wait for it


@dataclass(frozen=True, slots=True)
class Sentence:
    """A source, and its translation, as `checkpoint` reads them."""

    checkpoint: Edition
    source: Side
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

    def pair(self) -> m.Pair:
        units = [token.word for token in self.target.outputs]
        return m.Pair(self.source.ids, self.target_ids, self.given, self.source.units, units)


class Reading(NamedTuple):
    """Both empty where they were not asked for."""

    words: tuple[AlignedWord, ...] = ()
    tokens: tuple[WrittenToken, ...] = ()


class Aligning:
    def __init__(self, entrance: Entrance, switchboard: Switchboard) -> None:
        self._entrance, self._switchboard = entrance, switchboard

    async def align(
        self, model: str | None, source_language: str, target_language: str, pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[AlignedWord, ...]]:
        """() of a pair of which one side has no tokens. TextTooLong for a side that is longer than the model takes."""
        checkpoint = self._entrance.library().for_pair(source_language, target_language, model)
        with self._entrance.keeping([checkpoint]):
            size = sum(len(source) + len(target) for source, target in pairs)
            sentences = await intake.aside(size, lambda: [given(checkpoint, *pair) for pair in pairs])
            there = [each for each in sentences if each is not None]
            demand = Demand(checkpoint.name, 1, sum(each.tokens for each in there), 0, rows=0)
            with self._entrance.admitted(demand):
                readings = iter(await self.read(there, links=True, nats=False, part="whole"))
        return [() if each is None else next(readings).words for each in sentences]

    async def read(
        self, sentences: Sequence[Sentence], *, links: bool, nats: bool, part: Part = "look"
    ) -> list[Reading]:
        """In their order; part: "look" where a translation was the request."""
        found: dict[int, Reading] = {}

        async def together(numbers: Sequence[int]) -> None:
            group = [sentences[number] for number in numbers]
            message = m.Align(0, group[0].checkpoint.key, [each.pair() for each in group], links, nats)
            result: m.Aligned = await self._switchboard.ask(message, m.read_tokens(message), part=part)
            for place, (number, sentence) in enumerate(zip(numbers, group, strict=True)):
                words = linked(sentence, result.links[place]) if links else ()
                found[number] = Reading(words, written(sentence, result.nats[place]) if nats else ())

        groups = list(batches(sentences))
        if groups:
            await gather(together(numbers) for numbers in groups)
        return [found[number] for number in range(len(sentences))]


def batches(sentences: Sequence[Sentence]) -> Iterator[list[int]]:
    """The numbers of those that are read together: of one model, of similar length, few enough to hold nobody up."""

    def size(number: int) -> tuple[str, int]:
        return sentences[number].checkpoint.key, sentences[number].tokens

    group: list[int] = []
    for number in sorted(range(len(sentences)), key=size):
        model, tokens = size(number)
        full = len(group) == MOST_PAIRS or tokens * (len(group) + 1) > MOST_PADDED
        if group and (full or size(group[0])[0] != model):
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def given(checkpoint: Edition, source: str, target: str) -> Sentence | None:
    """Of two texts; None if one of them has no tokens."""
    ids = checkpoint.tokenizers["target"].encode(target)
    intake.refuse_long(checkpoint, ids, "target")
    if not ids or not intake.source_ids(checkpoint, source, "source"):
        return None
    seen = target_side(checkpoint, target, ids, finished=True)
    return Sentence(checkpoint, source_side(checkpoint, source, None), seen)


def translated(checkpoint: Edition, source: str, tokens: Sequence[int], *, finished: bool) -> Sentence | None:
    """Of what the model wrote; None if that is nothing at all."""
    target = target_side(checkpoint, None, tokens, finished=finished)
    return Sentence(checkpoint, source_side(checkpoint, source, None), target) if target.outputs else None


def linked(sentence: Sentence, links: Sequence[tuple[int, int, float]]) -> tuple[AlignedWord, ...]:
    """From numbers of words to where they stand, in the order of the translation."""
    sources = spans_beside(sentence.source.tokens, sentence.source.text)
    targets = spans_beside(sentence.target.outputs, sentence.target.text)
    return tuple(AlignedWord(*targets[target], *sources[source], weight) for source, target, weight in links)


def written(sentence: Sentence, nats: Sequence[float]) -> tuple[WrittenToken, ...]:
    """The tokens of the text, without the end token. EngineFailed for a probability that is no number."""
    tokens = [token.id for token in sentence.target.outputs if not token.special]
    writing = Writing(sentence.checkpoint, logprobs=True)
    writing.finish(tokens, nats[: len(tokens)])
    return tuple(writing.written)
