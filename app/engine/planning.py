"""What is asked of one translation, once its texts are tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from app.engine import intake
from app.engine.admission import Demand
from app.engine.bounds import MOST_BEAM
from app.engine.compelled import prefix_ids, required_runs
from app.engine.jobs import TranslationJob
from app.engine.library import Edition
from models.terms import LENGTH_PENALTY, beam_for

Ids = tuple[int, ...]
TERMS_BEAM = 4  # at least, with terms: they are led to beside what the model would write


class Plan(NamedTuple):
    """source: () for nothing that the model reads. options: further ones of `asking.translation`."""

    job: TranslationJob
    checkpoint: Edition
    source: Ids
    prefix: Ids
    beam: int
    demand: Demand
    options: dict[str, Any]


def planned(job: TranslationJob, checkpoint: Edition, *, beam: int, slots: int) -> Plan:
    """beam: the server's own. InvalidRequest names the field that cannot be read."""
    source = intake.source_ids(checkpoint, job.text, "q")
    prefix = prefix_ids(checkpoint, job.prefix) if job.prefix else ()
    required: Sequence[list[list[int]]] = required_runs(checkpoint, job.required) if job.required else ()
    wide = width(job, beam, slots, required)
    # a translation is about as long as its source
    demand = Demand(checkpoint.name, 1, len(source), len(source), wide if source else 0)
    options: dict[str, Any] = {} if job.max_new_tokens is None else {"max_new_tokens": job.max_new_tokens}
    if job.length_penalty is not None:
        options["length_penalty"] = job.length_penalty
    elif job.required:
        options["length_penalty"] = LENGTH_PENALTY
    if required:
        options["required"] = required
    if job.no_repeat_ngram_size:
        options["no_repeat_ngram_size"] = job.no_repeat_ngram_size
    if "scores" in job.wants:
        options["scores"] = True
    return Plan(job, checkpoint, source, prefix, wide, demand, options)


def width(job: TranslationJob, beam: int, slots: int, required: Sequence[list[list[int]]] = ()) -> int:
    """Of its beam. More hypotheses than alternatives asked for, since two may read the same."""
    wide = max(beam if job.beam_size is None else job.beam_size, job.alternatives + 1)
    return max(wide, min(max(beam_for(required, wide), TERMS_BEAM), slots, MOST_BEAM)) if required else wide
