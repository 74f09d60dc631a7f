"""Gate activations of a recurrent language model over a text."""

from __future__ import annotations

from typing import Any

from app.engine import input_processor
from app.engine.admission import Admission, Demand
from app.engine.dispatch.dispatcher import Dispatcher
from app.engine.input_processor import selected_count
from app.engine.interface import GatesQuery, GatesResult
from app.engine.output import token_views
from app.engine.output.token_views import with_word_numbers
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelRegistry, ModelVersion
from app.errors import AnswerTooLarge, InvalidRequest
from models.checkpoint import CheckpointConfig
from models.inspection.selection import fitting_units, selected_gates, too_many_values
from models.networks.cells import CELLS


class GatesTask:
    def __init__(self, registry: ModelRegistry, admission: Admission, dispatcher: Dispatcher) -> None:
        self._registry, self._admission, self._dispatcher = registry, admission, dispatcher

    async def gates(self, job: GatesQuery) -> GatesResult:
        checkpoint = inspected_lyricist(self._registry, job.model)

        def tokenize() -> tuple[int, ...]:
            if not job.text:
                raise InvalidRequest("The text is empty: give at least one character.", field="text")
            input_processor.refuse_unknown_characters(checkpoint, job.text, "text")
            return input_processor.lyrics_token_ids(checkpoint, job.text)

        with self._registry.in_use([checkpoint]):
            tokens = await input_processor.run_tokenizer(len(job.text), tokenize)
            check_gates_size(checkpoint.config, job, len(tokens))
            with self._admission.admitted(Demand(checkpoint.name, 1, len(tokens), 0, rows=0)):
                message = m.InspectGates(0, checkpoint.key, list(tokens), job.selection, job.top_k, job.max_values)
                result: m.GatesInspected = await self._dispatcher.ask(message, len(tokens))
        return _gates_result(checkpoint, job, result)


def inspected_lyricist(registry: ModelRegistry, name: str | None) -> ModelVersion:
    """A model of any kind if it is named, so that what it cannot show is said of it by name."""
    if name is not None and name in registry.versions and "source" in registry.versions[name].tokenizers:
        raise InvalidRequest(
            f"{name} is a translator and has no gates to show; name a lyricist, or ask POST /attention.", field="model"
        )
    return registry.named(name, "lyrics")


def check_gates_size(config: CheckpointConfig, job: GatesQuery, tokens: int) -> None:
    """InvalidRequest if the answer would hold more than `job.max_values` values, or for gates, layers or units that the
    network does not have. A network that does not say what it has is left to the device."""
    selection = job.selection
    cell, layers, hidden = (config.architecture.get(name) for name in ("cell", "layers", "hidden"))
    if not isinstance(cell, str) or cell not in CELLS:
        return
    if not isinstance(layers, int) or not isinstance(hidden, int):
        return
    try:
        names = selected_gates(cell, selection.gates)
    except ValueError as error:
        raise InvalidRequest(str(error), field="gates") from None
    units = (
        min(selection.units, hidden)
        if isinstance(selection.units, int)
        else selected_count(selection.units, hidden, "unit")
    )
    depth = selected_count(selection.layers, layers, "layer")
    problem = too_many_values(len(names), depth, units, tokens, job.max_values)
    if problem:
        raise AnswerTooLarge(
            problem,
            field="units",
            values=len(names) * depth * units * tokens,
            limit=job.max_values,
            suggest=smaller_gates_request(job, fitting_units(len(names), depth, tokens, job.max_values), tokens),
        )


def smaller_gates_request(job: GatesQuery, fits: int, tokens: int) -> dict[str, Any] | None:
    """Fields of the request with which it fits: fewer units, or one gate and layer of those asked for if not even one
    unit does."""
    selection = job.selection
    if fits:
        return {"units": fits if isinstance(selection.units, int) else list(selection.units[:fits])}
    units = min(job.max_values // tokens, 1 if isinstance(selection.units, int) else len(selection.units))
    if not units:
        return None
    return {
        "units": units if isinstance(selection.units, int) else list(selection.units[:units]),
        "gates": ["h" if selection.gates is None or "h" in selection.gates else selection.gates[0]],
        "layers": [-1 if selection.layers is None else selection.layers[-1]],
    }


def _gates_result(checkpoint: ModelVersion, job: GatesQuery, result: m.GatesInspected) -> GatesResult:
    tokenizer, convention = checkpoint.tokenizers["target"], CELLS[result.cell]
    start = token_views.special_tokens(tokenizer, checkpoint.config.target_prefix)
    return GatesResult(
        model=checkpoint.name,
        cell=result.cell,
        depth=result.depth,
        hidden=result.hidden,
        convention=convention.formula,
        text=job.text,
        tokens=(*start, *with_word_numbers(token_views.text_tokens(tokenizer, job.text), job.text)),
        layers=tuple(result.layers),
        units=tuple(map(tuple, result.units)),
        values={name: token_views.float_array(values) for name, values in result.values.items()},
        bounds={name: convention.shown[name] for name in result.values},
        summaries=result.summaries,
        steps=token_views.token_expectations(tokenizer, result.expected),
    )
