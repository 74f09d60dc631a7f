"""From a request to what the engine is asked: which lyricist, and one job for each prompt."""

from __future__ import annotations

from collections.abc import Sequence

from app.api.limits import Limits
from app.api.schemas.openai.completion import CompletionRequest
from app.engine.errors import InvalidRequest, UnknownModel
from app.engine.jobs import GenerationJob, ModelInfo


def lyricist(models: Sequence[ModelInfo], name: str | None) -> ModelInfo | None:
    """The one of that name, or the first; None if it is the engine that has to say what is wrong."""
    for each in models:
        if each.name == name or (name is None and each.kind == "lyrics"):
            kind_refused(each)
            return each
    return None


def kind_refused(model: ModelInfo) -> None:
    if model.kind != "lyrics":
        raise UnknownModel(
            f"{model.name} is a translator, which completes no text: send it to /translate, or name a lyricist"
            " (GET /v1/models).",
            field="model",
        )


def jobs(body: CompletionRequest, limits: Limits, model: str | None) -> list[GenerationJob]:
    """One for each prompt."""
    prompts = body.prompts
    limits.check_texts([each if isinstance(each, str) else "" for each in prompts], "prompt")
    limits.check_samples(body.n)
    if len(prompts) * body.n > limits.max_batch_texts:
        raise InvalidRequest(
            f'{len(prompts):,} prompts with "n" {body.n:,} are {len(prompts) * body.n:,} texts; one request writes'
            f" {limits.max_batch_texts:,}. Send them in several.",
            field="n",
        )
    if "max_tokens" in body.model_fields_set:
        limits.check_new_tokens(body.max_tokens, "max_tokens")
    return [_job(body, prompt, model, limits) for prompt in prompts]


def _job(body: CompletionRequest, prompt: str | list[int], model: str | None, limits: Limits) -> GenerationJob:
    return GenerationJob(
        prompt=prompt if isinstance(prompt, str) else "",
        prompt_ids=None if isinstance(prompt, str) else tuple(prompt),
        model=model,
        max_new_tokens=min(body.max_tokens, limits.max_new_tokens),  # nobody asked for the default
        temperature=body.temperature,
        top_k=max(0, body.top_k),
        top_p=body.top_p,
        seed=body.seed,
        n=body.n,
        stop=body.stops,
        logprobs=body.logprobs is not None or body.counting,  # with its tokens a text can be counted while it grows
        top_logprobs=body.logprobs or 0,
        presence_penalty=body.presence_penalty,
        frequency_penalty=body.frequency_penalty,
        repetition_penalty=body.repetition_penalty,
        no_repeat_ngram_size=body.no_repeat_ngram_size,
    )
