"""Scoring: how probable a given translation or a given text is."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine import input_processor
from app.engine.admission import Admission, Demand
from app.engine.dispatch.dispatcher import Dispatcher
from app.engine.interface import ScoreQuery, ScoreResult, TokenView
from app.engine.output import token_views
from app.engine.output.token_views import with_word_numbers
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelRegistry, ModelVersion
from app.errors import InvalidRequest, TextTooLong, UnknownCharacters

NETWORK = 'or ask for the probabilities of the whole vocabulary with "distribution": "network"'


class ScoreTask:
    def __init__(self, registry: ModelRegistry, admission: Admission, dispatcher: Dispatcher) -> None:
        self._registry, self._admission, self._dispatcher = registry, admission, dispatcher

    async def score(self, job: ScoreQuery) -> ScoreResult:
        checkpoint = scoring_model(self._registry, job)
        with self._registry.in_use([checkpoint]):
            size = len(job.text) + len(job.source or "")
            source, target = await input_processor.run_tokenizer(size, lambda: _source_and_target(checkpoint, job))
            read = len(source) + len(target)
            if job.source is None and read == 1:
                return _score_result(checkpoint, job, None)
            with self._admission.admitted(Demand(checkpoint.name, 1, read, 0, rows=0)):
                message = m.ScoreTokens(0, checkpoint.key, list(source), target, job.top_k, job.by_rules)
                result: m.TokensScored = await self._dispatcher.ask(message, read)
        return _score_result(checkpoint, job, result)


def scoring_model(registry: ModelRegistry, job: ScoreQuery) -> ModelVersion:
    """The translator for a text with a source, the lyricist for one without. A named model of the other kind is told by
    name what to send to it."""
    name, translating = job.model, job.source is not None
    if name is not None and name in registry.versions:
        reads = "source" in registry.versions[name].tokenizers
        if reads and not translating:
            message = f'{name} is a translator: send a "source" and the "target" to be scored, or name a lyricist.'
            raise InvalidRequest(message, field="text")
        if translating and not reads:
            message = f'{name} is a lyricist and reads no source: send its text alone, as "text", or name a translator.'
            raise InvalidRequest(message, field="source")
    return registry.named(name, "translator" if translating else "lyrics")


def _source_and_target(checkpoint: ModelVersion, job: ScoreQuery) -> tuple[tuple[int, ...], list[int]]:
    """What is read, and all that follows: the given token first, a translation's end token last."""
    if job.source is None:
        return (), _lyrics_tokens(checkpoint, job)
    source = input_processor.source_token_ids(checkpoint, job.source, "source")
    if not source:
        raise InvalidRequest("The source has no tokens that the model reads.", field="source")
    target = input_processor.target_token_ids(checkpoint, job.text)
    config = checkpoint.config
    if job.by_rules:
        _refuse_unwritable(checkpoint, job.text, "target")
    return source, [*config.target_prefix, *target, *([] if config.eos is None else [config.eos])]


def _lyrics_tokens(checkpoint: ModelVersion, job: ScoreQuery) -> list[int]:
    if job.ids is not None:
        return _given_tokens(checkpoint, job.ids, by_rules=job.by_rules)
    tokenizer = checkpoint.tokenizers["target"]
    if job.by_rules or tokenizer.special.unknown is None:
        input_processor.refuse_unknown_characters(checkpoint, job.text, "text")
    tokens = list(input_processor.lyrics_token_ids(checkpoint, job.text))
    if len(tokens) < 1 + job.least_predicted:
        message = "This text is too short to be scored: its first character is given, and nothing follows; send two."
        raise InvalidRequest(message, field="text")
    if job.by_rules:
        _refuse_unwritable(checkpoint, job.text, "text")
    return tokens


def _given_tokens(checkpoint: ModelVersion, ids: Sequence[int], *, by_rules: bool) -> list[int]:
    """Tokens that are given as such, after their start token."""
    tokens, most = list(input_processor.given_prompt_ids(checkpoint, ids)), checkpoint.config.max_new_tokens
    if len(tokens) > most:
        message = f"This prompt has {len(tokens):,} tokens; the model takes {most:,}. Send its last part."
        raise TextTooLong(message, field="prompt")
    never = set(checkpoint.config.suppressed).intersection(tokens[max(1, len(checkpoint.config.target_prefix)) :])
    if by_rules and never:
        message = f"{checkpoint.name} never writes token {min(never):,}, so it cannot be scored: leave it out."
        raise InvalidRequest(message, field="prompt")
    return tokens


def _refuse_unwritable(checkpoint: ModelVersion, text: str, field_name: str) -> None:
    """UnknownCharacters where decoding would never choose a token: its log-probability is that of no number."""
    never, pieces = set(checkpoint.config.suppressed), checkpoint.tokenizers["target"].pieces(text)
    parts = list(dict.fromkeys(text[each.start : each.end] for each in pieces if each.id in never))
    if parts:
        them = "it" if len(parts) == 1 else "them"
        message = f"{checkpoint.name} never writes {input_processor.quoted_parts(parts)}: leave {them} out, {NETWORK}."
        raise UnknownCharacters(message, field=field_name)


def _score_result(checkpoint: ModelVersion, job: ScoreQuery, result: m.TokensScored | None) -> ScoreResult:
    """What is given is the start token, or a lyricist's first character where it has none. result None: that is all."""
    tokenizer, config = checkpoint.tokenizers["target"], checkpoint.config
    text, tokens = job.text, list[TokenView]()
    if job.ids is None:
        tokens += with_word_numbers(token_views.text_tokens(tokenizer, text), text)
    else:
        start = len(config.target_prefix)
        ids = input_processor.given_prompt_ids(checkpoint, job.ids)[start:]
        text, tokens = checkpoint.decode(ids), token_views.decoded_tokens(tokenizer, ids)
    given = 0 if config.target_prefix else 1
    begin = tokens[0].end or 0 if given else 0
    if job.source is not None and config.eos is not None:
        tokens += token_views.special_tokens(tokenizer, [config.eos])
    found = () if result is None else token_views.token_expectations(tokenizer, result.expected)
    later = len(config.target_prefix) - 1 if config.target_prefix else 0  # a long prefix is given, and predicted too
    return ScoreResult(
        model=checkpoint.name,
        text=text,
        tokens=tuple(tokens),
        steps=(*[None] * given, *found[later:]),
        log_probability=sum(step.log_probability or 0.0 for step in found[later:]),
        predicted=len(found) - later,
        characters=len(text) - begin,
    )
