"""Decoding options of a request, token rules of a model, and the results of steps. No torch here.

`ROW_PARAMETERS` is the table of the options: a row is a field of `DecodingOptions` with its annotation. From it derive
the range checks, the columns of the batch rows on the host (`row_state`) and on a GPU (`device_step`), the fields of
the HTTP API (`app.api.generation`) and the options of commands (`training.cli.distil_commands`). The rule of options
that draw stands in `models.backends.torch.token_choice`, in draws.c and in `models.backends.cuda.choice_kernels`.
tests/models/decoding/test_row_parameters.py says what a new row lacks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

MAX_REQUIRED_TERMS = 32
WIDEST_BEAM = 64  # that a request to the server may ask for
LARGEST_SEED = 2**63 - 1  # likewise
INT64_MAX = 2**63 - 1
SEED_MASK = 2**64 - 1


class OptionError(ValueError):
    """Invalid decoding options, in one sentence; `field` names the first invalid one."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class RowParameter:
    """A row of `ROW_PARAMETERS`. name, neutral: those of the field of `DecodingOptions` and its default.

    kind: "draw" is read by the rule of sampling, "penalty" by that of penalties, "ban" by that of repeated n-grams: of
    these three, requests that sample have a field. dtype: numpy's name of the type of its column, which has an entry
    per row of the batch; None: no column. sentence: what it does, for users. least, most: its range; above: without
    `least` itself. served: the range in which a request to the server may ask for it,
    if that is another one. example: of a request."""

    kind: Literal["draw", "penalty", "ban", "other"] = "other"
    dtype: Literal["float64", "int64", "uint64", "bool"] | None = None
    sentence: str = ""
    least: float = -math.inf
    most: float = math.inf
    above: bool = False
    served: tuple[float, float] | None = None
    example: float | None = None
    name: str = ""
    neutral: Any = None

    @property
    def is_whole(self) -> bool:
        return isinstance(self.neutral, int) or self.dtype == "uint64"

    def problem(self, value: float | None, name: str) -> str | None:
        """What is wrong with a value, as a clause; None if it is in range. name: what the user calls the option."""
        if value is None or (self.least <= value <= self.most and not (self.above and value == self.least)):
            return None
        if self.most == math.inf:
            return f"{name} must be at least {self.least:g}, not {value}"  # also of NaN
        limits = f"({self.least:g}, {self.most:g}]" if self.above else f"{self.least:g}..{self.most:g}"
        return f"{name} must lie in {limits}, not {value}"

    def stored(self, value: Any) -> Any:
        """The value as its column holds it: of a seed of any size the last 64 bits count."""
        if self.dtype == "uint64":
            return (value or 0) & SEED_MASK
        return min(value, INT64_MAX) if self.dtype == "int64" else value


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

    max_new_tokens: Annotated[int | None, RowParameter(dtype="int64", least=1)] = None
    beam_size: Annotated[int | None, RowParameter(least=1)] = None
    n_best: int = 1
    length_penalty: Annotated[float | None, RowParameter(least=-10, most=10)] = None
    temperature: Annotated[
        float,
        RowParameter(
            "draw",
            "float64",
            "0 always takes the likeliest token (greedy); 1 samples the model's own distribution.",
            least=0,
            most=1e6,
            served=(0, 10),
        ),
    ] = 0.0
    top_k: Annotated[
        int,
        RowParameter(
            "draw",
            "int64",
            "Sample among the k likeliest tokens; 0 is off.",
            least=0,
            served=(0, 1_000_000),
            example=40,
        ),
    ] = 0
    top_p: Annotated[
        float,
        RowParameter(
            "draw",
            "float64",
            "Sample among the likeliest tokens that together have this probability; 1 is off.",
            least=0,
            above=True,
            most=1,
            example=1.0,
        ),
    ] = 1.0
    min_p: Annotated[
        float,
        RowParameter(
            "draw",
            "float64",
            "Sample among the tokens that are at least this share as probable as the likeliest; 0 is off.",
            least=0,
            most=1,
            example=0.05,
        ),
    ] = 0.0
    seed: Annotated[
        int | None,
        RowParameter(
            "draw",
            "uint64",
            "The same seed, prompt, model and options write the same text; on GPUs, load may tip a near-tie. null draws"
            " one.",
            served=(0, LARGEST_SEED),
            example=7,
        ),
    ] = None
    scores: Annotated[bool, RowParameter(dtype="bool")] = True
    logprobs: Annotated[bool, RowParameter(dtype="bool")] = False
    top_logprobs: Annotated[int, RowParameter(dtype="int64", least=0, most=20)] = 0
    streamed: Annotated[bool, RowParameter(dtype="bool")] = True
    required: tuple[tuple[tuple[int, ...], ...], ...] = ()
    no_repeat_ngram_size: Annotated[
        int,
        RowParameter("ban", None, "No run of so many tokens comes twice; 0 is off.", least=0, most=1000, example=0),
    ] = 0
    presence_penalty: Annotated[
        float,
        RowParameter(
            "penalty",
            "float64",
            "Off the logit of each token written before, once.",
            least=-2,
            most=2,
            example=0.0,
        ),
    ] = 0.0
    frequency_penalty: Annotated[
        float,
        RowParameter("penalty", "float64", "Off it for each time that it was written.", least=-2, most=2, example=0.0),
    ] = 0.0
    repetition_penalty: Annotated[
        float,
        RowParameter(
            "penalty",
            "float64",
            "Divides the positive logits of tokens that were written before, multiplies the others; 1 is off.",
            least=0.01,
            most=100,
            example=1.0,
        ),
    ] = 1.0

    def __post_init__(self) -> None:
        checked = [(row.name, row.problem(getattr(self, row.name), row.name)) for row in _RANGED]
        problems = [(name, sentence) for name, sentence in checked if sentence]  # fields and sentences
        if not 1 <= self.n_best <= self.beam:
            problems.append(("n_best", f"n_best must lie in 1..beam_size, not {self.n_best}"))
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


def _row_parameters() -> dict[str, RowParameter]:
    hints = get_type_hints(DecodingOptions, include_extras=True)
    return {
        each.name: replace(row, name=each.name, neutral=each.default)
        for each in fields(DecodingOptions)
        for row in getattr(hints[each.name], "__metadata__", ())
    }


ROW_PARAMETERS = _row_parameters()
"""The options by name."""
_RANGED = tuple(row for row in ROW_PARAMETERS.values() if row.least > -math.inf)


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


@dataclass(slots=True)
class StepResult:
    """The output of `steps` steps: new tokens of streamed requests (of a beam, the tokens on which all hypotheses that
    can still win agree), log-probabilities in nats and top tokens where the options want them, finished requests. late:
    whether the results are those of the previous step, which requests that have joined since were not part of."""

    tokens: list[tuple[int, int]] = field(default_factory=list)
    log_probabilities: dict[int, float] = field(default_factory=dict)
    top: dict[int, TopTokens] = field(default_factory=dict)
    finished: list[tuple[int, list[Hypothesis]]] = field(default_factory=list)
    late: bool = False
    steps: int = 1
