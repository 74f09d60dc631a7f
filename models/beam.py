"""Beam search for one sequence: bookkeeping only, the scores come in and the choices go out.

A hypothesis' score is its log-probability divided by length**length_penalty, the length counting its end
token, as Marian and fairseq define it; 0 prefers short hypotheses, 1 compares them per token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Chain = tuple["Chain", int] | None
"""Tokens so far as (all before, last): adding one costs the same however long the sequence is."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """tokens: without the prefix and without the end token. log_probability: nats, the end token included; NaN where
    it was not asked for. finished: False if the limit came before the end token."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool


def unchain(chain: Chain, since: int = 0, length: int | None = None) -> tuple[int, ...]:
    """Its tokens; of a chain of `length` those from place `since` on."""
    tokens: list[int] = []
    while chain is not None and (length is None or len(tokens) < length - since):
        chain, token = chain
        tokens.append(token)
    return tuple(reversed(tokens))


class Beam:
    """k live hypotheses, their chains and log-probabilities, and the best k finished ones.

    After `advance`: parents[i] is the hypothesis before it that live hypothesis i continues; kept, how many tokens
    two hypotheses before it had in common at least, where one takes the place of the other.
    """

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
        self.parents = list(range(width))
        self.length = 0
        self.finished: list[Hypothesis] = []
        self.done = False
        self.shared = [[0] * width for _ in range(width)]  # tokens that two live hypotheses have in common
        self.shared_with_best = [0] * width  # and each with the best finished one
        self.kept = 0

    def advance(self, values: Sequence[float], parents: Sequence[int], tokens: Sequence[int]) -> None:
        """Take the 2k best continuations, best first: their log-probabilities, which hypothesis each continues, and
        with what. Keep k of them live. Sets `done`.

        Of 2k candidates at most k end, for each live hypothesis ends in one way only, so k always remain.
        """
        before, self.length = self.length, self.length + 1
        live: list[int] = []
        for rank, token in enumerate(tokens):
            if token == self.eos:
                if rank < self.width:
                    self._end(parents[rank], values[rank], before)
            elif len(live) < self.width:
                live.append(rank)
        came = [parents[rank] for rank in live]
        self.chains = [(self.chains[parents[rank]], tokens[rank]) for rank in live]
        self.log_probabilities = [values[rank] for rank in live]
        self._relate(came, before)
        self.done = self.length >= self.max_new_tokens or self._settled()

    @property
    def tokens(self) -> list[int]:
        """The last token of each live hypothesis."""
        return [chain[1] for chain in self.chains if chain is not None]

    @property
    def agreed(self) -> int:
        """How many tokens all live hypotheses and the best finished one have in common: those will stay."""
        shared = min(self.shared[0])
        return min(shared, *self.shared_with_best) if self.finished else shared

    def agreed_since(self, place: int) -> tuple[int, ...]:
        """The agreed tokens from `place` on."""
        agreed, chain = self.agreed, self.chains[0]
        for _ in range(self.length - agreed):
            assert chain is not None
            chain = chain[0]
        return unchain(chain, place, agreed)

    def _relate(self, came: list[int], before: int) -> None:
        """Who has how much in common now: children of one parent all of it, others what their parents had."""
        old = self.shared
        self.kept = min((old[p][row] for row, p in enumerate(came) if p != row), default=before)
        self.shared = [[before if p == q else old[p][q] for q in came] for p in came]
        for i, row in enumerate(self.shared):
            row[i] = self.length
        self.shared_with_best = [self.shared_with_best[p] for p in came]
        self.parents = came

    def _end(self, parent: int, log_probability: float, before: int) -> None:
        best = self.finished[0] if self.finished else None
        self._finish(self.chains[parent], log_probability, ended=True)
        if self.finished and self.finished[0] is not best:
            self.shared_with_best = [before if p == parent else shared for p, shared in enumerate(self.shared[parent])]

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
