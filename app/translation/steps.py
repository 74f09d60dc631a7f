"""What a translation asks of the engine, as values. A piece of work is a generator that yields lists of questions and
is sent their answers; between two yields it is plain code, without an event loop. `together` runs many such pieces side
by side, so that the questions of all of them are answered in one batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from app.engine.interface import TranslationOptions, TranslationRequest

A = TypeVar("A")
T = TypeVar("T")
_SLICE_S = 0.03  # of work between two pauses


@dataclass(frozen=True, slots=True)
class Translate:
    """Answered with a `TranslationResult`; with None if `refusable` and the model cannot write a required term."""

    request: TranslationRequest
    refusable: bool = False


@dataclass(frozen=True, slots=True)
class Align:
    """Answered with the aligned words of a request's text and a translation, None if they are too long."""

    request: TranslationRequest
    translation: str


@dataclass(frozen=True, slots=True)
class Room:
    """Answered with the number of tokens that the model reads."""

    options: TranslationOptions


@dataclass(frozen=True, slots=True)
class CountTokens:
    """Answered with the number of tokens of each text."""

    options: TranslationOptions
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StandIns:
    """Answered with the kinds of stand-ins that the model copies (`models.stand_ins`), the best first."""

    options: TranslationOptions


Question = Translate | Align | Room | CountTokens | StandIns
Steps = Generator[list[Question], list[Any], T]  # an empty list is a pause: other work may go first


def ask(question: Question) -> Steps[Any]:
    (answer,) = yield [question]
    return answer


def at_once(work: Callable[[A], T], argument: A) -> Steps[T]:
    """A piece of work without a question."""
    yield []
    return work(argument)


def together(pieces: Sequence[Steps[T]]) -> Steps[list[T]]:
    """The results of all pieces, in order. Pieces that have a question wait for the others, then all are answered."""
    results: dict[int, T] = {}
    waiting = [(number, piece, [None]) for number, piece in enumerate(pieces)]
    first = True
    while waiting:
        asked: list[tuple[int, Steps[T], int]] = []
        questions: list[Question] = []
        began = time.perf_counter()
        for number, piece, answers in waiting:
            try:
                own = next(piece) if first else piece.send(answers)
                while not own:
                    yield []
                    own = piece.send([])
            except StopIteration as end:
                results[number] = end.value
            else:
                asked.append((number, piece, len(own)))
                questions += own
            if time.perf_counter() - began > _SLICE_S:
                yield []
                began = time.perf_counter()
        first = False
        if not asked:
            break
        remaining = iter((yield questions))
        waiting = [(number, piece, [next(remaining) for _ in range(count)]) for number, piece, count in asked]
    return [results[number] for number in range(len(pieces))]
