"""The prompts as tokens, where they are told back: `echo`, and the usage of texts that are still growing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from app.api.openai.choices import NOT_TOLD, Prompt, ToldToken, likeliest
from app.api.schemas.openai.completion import CompletionRequest
from app.engine.insights import ScoreJob, ScoreReport
from app.engine.jobs import Continuation, Engine, Generation, GenerationJob, Usage

T = TypeVar("T")
NO_SEED = -1  # of a text that was not to be written


async def read(engine: Engine, body: CompletionRequest, jobs: Sequence[GenerationJob]) -> list[Prompt]:
    """What is told of each. Only those are scored of which more is told than the text that was sent."""
    if not body.echo and not body.counting:
        return [NOT_TOLD] * len(jobs)
    as_sent = body.logprobs is None and body.max_tokens > 0 and not body.counting
    if as_sent and all(job.prompt_ids is None for job in jobs):
        return [Prompt(job.prompt) for job in jobs]
    reports = await together([engine.score(_scored(job)) for job in jobs])
    return [_told(body, report) for report in reports]


def _scored(job: GenerationJob) -> ScoreJob:
    return ScoreJob(job.prompt, model=job.model, top_k=job.top_logprobs, ids=job.prompt_ids, least_predicted=0)


def _told(body: CompletionRequest, report: ScoreReport) -> Prompt:
    tokens, start = [], 0
    for token, step in zip(report.tokens, report.steps, strict=True):
        end = start if token.end is None else token.end
        text, start = report.text[start:end], end  # white space before a word stands with it: the texts join to all
        if step is None or step.log_probability is None:
            tokens.append(ToldToken(text, None, None))
            continue
        top = likeliest(
            [(each.text or each.piece, each.log_probability) for each in step.top], text, step.log_probability
        )
        tokens.append(ToldToken(text, top[text], top))
    if not body.echo:
        return Prompt(count=len(tokens))
    return Prompt(report.text, tokens, len(tokens))


async def written(engine: Engine, jobs: Sequence[GenerationJob], prompts: Sequence[Prompt]) -> list[Generation]:
    """What follows each of them."""
    if nothing_asked(jobs):
        return unwritten(jobs, prompts)
    return await together([engine.generate(job) for job in jobs])


def nothing_asked(jobs: Sequence[GenerationJob]) -> bool:
    return jobs[0].max_new_tokens == 0


def unwritten(jobs: Sequence[GenerationJob], prompts: Sequence[Prompt]) -> list[Generation]:
    """For those that have only been read."""
    nothing = Continuation("", "length", NO_SEED, ())
    return [
        Generation((nothing,) * job.n, job.model or "", Usage(prompt.count))
        for job, prompt in zip(jobs, prompts, strict=True)
    ]


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All of them, side by side; if one fails, the others are cancelled and the first failure is raised."""
    if len(work) == 1:
        return [await work[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
