"""Decoding options of a request, token rules of a model, and the resulting hypotheses. No torch here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

MAX_REQUIRED_TERMS = 32
MAX_TOP_LOGPROBS = 20
MAX_NGRAM_SIZE = 1000
WIDEST_BEAM = 64  # that a request to the server may ask for
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
    """Invalid decoding options, in one sentence; `field` names the first invalid one."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions:
    """How one prompt is decoded, from the caller's request to the decoder. OptionError for invalid values.

    beam_size 1 with temperature 0 is greedy search, with a temperature above 0 sampling; a larger beam_size is beam
    search. None leaves a choice open: a server fills in its settings and the model's limit; the decoder defaults to
    beam_size 1, length_penalty 1.0 and seed 0, and needs max_new_tokens.

    n_best: number of hypotheses returned by beam search. scores: compute log-probabilities; without a beam, False saves
    a pass over the vocabulary. logprobs: also per token, without a beam only. top_logprobs: with logprobs, also this
    many top tokens per position. streamed: `StepResult.tokens` includes this request.

    seed: with the same seed, prompt, network and precision, sampling writes the same text: on CPUs in any batch; on
    GPUs the number of rows selects the kernels, whose rounding may tip a near-tie.

    required: terms, each a list of alternative token runs. The output (or the prefix) holds one run of each term, once
    for each time the term is listed: no token serves two terms, and no word runs into or out of a term. Terms need a
    beam (`models.decoding.constraints.constrained_beam_size`). If the limit or the bans leave no way to write all
    terms, the hypothesis is unfinished and `unmet` counts the missing ones.

    no_repeat_ngram_size: no n-gram of this size occurs twice in the output, as in Hugging Face's processor of that
    name; if no token is left, the text ends unfinished. Penalties, without a beam only, apply before temperature and
    cuts: repetition_penalty to tokens of prefix and output (as in vLLM), frequency_penalty and presence_penalty to
    tokens of the output (OpenAI's formula). Log-probabilities are of the model's own distribution, without bans and
    penalties."""

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
        """The beam width: hypotheses kept by the search, and rows of the batch."""
        return self.beam_size or 1

    @property
    def token_limit(self) -> int:
        """max_new_tokens, which is set in options that reach a decoder."""
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
        """Whether beam search has required terms or an n-gram ban."""
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

    renormalise: probabilities are relative to the tokens that may be chosen. Otherwise suppressed tokens keep their
    share, as in Hugging Face's generate unless `renormalize_logits` is set.

    forced_end: the last token within the limit is always the end token, at no cost, so that a hypothesis that reaches
    the limit competes with ended ones (Hugging Face's `forced_eos_token_id`). Otherwise such hypotheses count only if
    none has ended. Either way they are not finished, but for greedy search, which sees whether the end token would have
    come at the limit anyway."""

    eos: int | None
    suppressed: tuple[int, ...] = ()
    renormalise: bool = True
    forced_end: bool = False


TopTokens = tuple[tuple[int, float], ...]  # tokens and their log-probabilities in nats, the likeliest first


class Hypothesis(NamedTuple):
    """tokens: without prefix and end token. log_probability: nats, end token included. score: log_probability /
    length**length_penalty. Both are NaN without scores. finished: False if the limit came before the end token.
    token_log_probabilities, top: per token, if requested. unmet: number of missing terms; 0 if finished."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool
    token_log_probabilities: tuple[float, ...] | None = None
    top: tuple[TopTokens, ...] | None = None
    unmet: int = 0
