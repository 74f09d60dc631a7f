"""A `Decodable` without weights, for tests of whatever drives one.

Its logits are a fixed function of everything that a row has read: the source and every token fed. A row that
was given another's state, or its own a step too early, therefore answers differently at once.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from models.interface import Prompt

History = tuple[tuple[int, ...], tuple[int, ...]]  # source; tokens read
Continuation = tuple[tuple[int, ...], float, bool]  # tokens without the end token; log-probability; ended


class Scripted:
    """table: tokens read -> logits, before any rule of chance. poison: a source with this token fails in prefill."""

    device = torch.device("cpu")

    def __init__(
        self,
        vocabulary: int,
        *,
        seed: int = 0,
        spread: float = 2.0,
        table: Mapping[tuple[int, ...], Sequence[float]] | None = None,
        poison: int | None = None,
    ) -> None:
        self.vocabulary, self.seed, self.spread, self.poison = vocabulary, seed, spread, poison
        self.table = table or {}
        self.widths: list[int] = []  # rows of every step

    def logits(self, history: History) -> list[float]:
        if history[1] in self.table:
            return list(self.table[history[1]])
        rng = random.Random(repr((self.seed, history)))
        return [rng.gauss(0, self.spread) for _ in range(self.vocabulary)]

    def allocate(self, slots: int, source_length: int, target_length: int) -> list[History | None]:
        self.source_length, self.target_length = source_length, target_length
        return [None] * slots

    def prefill(self, state: list[History | None], rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        for row, prompt in zip(rows, prompts, strict=True):
            assert len(prompt.source) <= self.source_length
            if self.poison in prompt.source:
                raise RuntimeError("poisoned")
            state[row] = (prompt.source, prompt.prefix[:-1])

    def decodable(self, precision: str = "fp32") -> Scripted:
        return self

    def step(self, state: list[History | None], tokens: Tensor, group: int = 1) -> Tensor:
        self.widths.append(len(tokens))
        logits = []
        for row, token in enumerate(tokens.tolist()):
            history = state[row]
            assert history is not None, f"row {row} is stepped and was never filled"
            source, read = history[0], (*history[1], token)
            assert len(read) <= self.target_length
            state[row] = (source, read)
            logits.append(self.logits((source, read)))
        return torch.tensor(logits, dtype=torch.float32)

    def copy(
        self,
        state: list[History | None],
        sources: Sequence[int],
        destinations: Sequence[int],
        since: Sequence[int] | None = None,
    ) -> None:
        read = [state[row] for row in sources]
        assert len(set(destinations)) == len(read), "two rows into one"
        if since is not None:  # what need not be copied must be there already
            for row, history, same in zip(destinations, read, since, strict=True):
                old = state[row]
                assert history is not None
                assert old is not None
                assert (old[0], old[1][:same]) == (history[0], history[1][:same])
        for row, history in zip(destinations, read, strict=True):
            state[row] = history

    # What a decoder ought to find ---------------------------------------------------------------------------

    def log_probabilities(self, prompt: Prompt, tokens: Sequence[int], suppressed: Sequence[int] = ()) -> list[float]:
        """Of each token that may come after prefix and tokens."""
        logits = torch.tensor(self.logits((prompt.source, (*prompt.prefix, *tokens))), dtype=torch.float32)
        logits[list(suppressed)] = -torch.inf
        return logits.log_softmax(dim=-1).tolist()

    def score(self, prompt: Prompt, tokens: Sequence[int], suppressed: Sequence[int] = ()) -> float:
        """Log-probability of exactly these tokens after the prompt, by teacher forcing."""
        return sum(self.log_probabilities(prompt, tokens[:i], suppressed)[token] for i, token in enumerate(tokens))

    def everything(
        self, prompt: Prompt, length: int, eos: int | None, suppressed: Sequence[int] = ()
    ) -> Iterator[Continuation]:
        """Every possible continuation: those that end within `length` tokens, end token included, and those cut off."""
        allowed = [t for t in range(self.vocabulary) if t != eos and t not in suppressed]
        for count in range(length + 1):
            for tokens in itertools.product(allowed, repeat=count):
                if count < length and eos is not None:
                    yield tokens, self.score(prompt, [*tokens, eos], suppressed), True
                if count == length:
                    yield tokens, self.score(prompt, tokens, suppressed), False
