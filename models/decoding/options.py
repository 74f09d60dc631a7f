"""How a request is decoded, and which tokens a model has rules for."""

from __future__ import annotations

from dataclasses import dataclass

MAX_REQUIRED_TERMS = 32
MAX_TOP_LOGPROBS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions:
    """beam 1 and temperature 0 is greedy search; a temperature draws; a beam above 1 searches.

    scores: whether log-probabilities are wanted; without a beam, leaving them out saves a pass over the vocabulary.
    token_scores: whether those of each token are wanted, at the same cost. streamed: whether `Progress.tokens` is to
    tell of this request.

    required: each entry of it, a term, stands in the answer (or in the prefix) by any one of its token runs, once for
    each time that it is listed: no token serves two terms. Where tokens are known to be parts of words, no word goes on
    into a term or out of it. It takes a beam, of which the steps on the way to all terms each have their share: see
    `models.decoding.constraints.constrained_beam_size`. Where the limit leaves no room for them, or nothing that is
    allowed leads there, the answer is not finished, and says how many are missing.

    no_repeat_ngram_size: of the tokens written no run of so many comes twice, as Hugging Face's processor of that name
    has it; where nothing else is left, the text ends unfinished. Penalties, of requests without a beam, change what is
    chosen, before the temperature and the cuts: repetition_penalty that of tokens in the prefix and of those written
    (as vLLM has it), frequency_penalty and presence_penalty those written alone (OpenAI's formula). Log-probabilities
    are those of the model's own distribution, whatever was banned or penalised.
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
    required: tuple[tuple[tuple[int, ...], ...], ...] = ()
    no_repeat_ngram_size: int = 0  # 0: off
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0  # 1: off
    top_scores: int = 0  # with token_scores: so many of the likeliest tokens at each place, and theirs

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
            **self._checks_of_repetition(),
            **self._checks_of_terms(),
        }
        problems = [sentence for sentence, holds in checks.items() if not holds]
        if problems:
            raise ValueError("; ".join(problems) + ".")

    @property
    def penalised(self) -> bool:
        return bool(self.presence_penalty or self.frequency_penalty or self.repetition_penalty != 1)

    def _checks_of_repetition(self) -> dict[str, bool]:
        return {
            f"no_repeat_ngram_size must be at least 0, not {self.no_repeat_ngram_size}": self.no_repeat_ngram_size >= 0,
            f"presence_penalty must lie in -2..2, not {self.presence_penalty}": -2 <= self.presence_penalty <= 2,
            f"frequency_penalty must lie in -2..2, not {self.frequency_penalty}": -2 <= self.frequency_penalty <= 2,
            f"repetition_penalty must lie in 0.01..100, not {self.repetition_penalty}": (
                0.01 <= self.repetition_penalty <= 100
            ),
            "a beam has no penalties: use beam 1": self.beam == 1 or not self.penalised,
            f"top_scores must lie in 0..{MAX_TOP_LOGPROBS}, not {self.top_scores}": (
                0 <= self.top_scores <= MAX_TOP_LOGPROBS
            ),
            "top_scores comes with token_scores": self.token_scores or not self.top_scores,
        }

    def _checks_of_terms(self) -> dict[str, bool]:
        runs = [run for term in self.required for run in term]
        return {
            "required terms need a beam: use one of 2 or more": self.beam > 1 or not self.required,
            f"at most {MAX_REQUIRED_TERMS} terms can be required, not {len(self.required)}": len(self.required)
            <= MAX_REQUIRED_TERMS,
            "a required term needs at least one run of tokens, of one or more": all(runs) and all(self.required),
            "a required term has a negative token": all(token >= 0 for run in runs for token in run),
        }


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
