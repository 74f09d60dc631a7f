"""What a lyricist's gates do over a text, and how large that answer would be: said before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.engine import asking, expectations, intake, views
from app.engine import messages as m
from app.engine.admission import Demand
from app.engine.entrance import Entrance
from app.engine.errors import AnswerTooLarge, InvalidRequest
from app.engine.insights import Floats, GatesJob, GatesReport, GateSummary
from app.engine.library import Edition, Library
from app.engine.sizing import chosen
from app.engine.switchboard import Switchboard
from app.engine.words import with_words
from models.checkpoint import CheckpointConfig
from models.gate_conventions import CONVENTIONS, chosen_gates, fitting, refusal


class Tracing:
    def __init__(self, entrance: Entrance, switchboard: Switchboard) -> None:
        self._entrance, self._switchboard = entrance, switchboard

    async def gates(self, job: GatesJob) -> GatesReport:
        checkpoint = gated(self._entrance.library(), job.model)
        with self._entrance.keeping([checkpoint]):
            tokens = await intake.aside(len(job.text), lambda: _tokens(checkpoint, job.text))
            check_values(checkpoint.config, job, len(tokens))
            with self._entrance.admitted(Demand(checkpoint.name, 1, len(tokens), 0, rows=0)):
                message = asking.gates(checkpoint, job, tokens)
                result: m.Traced = await self._switchboard.ask(message, len(tokens))
        return _report(checkpoint, job, result)


def gated(library: Library, name: str | None) -> Edition:
    """A model of any kind if it is named, so that what it cannot show is said of it by name."""
    if name is not None and name in library.checkpoints and "source" in library.checkpoints[name].tokenizers:
        raise InvalidRequest(
            f"{name} is a translator and has no gates to show; name a lyricist, or ask POST /attention.", field="model"
        )
    return library.named(name, "lyrics")


def _tokens(checkpoint: Edition, text: str) -> tuple[int, ...]:
    if not text:
        raise InvalidRequest("The text is empty: give at least one character.", field="text")
    intake.refuse_unknown(checkpoint, text, "text")
    return intake.text_ids(checkpoint, text)


def check_values(config: CheckpointConfig, job: GatesJob, tokens: int) -> None:
    """InvalidRequest if the answer would hold more than `job.max_values` values, or for gates, layers or units that the
    network does not have. A network that does not say what it has is left to the device."""
    cell, layers, hidden = (config.architecture.get(name) for name in ("cell", "layers", "hidden"))
    if not isinstance(cell, str) or cell not in CONVENTIONS:
        return
    if not isinstance(layers, int) or not isinstance(hidden, int):
        return
    try:
        names = chosen_gates(cell, job.gates)
    except ValueError as error:
        raise InvalidRequest(str(error), field="gates") from None
    units = min(job.units, hidden) if isinstance(job.units, int) else chosen(job.units, hidden, "unit")
    depth = chosen(job.layers, layers, "layer")
    problem = refusal(len(names), depth, units, tokens, job.max_values)
    if problem:
        raise AnswerTooLarge(
            problem,
            field="units",
            values=len(names) * depth * units * tokens,
            limit=job.max_values,
            suggest=smaller(job, fitting(len(names), depth, tokens, job.max_values), tokens),
        )


def smaller(job: GatesJob, fits: int, tokens: int) -> dict[str, Any] | None:
    """Fields of the request with which it fits: fewer units, or one gate and layer of those asked for if not even one
    unit does."""
    if fits:
        return {"units": fits if isinstance(job.units, int) else list(job.units[:fits])}
    units = min(job.max_values // tokens, 1 if isinstance(job.units, int) else len(job.units))
    if not units:
        return None
    return {
        "units": units if isinstance(job.units, int) else list(job.units[:units]),
        "gates": ["h" if job.gates is None or "h" in job.gates else job.gates[0]],
        "layers": [-1 if job.layers is None else job.layers[-1]],
    }


def _report(checkpoint: Edition, job: GatesJob, result: m.Traced) -> GatesReport:
    tokenizer, convention = checkpoint.tokenizers["target"], CONVENTIONS[result.cell]
    start = views.special_tokens(tokenizer, checkpoint.config.target_prefix)
    return GatesReport(
        model=checkpoint.name,
        cell=result.cell,
        depth=result.depth,
        hidden=result.hidden,
        convention=convention.formula,
        text=job.text,
        tokens=(*start, *with_words(views.text_tokens(tokenizer, job.text), job.text)),
        layers=tuple(result.layers),
        units=tuple(tuple(each) for each in result.units),
        values=_arrays(result.values),
        bounds={name: convention.gates[name] for name in result.values},
        summaries=_summaries(result),
        steps=expectations.steps(tokenizer, result.expected),
    )


def _summaries(result: m.Traced) -> tuple[GateSummary, ...]:
    mean, low, high = _arrays(result.mean), _arrays(result.low), _arrays(result.high)
    change = expectations.array(result.hidden_change)
    return tuple(
        GateSummary(layer, _row(mean, place), _row(low, place), _row(high, place), change[place])
        for place, layer in enumerate(result.layers)
    )


def _arrays(part: Mapping[str, m.Values]) -> dict[str, Floats]:
    return {name: expectations.array(each) for name, each in part.items()}


def _row(part: Mapping[str, Floats], place: int) -> dict[str, Floats]:
    return {name: each[place] for name, each in part.items()}
