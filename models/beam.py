"""Beam search for one sequence: bookkeeping only, the scores come in and the choices go out.

A hypothesis' score is its log-probability divided by length**length_penalty, the length counting its end
token, as Marian and fairseq define it; 0 prefers short hypotheses, 1 compares them per token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Chain = tuple["Chain", int] | None
"""Tokens so far as (all before, last): adding one costs the same however long the sequence is."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """tokens: without the prefix and without the end token. log_probability: nats, the end token included.
    finished: False if the limit came before the end token."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool


class Candidate(NamedTuple):
    log_probability: float
    parent: int  # which live hypothesis it continues
    token: int


def unchain(chain: Chain) -> tuple[int, ...]:
    tokens = []
    while chain is not None:
        chain, token = chain
        tokens.append(token)
    return tuple(reversed(tokens))


class Beam:
    """k live hypotheses, their chains and log-probabilities, and the best k finished ones."""

    def __init__(self, width: int, length_penalty: float, max_new_tokens: int, eos: int | None) -> None:
        self.width, self.length_penalty, self.max_new_tokens, self.eos = (
            width,
            length_penalty,
            max_new_tokens,
            eos,
        )
        self.chains: list[Chain] = [None] * width
        # all k rows start equal, so only the first may branch on the first step
        self.log_probabilities = [0.0] + [float("-inf")] * (width - 1)
        self.length = 0
        self.finished: list[Hypothesis] = []
        self.done = False

    def advance(self, candidates: list[Candidate]) -> list[Candidate]:
        """Take the 2k best continuations, best first; keep k live and say which. Sets `done`.

        Of 2k candidates at most k end, for each live hypothesis ends in one way only, so k always remain.
        """
        self.length += 1
        live: list[Candidate] = []
        for rank, candidate in enumerate(candidates):
            if candidate.token == self.eos:
                if rank < self.width:
                    self._finish(self.chains[candidate.parent], candidate.log_probability, ended=True)
            elif len(live) < self.width:
                live.append(candidate)
        self.chains = [(self.chains[c.parent], c.token) for c in live]
        self.log_probabilities = [c.log_probability for c in live]
        self.done = self.length >= self.max_new_tokens or self._settled()
        return live

    def _score(self, log_probability: float, length: int) -> float:
        return log_probability / float(max(length, 1) ** self.length_penalty)

    def _finish(self, chain: Chain, log_probability: float, *, ended: bool) -> None:
        if log_probability == float("-inf"):
            return
        score = self._score(log_probability, self.length)
        self.finished.append(Hypothesis(unchain(chain), log_probability, score, ended))
        self.finished.sort(key=lambda h: -h.score)
        del self.finished[self.width :]

    def _settled(self) -> bool:
        """Nothing can go on; or enough have ended and the best live one, scored at its present length, is no
        better than the worst of these: the stopping rule of Hugging Face's `early_stopping=False`."""
        if self.log_probabilities[0] == float("-inf"):
            return True
        if len(self.finished) < self.width:
            return False
        return self._score(self.log_probabilities[0], self.length) <= self.finished[-1].score

    def results(self, count: int) -> list[Hypothesis]:
        """The best `count`, best first. Those cut by the limit stand in only where nothing ended."""
        if not self.finished:
            for chain, log_probability in zip(self.chains, self.log_probabilities, strict=True):
                self._finish(chain, log_probability, ended=False)
        return self.finished[:count]
