"""Gate activations of a recurrent language model over a text."""

from __future__ import annotations

from typing import Any

from app.engine import input_processor
from app.engine.admission import Demand
from app.engine.input_processor import selected_count
from app.engine.interface import GatesQuery, GatesResult
from app.engine.output import token_views
from app.engine.protocol import messages as m
from app.engine.tasks import Task
from app.errors import AnswerTooLarge, InvalidRequest
from models.checkpoint import CheckpointConfig
from models.inspection.selection import fitting_units, selected_gates, too_many_values
from models.networks.cells import CELLS

NO_LYRICIST = "is a translator and has no gates to show; name a lyricist, or ask POST /attention."


class GatesTask(Task):
    async def gates(self, query: GatesQuery) -> GatesResult:
        checkpoint, text = self.registry.named(query.model, "lyrics", NO_LYRICIST), query.text
        if not text:
            raise InvalidRequest("The text is empty: give at least one character.", field="text")
        with self.registry.in_use([checkpoint]):
            tokens = await input_processor.run_tokenizer(
                len(text), lambda: input_processor.lyrics_token_ids(checkpoint, text, only_known=True)
            )
            check_gates_size(checkpoint.config, query, len(tokens))
            with self.admission.admitted(Demand(checkpoint.name, 1, len(tokens), 0, rows=0)):
                message = m.InspectGates(0, checkpoint.key, tokens, query.selection, query.top_k, query.max_values)
                answer = await self.dispatcher.ask(message, len(tokens))
        tokenizer, cell = checkpoint.tokenizers["target"], CELLS[answer.cell]
        start = token_views.special_tokens(tokenizer, checkpoint.config.target_prefix)
        return GatesResult(
            model=checkpoint.name,
            cell=answer.cell,
            depth=answer.depth,
            hidden=answer.hidden,
            convention=cell.formula,
            text=text,
            tokens=(*start, *token_views.text_tokens(tokenizer, text)),
            layers=tuple(answer.layers),
            units=tuple(map(tuple, answer.units)),
            values={name: token_views.float_array(values) for name, values in answer.values.items()},
            bounds={
                name: bounds if all(name in summary.low for summary in answer.summaries) else None
                for name, bounds in cell.shown.items()
            },
            summaries=answer.summaries,
            steps=token_views.token_expectations(tokenizer, answer.expected),
        )


def check_gates_size(config: CheckpointConfig, query: GatesQuery, tokens: int) -> None:
    """Raises AnswerTooLarge if the answer exceeds `query.max_values` values, InvalidRequest for gates, layers or units
    that the network lacks. If the config lacks the dimensions, the device checks."""
    selection, shape = query.selection, config.architecture
    if not {"cell", "layers", "hidden"} <= shape.keys():
        return
    try:
        gates = len(selected_gates(shape["cell"], selection.gates))
    except ValueError as error:
        raise InvalidRequest(str(error), field="gates") from None
    wanted, hidden = selection.units, shape["hidden"]
    units = min(wanted, hidden) if isinstance(wanted, int) else selected_count(wanted, hidden, "unit")
    depth = selected_count(selection.layers, shape["layers"], "layer")
    if problem := too_many_values(gates, depth, units, tokens, query.max_values):
        raise AnswerTooLarge(
            problem,
            field="units",
            values=gates * depth * units * tokens,
            limit=query.max_values,
            suggest=smaller_gates_request(query, fitting_units(gates, depth, tokens, query.max_values), tokens),
        )


def smaller_gates_request(query: GatesQuery, fits: int, tokens: int) -> dict[str, Any] | None:
    """Request fields with which the answer fits: fewer units, or one gate and layer; None if nothing fits."""
    selection, change = query.selection, dict[str, Any]()
    if not fits:
        fits = min(query.max_values // tokens, 1 if isinstance(selection.units, int) else len(selection.units))
        change = {
            "gates": ["h" if selection.gates is None or "h" in selection.gates else selection.gates[0]],
            "layers": [-1 if selection.layers is None else selection.layers[-1]],
        }
    if not fits:
        return None
    return {"units": fits if isinstance(selection.units, int) else list(selection.units[:fits]), **change}
