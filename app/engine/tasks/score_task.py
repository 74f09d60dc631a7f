"""Scores a translation or a text: its log-probability under a model."""

from __future__ import annotations

from app.engine import input_processor
from app.engine.admission import Demand
from app.engine.interface import ScoreQuery, ScoreResult
from app.engine.output import token_views
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelVersion
from app.engine.tasks import Task
from app.errors import InvalidRequest, UnknownCharacters

NETWORK = 'or ask for the probabilities of the whole vocabulary with "distribution": "network"'
NO_LYRICIST = 'is a translator: send a "source" and the "target" to be scored, or name a lyricist.'
NO_TRANSLATOR = 'is a lyricist and reads no source: send its text alone, as "text", or name a translator.'


class ScoreTask(Task):
    async def score(self, query: ScoreQuery) -> ScoreResult:
        if query.source is None:
            checkpoint = self.registry.named(query.model, "lyrics", NO_LYRICIST, "text")
        else:
            checkpoint = self.registry.translator(query.model, query.target_language, NO_TRANSLATOR, "source")
        with self.registry.in_use([checkpoint]):
            size = len(query.text) + len(query.source or "")
            source, target = await input_processor.run_tokenizer(size, lambda: _source_and_target(checkpoint, query))
            read = len(source) + len(target)
            if query.source is None and read == 1:
                return _score_result(checkpoint, query, None)
            with self.admission.admitted(Demand(checkpoint.name, 1, read, 0, rows=0)):
                message = m.ScoreTokens(0, checkpoint.key, list(source), target, query.top_k, query.by_rules)
                answer = await self.dispatcher.ask(message, read)
        candidates = len(target) * (1 + query.top_k)
        return await input_processor.run_tokenizer(candidates, lambda: _score_result(checkpoint, query, answer))


def _source_and_target(checkpoint: ModelVersion, query: ScoreQuery) -> tuple[tuple[int, ...], list[int]]:
    """Encoder input and target tokens: the start token first, and last a translation's end token."""
    if query.source is None:
        return (), _lyrics_tokens(checkpoint, query)
    source, config = input_processor.required_source_ids(checkpoint, query.source), checkpoint.config
    target = input_processor.target_token_ids(checkpoint, query.text)
    if query.by_rules:
        _refuse_unwritable(checkpoint, query.text, "target")
    return source, [*config.target_prefix, *target, *([] if config.eos is None else [config.eos])]


def _lyrics_tokens(checkpoint: ModelVersion, query: ScoreQuery) -> list[int]:
    """The start token and the tokens of the text, or of `query.ids`."""
    config, tokenizer = checkpoint.config, checkpoint.tokenizers["target"]
    if query.ids is not None:
        tokens = list(input_processor.given_prompt_ids(checkpoint, query.ids))
        input_processor.refuse_long_prompt(checkpoint, tokens)
        never = set(config.suppressed).intersection(tokens[max(1, len(config.target_prefix)) :])
        if query.by_rules and never:
            message = f"{checkpoint.name} never writes token {min(never):,}, so it cannot be scored: leave it out."
            raise InvalidRequest(message, field="prompt")
        return tokens
    only_known = query.by_rules or tokenizer.special.unknown is None
    tokens = input_processor.lyrics_token_ids(checkpoint, query.text, only_known=only_known)
    if len(tokens) < 1 + query.least_predicted:
        message = "This text is too short to be scored: its first character is given, and nothing follows; send two."
        raise InvalidRequest(message, field="text")
    if query.by_rules:
        _refuse_unwritable(checkpoint, query.text, "text")
    return tokens


def _refuse_unwritable(checkpoint: ModelVersion, text: str, field_name: str) -> None:
    """Raises UnknownCharacters for suppressed tokens, which have no log-probability in decoding."""
    if parts := input_processor.parts_of_tokens(checkpoint, text, checkpoint.config.suppressed):
        them = "it" if len(parts) == 1 else "them"
        message = f"{checkpoint.name} never writes {input_processor.quoted_parts(parts)}: leave {them} out, {NETWORK}."
        raise UnknownCharacters(message, field=field_name)


def _score_result(checkpoint: ModelVersion, query: ScoreQuery, answer: m.TokensScored | None) -> ScoreResult:
    """The start token, or without one the first token, is not predicted. answer: None for a text of one token."""
    tokenizer, config, text = checkpoint.tokenizers["target"], checkpoint.config, query.text
    start = len(config.target_prefix)
    if query.ids is None:
        tokens = token_views.text_tokens(tokenizer, text)
    else:
        ids = input_processor.given_prompt_ids(checkpoint, query.ids)[start:]
        text, tokens = checkpoint.decode(ids), token_views.decoded_tokens(tokenizer, ids)
    given = 0 if start else 1
    begin = tokens[0].end or 0 if given else 0
    if query.source is not None and config.eos is not None:
        tokens = (*tokens, *token_views.special_tokens(tokenizer, [config.eos]))
    later = max(0, start - 1)  # the device also scores the later tokens of a long prefix
    steps = () if answer is None else token_views.token_expectations(tokenizer, answer.expected)[later:]
    return ScoreResult(
        model=checkpoint.name,
        text=text,
        tokens=tokens,
        steps=(*[None] * given, *steps),
        log_probability=sum(step.log_probability or 0.0 for step in steps),
        predicted=len(steps),
        characters=len(text) - begin,
    )
