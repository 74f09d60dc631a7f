"""How a request is decoded, which tokens a model has rules for, and the hypotheses that come out. No torch here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

MAX_REQUIRED_TERMS = 32
MAX_TOP_LOGPROBS = 20
MAX_NGRAM_SIZE = 1000
_RANGES: tuple[tuple[str, float, float], ...] = (
    ("max_new_tokens", 1, math.inf),
    ("beam_size", 1, math.inf),
    ("length_penalty", -10, 10),
    ("top_k", 0, math.inf),
    ("no_repeat_ngram_size", 0, MAX_NGRAM_SIZE),
    ("presence_penalty", -2, 2),
    ("frequency_penalty", -2, 2),
    ("repetition_penalty", 0.01, 100),
    ("top_logprobs", 0, MAX_TOP_LOGPROBS),
)


class OptionError(ValueError):
    """Options that no decoder takes, in one sentence; `field` names the first of them."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions:
    """How one prompt is decoded, from the caller's request to the decoder. OptionError for what no decoder takes.

    beam_size 1 and temperature 0 is greedy search; a temperature draws; a beam above 1 searches. None leaves a choice
    open: a server fills in its settings and the model's limit; the decoder takes beam_size 1, length_penalty 1.0 and
    seed 0, and needs max_new_tokens.

    n_best: hypotheses of a beam that are returned. scores: log-probabilities are wanted; without a beam, leaving them
    out saves a pass over the vocabulary. logprobs: that of each token, without a beam only; top_logprobs: with it so
    many of the likeliest tokens at each place. streamed: `StepResult.tokens` names this request's tokens.

    required: terms, each a choice of token runs. Each stands in the answer (or in the prefix) by one of its runs, once
    for each time that it is listed: no token serves two terms, and no word goes on into a term or out of it. Terms take
    a beam (`models.decoding.constraints.constrained_beam_size`). Where the limit leaves no room for them, or nothing
    that is allowed leads there, the answer is not finished, and says how many are missing.

    no_repeat_ngram_size: of the tokens written no run of so many comes twice, as in Hugging Face's processor of that
    name; where nothing else is left, the text ends unfinished. Penalties, without a beam, act before the temperature
    and the cuts: repetition_penalty on tokens of the prefix and those written (as in vLLM), frequency_penalty and
    presence_penalty on those written (OpenAI's formula). Log-probabilities are of the model's own distribution,
    whatever was banned or penalised.
    """

    max_new_tokens: int | None = None
    beam_size: int | None = None
    n_best: int = 1
    length_penalty: float | None = None
    temperature: float = 0.0
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    seed: int | None = None
    scores: bool = True
    logprobs: bool = False
    top_logprobs: int = 0
    streamed: bool = True
    required: tuple[tuple[tuple[int, ...], ...], ...] = ()
    no_repeat_ngram_size: int = 0  # 0: off
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0  # 1: off

    def __post_init__(self) -> None:
        problems: list[tuple[str, str]] = []  # fields and sentences
        for name, least, most in _RANGES:
            value = getattr(self, name)
            if value is not None and not least <= value <= most:  # true of NaN too
                must = f"be at least {least:g}" if most == math.inf else f"lie in {least:g}..{most:g}"
                problems.append((name, f"{name} must {must}, not {value}"))
        if not 0 <= self.temperature < 1e6:
            problems.append(("temperature", f"temperature must be 0 or a positive number, not {self.temperature}"))
        if not 1 <= self.n_best <= self.beam:
            problems.append(("n_best", f"n_best must lie in 1..beam_size, not {self.n_best}"))
        if not 0 < self.top_p <= 1:
            problems.append(("top_p", f"top_p must lie in (0, 1], not {self.top_p}"))
        if self.top_logprobs and not self.logprobs:
            problems.append(("top_logprobs", "top_logprobs comes with logprobs"))
        if self.beam > 1:
            if self.temperature:
                problems.append(("temperature", "a beam does not draw: use temperature 0 with it"))
            if self.logprobs:
                problems.append(("logprobs", "a beam does not score single tokens: use beam_size 1"))
            if self.penalised:
                problems.append(("beam_size", "a beam has no penalties: use beam_size 1"))
        if self.required:
            problems += [("required", sentence) for sentence in self._term_problems()]
        if problems:
            raise OptionError("; ".join(sentence for _, sentence in problems) + ".", problems[0][0])

    @property
    def beam(self) -> int:
        """Hypotheses that the search keeps, which is as many rows of a batch."""
        return self.beam_size or 1

    @property
    def token_limit(self) -> int:
        """max_new_tokens of options that a decoder gets."""
        assert self.max_new_tokens is not None, "a decoder needs a limit of new tokens"
        return self.max_new_tokens

    @property
    def length_exponent(self) -> float:
        return 1.0 if self.length_penalty is None else self.length_penalty

    @property
    def penalised(self) -> bool:
        return bool(self.presence_penalty or self.frequency_penalty or self.repetition_penalty != 1)

    @property
    def constrains_beam(self) -> bool:
        """Whether a beam search has terms to hold, or runs of tokens to avoid."""
        return bool(self.required) or (self.no_repeat_ngram_size > 0 and self.beam > 1)

    def _term_problems(self) -> Iterator[str]:
        runs = [run for term in self.required for run in term]
        if self.beam == 1:
            yield "required terms need a beam: use one of 2 or more"
        if len(self.required) > MAX_REQUIRED_TERMS:
            yield f"at most {MAX_REQUIRED_TERMS} terms can be required, not {len(self.required)}"
        if not all(runs) or not all(self.required):
            yield "a required term needs at least one run of tokens, of one or more"
        if any(token < 0 for run in runs for token in run):
            yield "a required term has a negative token"


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


TopTokens = tuple[tuple[int, float], ...]  # tokens and their log-probabilities in nats, the likeliest first


class Hypothesis(NamedTuple):
    """tokens: without the prefix and without the end token. log_probability: nats, the end token included. score: that
    over length**length_penalty. Both are NaN where scores were not wanted. finished: False if the limit came before the
    end token. token_log_probabilities, top: of each of the tokens, the likeliest tokens at its place, where options
    want them. unmet: how many of the required terms are missing; 0 of a hypothesis that is finished."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool
    token_log_probabilities: tuple[float, ...] | None = None
    top: tuple[TopTokens, ...] | None = None
    unmet: int = 0
