"""What a translator looks at."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from msgspec import structs

from app.engine import asking, intake, views
from app.engine import messages as m
from app.engine.admission import Demand
from app.engine.entrance import Entrance
from app.engine.errors import InvalidRequest
from app.engine.library import Edition, Library
from app.engine.look_jobs import AttentionJob, AttentionReport, Took, WalkthroughJob, WalkthroughReport
from app.engine.sides import Side, Sides, source_side, target_side
from app.engine.sizing import check_values
from app.engine.switchboard import Switchboard
from app.engine.translating import Translating


class Attending:
    def __init__(self, entrance: Entrance, switchboard: Switchboard, translating: Translating) -> None:
        self._entrance, self._switchboard, self._translating = entrance, switchboard, translating

    async def attention(self, job: AttentionJob) -> AttentionReport:
        checkpoint = inspected(self._entrance.library(), job.model)

        def message(sides: Sides) -> m.Attend:
            check_values(checkpoint.config, job, len(sides.source.tokens), len(sides.target.inputs))
            return asking.attention(checkpoint, job, sides)

        start = len(checkpoint.config.target_prefix)

        def check(source: int, given: int) -> None:
            likely = start + source if job.target is None else 0  # a translation is about as long
            check_values(checkpoint.config, job, source, start + given, likely)

        sides, result, took = await self._seen(checkpoint, job, check, message)
        source, target, found = sides.source, sides.target, sides.found
        return AttentionReport(
            model=checkpoint.name,
            network=views.network_facts(checkpoint),
            source_text=source.text,
            target_text=target.text,
            forced=job.target is not None,
            finished=target.finished,
            source_tokens=source.tokens,
            input_tokens=target.inputs,
            output_tokens=target.outputs,
            maps={part.kind: views.attention_map(part) for part in result.slices},
            findings=views.named(checkpoint, result.findings),
            found_logprob=None if found is None or job.prefix is not None else told(found.log_probability),
            max_source_tokens=checkpoint.config.max_source_tokens,
            max_target_tokens=checkpoint.config.max_new_tokens,
            took=took,
        )

    async def walkthrough(self, job: WalkthroughJob) -> WalkthroughReport:
        checkpoint = inspected(self._entrance.library(), job.model)
        texts = AttentionJob(job.source, job.target, job.model)
        sides, result, _ = await self._seen(
            checkpoint, texts, lambda source, given: None, lambda sides: asking.walkthrough(checkpoint, job, sides)
        )
        writer = checkpoint.tokenizers["target"]
        return WalkthroughReport(
            model=checkpoint.name,
            source_text=sides.source.text,
            target_text=sides.target.text,
            forced=job.target is not None,
            source_tokens=sides.source.tokens,
            input_tokens=sides.target.inputs,
            layer=result.layer,
            head=result.head,
            position=result.position,
            steps=tuple(
                structs.replace(step, texts=[views.token_text(writer, each) for each in step.indices])
                if step.indices is not None
                else step
                for step in result.steps
            ),
        )

    async def _seen(
        self,
        checkpoint: Edition,
        job: AttentionJob,
        check: Callable[[int, int], None],
        message: Callable[[Sides], m.Look],
    ) -> tuple[Sides, Any, Took]:
        """Both sides of the sentence, what a device answers to the message about them, and what that took. check:
        called with the tokens of the source and of the target that is given, before anything is computed."""
        clock = time.perf_counter
        began = clock()
        given_text = job.target if job.target is not None else job.prefix
        with self._entrance.keeping([checkpoint]):
            size = len(job.source or "") + len(given_text or "")
            source, given = await intake.aside(size, lambda: _read(checkpoint, job, given_text))
            check(len(source.tokens), len(given))
            beam, penalty = self._translating.searching(job.beam, job.length_penalty)
            forced = job.target is not None
            new_tokens = len(given) if forced else len(source.tokens)
            demand = Demand(checkpoint.name, 1, len(source.tokens), new_tokens, 0 if forced else beam)
            with self._entrance.admitted(demand):
                found, prefix = None, () if forced else tuple(given)
                read = clock()
                if not forced:
                    found = await self._own(checkpoint, source, given, job, beam, penalty)
                    given = [*given, *found.tokens]
                searched = clock()
                target = target_side(checkpoint, job.target, given, finished=found is None or found.finished)
                sides, asked = Sides(source, target, found, beam, penalty, prefix), clock()
                work = len(source.tokens) + len(target.inputs)
                result = await self._switchboard.ask(message(sides), work, part="whole" if forced else "look")
                took = Took(read - began + asked - searched, None if forced else searched - read, clock() - asked)
                return sides, result, took

    async def _own(
        self, checkpoint: Edition, source: Side, prefix: list[int], job: AttentionJob, beam: int, penalty: float
    ) -> m.Hypothesis:
        """The model's own translation behind the prefix, without the start token."""
        result = await self._translating.search(
            checkpoint,
            tuple(source.ids),
            prefix=tuple(prefix),
            beam=beam,
            length_penalty=penalty,
            max_new_tokens=job.max_new_tokens,
            part="search",
        )
        return result.hypotheses[0]


def _read(checkpoint: Edition, job: AttentionJob, target: str | None) -> tuple[Side, list[int]]:
    """The source, and the ids of what is given of the target."""
    if job.source_ids is None:
        assert job.source is not None
        if not intake.source_ids(checkpoint, job.source, "source"):
            raise InvalidRequest("The source has no tokens that the model reads.", field="source")
    else:
        intake.check_source_ids(checkpoint, job.source_ids)
    given = (
        [] if target is None else intake.target_ids(checkpoint, target, "prefix" if job.target is None else "target")
    )
    return source_side(checkpoint, job.source, job.source_ids), given


def told(log_probability: float) -> float | None:
    """NaN is that of a greedy search, which adds nothing up unless it is asked to."""
    return None if math.isnan(log_probability) else log_probability


def inspected(library: Library, name: str | None) -> Edition:
    """A model of any kind if it is named, so that what it cannot show is said of it by name."""
    if name is not None and name in library.checkpoints:
        checkpoint = library.checkpoints[name]
        if "source" not in checkpoint.tokenizers:
            raise InvalidRequest(
                f"{name} is a lyricist and has no attention to show; name a translator.", field="model"
            )
    return library.named(name, "translator")
