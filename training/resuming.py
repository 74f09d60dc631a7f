"""A loop's whole state, for its snapshot and from it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch

from training import generators, snapshot
from training.errors import TrainingError
from training.planning import Pace
from training.schedule import Plan
from training.torchrun import launch_name
from training.wording import counted

if TYPE_CHECKING:
    from training.loop import Loop


def state_of(loop: Loop) -> dict[str, Any]:
    """Tensors and plain values; the best weights lie in files of their own."""
    config = loop.config
    return {
        "progress": asdict(loop.progress),
        "plan": asdict(loop.planner.plan),
        "pace": asdict(loop.planner.pace),
        "limits": (config.max_epochs, config.max_minutes, config.patience),
        "network": loop.network.state_dict(),
        "optimizer": loop.descent.optimizer.state_dict(),
        "precision": loop.descent.precision.state(),
        "machine": machine(loop),
        "average": loop.selection.average.values,
        "best": loop.selection.candidates.kept,
        "carried": loop.task.carried(),
        "random": loop.workers.gather(generators.states(loop.device)),
        "logged": (loop.report.loss, loop.report.tokens, loop.report.last),
        "fingerprint": loop.fingerprint,
        "vocabulary": loop.vocabulary,
        "launch": launch_name(),
    }


def machine(loop: Loop) -> str:
    """What the order of additions, and with it the last bits of a sum, depends on; of torch and kernels the draws,
    too."""
    number_format = loop.descent.precision.format
    threads = f", {counted(torch.get_num_threads(), 'thread')}" if loop.device.type == "cpu" else ""
    processes = f", {loop.workers.count} processes" if loop.workers.count > 1 else ""
    kernels = getattr(loop.network, "kernels", "") if number_format == "fp32" else ""
    named = f", kernels {kernels}" if kernels else ""
    return f"{number_format} on {loop.device.type}{threads}{processes}, torch {torch.__version__}{named}"


def restore(loop: Loop) -> None:
    """TrainingError if there is no snapshot, it cannot be read, or it is another run's."""
    folder = loop.folder
    assert folder is not None
    state = loop.workers.given(lambda: snapshot.load(folder))
    another = f"{folder} was trained with another recipe, corpus or seed; resume it with the same ones."
    if state.get("fingerprint") != loop.fingerprint:
        raise TrainingError(another)
    if state.get("vocabulary", loop.vocabulary) != loop.vocabulary:  # an earlier version has saved none
        raise TrainingError(
            f"{folder} was trained with another vocabulary than this version makes of the same corpus; resume it with"
            " the versions of Parlance and SentencePiece that began it, or start anew with another --out."
        )
    try:
        loop.network.load_state_dict(state["network"])
        loop.descent.optimizer.load_state_dict(state["optimizer"])
        loop.progress = type(loop.progress)(**state["progress"])
        loop.planner.plan, loop.planner.pace = Plan(**state["plan"]), Pace(**state["pace"])
        loop.descent.precision.restore(state["precision"])
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise TrainingError(another) from error
    loop.selection.average.values = [value.to(loop.device) for value in state["average"]]
    loop.selection.candidates.restore(state["best"])
    loop.task.restore(state["carried"])
    generators.restore(state["random"], loop.workers.rank, loop.device)
    loss, tokens, last = (*state["logged"], None)[:3]  # an earlier version has saved but two
    loop.report.resumed(loop.progress.update, loss, tokens, last, loop.progress.validated)
    if state["machine"] != machine(loop) and loop.workers.writes:
        loop.report.note(
            f"This run goes on as {machine(loop)} and was {state['machine']} before: a sound run, though not bit for"
            " bit what it would have been."
        )
    config, progress = loop.config, loop.progress
    loop.limits_changed = tuple(state["limits"]) != (config.max_epochs, config.max_minutes, config.patience)
    if loop.limits_changed and not 0 < config.patience <= progress.without_gain:
        progress.cooling = False  # more patience than before has not ended yet
