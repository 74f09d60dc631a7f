"""How probable a given translation is to a translator, or a given text to a lyricist."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine import asking, expectations, intake, views
from app.engine import messages as m
from app.engine.admission import Demand
from app.engine.entrance import Entrance
from app.engine.errors import InvalidRequest, TextTooLong, UnknownCharacters
from app.engine.insights import ScoreJob, ScoreReport, TokenView
from app.engine.library import Edition, Library
from app.engine.switchboard import Switchboard
from app.engine.words import with_words

NETWORK = 'or ask for the probabilities of the whole vocabulary with "distribution": "network"'


class Scoring:
    def __init__(self, entrance: Entrance, switchboard: Switchboard) -> None:
        self._entrance, self._switchboard = entrance, switchboard

    async def score(self, job: ScoreJob) -> ScoreReport:
        checkpoint = scored(self._entrance.library(), job)
        with self._entrance.keeping([checkpoint]):
            size = len(job.text) + len(job.source or "")
            source, target = await intake.aside(size, lambda: _tokens(checkpoint, job))
            read = len(source) + len(target)
            if job.source is None and read == 1:
                return _report(checkpoint, job, None)
            with self._entrance.admitted(Demand(checkpoint.name, 1, read, 0, rows=0)):
                message = asking.score(checkpoint, source, target, top_k=job.top_k, by_rules=job.by_rules)
                result: m.Scored = await self._switchboard.ask(message, read)
        return _report(checkpoint, job, result)


def scored(library: Library, job: ScoreJob) -> Edition:
    """The translator for a text with a source, the lyricist for one without. A named model of the other kind is told by
    name what to send to it."""
    name, translating = job.model, job.source is not None
    if name is not None and name in library.checkpoints:
        reads = "source" in library.checkpoints[name].tokenizers
        if reads and not translating:
            message = f'{name} is a translator: send a "source" and the "target" to be scored, or name a lyricist.'
            raise InvalidRequest(message, field="text")
        if translating and not reads:
            message = f'{name} is a lyricist and reads no source: send its text alone, as "text", or name a translator.'
            raise InvalidRequest(message, field="source")
    return library.named(name, "translator" if translating else "lyrics")


def _tokens(checkpoint: Edition, job: ScoreJob) -> tuple[tuple[int, ...], list[int]]:
    """What is read, and all that follows: the given token first, a translation's end token last."""
    if job.source is None:
        return (), _text(checkpoint, job)
    source = intake.source_ids(checkpoint, job.source, "source")
    if not source:
        raise InvalidRequest("The source has no tokens that the model reads.", field="source")
    target = intake.target_ids(checkpoint, job.text)
    config = checkpoint.config
    if job.by_rules:
        _refuse_unwritable(checkpoint, job.text, "target")
    return source, [*config.target_prefix, *target, *([] if config.eos is None else [config.eos])]


def _text(checkpoint: Edition, job: ScoreJob) -> list[int]:
    if job.ids is not None:
        return _given(checkpoint, job.ids, by_rules=job.by_rules)
    tokenizer = checkpoint.tokenizers["target"]
    if job.by_rules or tokenizer.special.unknown is None:
        intake.refuse_unknown(checkpoint, job.text, "text")
    tokens = list(intake.text_ids(checkpoint, job.text))
    if len(tokens) < 1 + job.least_predicted:
        message = "This text is too short to be scored: its first character is given, and nothing follows; send two."
        raise InvalidRequest(message, field="text")
    if job.by_rules:
        _refuse_unwritable(checkpoint, job.text, "text")
    return tokens


def _given(checkpoint: Edition, ids: Sequence[int], *, by_rules: bool) -> list[int]:
    """Tokens that are given as such, after their start token."""
    tokens, most = list(intake.given_ids(checkpoint, ids)), checkpoint.config.max_new_tokens
    if len(tokens) > most:
        message = f"This prompt has {len(tokens):,} tokens; the model takes {most:,}. Send its last part."
        raise TextTooLong(message, field="prompt")
    never = set(checkpoint.config.suppressed).intersection(tokens[max(1, len(checkpoint.config.target_prefix)) :])
    if by_rules and never:
        message = f"{checkpoint.name} never writes token {min(never):,}, so it cannot be scored: leave it out."
        raise InvalidRequest(message, field="prompt")
    return tokens


def _refuse_unwritable(checkpoint: Edition, text: str, field_name: str) -> None:
    """UnknownCharacters where decoding would never choose a token: its log-probability is that of no number."""
    never, pieces = set(checkpoint.config.suppressed), checkpoint.tokenizers["target"].pieces(text)
    parts = list(dict.fromkeys(text[each.start : each.end] for each in pieces if each.id in never))
    if parts:
        them = "it" if len(parts) == 1 else "them"
        message = f"{checkpoint.name} never writes {intake.listed(parts)}: leave {them} out, {NETWORK}."
        raise UnknownCharacters(message, field=field_name)


def _report(checkpoint: Edition, job: ScoreJob, result: m.Scored | None) -> ScoreReport:
    """What is given is the start token, or a lyricist's first character where it has none. result None: that is all."""
    tokenizer, config = checkpoint.tokenizers["target"], checkpoint.config
    text, tokens = job.text, list[TokenView]()
    if job.ids is None:
        tokens += with_words(views.text_tokens(tokenizer, text), text)
    else:
        start = len(config.target_prefix)
        ids = intake.given_ids(checkpoint, job.ids)[start:]
        text, tokens = checkpoint.decode(ids), views.decoded_tokens(tokenizer, ids)
    given = 0 if config.target_prefix else 1
    begin = tokens[0].end or 0 if given else 0
    if job.source is not None and config.eos is not None:
        tokens += views.special_tokens(tokenizer, [config.eos])
    found = () if result is None else expectations.steps(tokenizer, result.expected)
    later = len(config.target_prefix) - 1 if config.target_prefix else 0  # a long prefix is given, and predicted too
    return ScoreReport(
        model=checkpoint.name,
        text=text,
        tokens=tuple(tokens),
        steps=(*[None] * given, *found[later:]),
        log_probability=sum(step.log_probability or 0.0 for step in found[later:]),
        predicted=len(found) - later,
        characters=len(text) - begin,
    )
