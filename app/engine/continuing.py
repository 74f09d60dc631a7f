"""What lyricists write on: from a prompt to the messages that ask for it, and from tokens to answers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from app.engine import asking, intake
from app.engine import messages as m
from app.engine.admission import Demand
from app.engine.bounds import check_generation
from app.engine.entrance import Entrance
from app.engine.jobs import Continuation, FinishReason, Generation, GenerationJob, Usage
from app.engine.library import Edition
from app.engine.repetition import goes_round
from app.engine.streaming import Show, TextStream
from app.engine.switchboard import Switchboard, gather
from app.engine.token_texts import WrittenToken
from app.engine.writing import Writing, together

LARGEST_DRAWN_SEED = 2**53  # JavaScript clients must be able to send a drawn seed back unchanged


class Continuing:
    def __init__(self, entrance: Entrance, switchboard: Switchboard) -> None:
        self._entrance, self._switchboard = entrance, switchboard

    async def generate(self, job: GenerationJob) -> Generation:
        return await self._generated(job, None)

    def stream(self, job: GenerationJob) -> AbstractAsyncContextManager[TextStream[Generation]]:
        return TextStream.opened(lambda show: self._generated(job, show))

    async def _generated(self, job: GenerationJob, show: Show | None) -> Generation:
        checkpoint = self._entrance.library().named(job.model, "lyrics")
        with self._entrance.keeping([checkpoint]):
            check_generation(job)
            prompt = await intake.aside(len(job.prompt), lambda: intake.prompt_ids(checkpoint, job))
            seed = secrets.randbelow(LARGEST_DRAWN_SEED) if job.seed is None else job.seed
            part = Demand(checkpoint.name, 1, len(prompt), job.max_new_tokens, rows=1)
            with self._entrance.admitted(*Demand.totals([part] * job.n)) as share:

                async def one(i: int, writing: Writing) -> tuple[Continuation, Usage]:
                    done = await self._continue(checkpoint, job, prompt, seed + i, writing, first=i == 0)
                    share.answered(part)
                    return done

                writings = [
                    Writing(checkpoint, job.stop, _showing(show, i), logprobs=job.logprobs) for i in range(job.n)
                ]
                done = await gather(one(i, writing) for i, writing in enumerate(writings))
        return Generation(tuple(each for each, _ in done), checkpoint.name, together([usage for _, usage in done]))

    async def _continue(
        self,
        checkpoint: Edition,
        job: GenerationJob,
        prompt: tuple[int, ...],
        seed: int,
        writing: Writing,
        *,
        first: bool,
    ) -> tuple[Continuation, Usage]:
        message = asking.continuation(
            checkpoint,
            job,
            prompt,
            seed=seed,
            wants_tokens=writing.wants_tokens,
            at_once=writing.at_once,
            start_by=self._entrance.start_by(first),
        )
        result: m.Finished | None = await self._switchboard.ask(message, len(prompt) + job.max_new_tokens, writing)
        reason: FinishReason = "stop"
        if result is not None:
            best = result.hypotheses[0]
            reason = "stop" if writing.stopped or best.finished else "length"
            if reason == "length" and goes_round(best.tokens, checkpoint.decode, job.prompt):
                reason = "repetition"
        usage = writing.usage(len(prompt), result.timing if result else None)
        tokens = tuple(writing.written) if job.logprobs else None
        return Continuation(writing.text, reason, seed, tokens), usage


def _showing(show: Show | None, index: int) -> Callable[[str, Sequence[WrittenToken]], None] | None:
    return None if show is None else lambda text, tokens: show(text, index, tokens)
