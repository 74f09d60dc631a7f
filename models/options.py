"""How a request is to be decoded, and which tokens a model has rules for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions:
    """beam 1 and temperature 0 is greedy search; a temperature draws; a beam above 1 searches.

    scores: whether log-probabilities are wanted; without a beam, leaving them out saves a pass over the vocabulary.
    token_scores: whether those of each token are wanted, at the same cost. streamed: whether `Progress.tokens` is to
    tell of this request.
    """

    max_new_tokens: int
    beam: int = 1
    n_best: int = 1  # of a beam: how many hypotheses to return
    length_penalty: float = 1.0
    temperature: float = 0.0
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    seed: int = 0
    scores: bool = True
    token_scores: bool = False  # without a beam only
    streamed: bool = True
    required: tuple[tuple[tuple[int, ...], ...], ...] = ()  # of a translation: terms, each any one of its token runs
    no_repeat_ngram_size: int = 0  # 0: off
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0  # 1: off
    top_scores: int = 0  # with token_scores: so many of the likeliest tokens at each place

    def __post_init__(self) -> None:
        checks = {
            f"max_new_tokens must be at least 1, not {self.max_new_tokens}": self.max_new_tokens >= 1,
            f"beam must be at least 1, not {self.beam}": self.beam >= 1,
            f"n_best must lie in 1..beam, not {self.n_best}": 1 <= self.n_best <= self.beam,
            f"length_penalty must lie in -10..10, not {self.length_penalty}": -10 <= self.length_penalty <= 10,
            f"temperature must be 0 or a positive number, not {self.temperature}": 0 <= self.temperature < 1e6,
            f"top_k must be at least 0, not {self.top_k}": self.top_k >= 0,
            f"top_p must lie in (0, 1], not {self.top_p}": 0 < self.top_p <= 1,
            "a beam does not draw: use temperature 0 with it": self.beam == 1 or self.temperature == 0,
            "a beam does not score single tokens: use beam 1": self.beam == 1 or not self.token_scores,
        }
        problems = [sentence for sentence, holds in checks.items() if not holds]
        if problems:
            raise ValueError("; ".join(problems) + ".")


@dataclass(frozen=True, slots=True)
class TokenRules:
    """eos ends a sequence; suppressed tokens (padding, unknown, start) are never chosen.

    renormalise: probabilities are those among the tokens that may be chosen. Without it suppressed tokens keep their
    share: Hugging Face's generate does so unless its `renormalize_logits` is set.

    forced_end: the end token is the last of the limit's tokens, whatever the network says and at no cost, so that a
    hypothesis that comes so far competes with those that have ended: Hugging Face's `forced_eos_token_id`. Without it
    such hypotheses stand in where nothing has ended. Either way they count as not finished.
    """

    eos: int | None
    suppressed: tuple[int, ...] = ()
    renormalise: bool = True
    forced_end: bool = False
