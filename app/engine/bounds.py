"""What a request may ask of decoding: said by the name of its field, before anything is sent to a device. Interfaces
have narrower limits of their own; behind these no device fails."""

from __future__ import annotations

import math

from app.engine.errors import InvalidRequest
from app.engine.jobs import GenerationJob, TranslationJob
from models.options import MOST_TERMS, MOST_TOP_SCORES

MOST_BEAM = 64
MOST_NGRAM = 1000


def check_translation(job: TranslationJob, widest: int) -> None:
    """widest: the hypotheses that a model has slots for. InvalidRequest names the field and the limit."""
    widest = min(widest, MOST_BEAM)
    if job.beam_size is not None:
        _within("beam_size", job.beam_size, 1, widest)
    if job.alternatives:
        _within("alternatives", job.alternatives, 0, widest - 1)
    if job.length_penalty is not None:
        _within("length_penalty", job.length_penalty, -10, 10)
    if job.max_new_tokens is not None:
        _within("max_new_tokens", job.max_new_tokens, 1, math.inf)
    if len(job.required) > MOST_TERMS:
        message = f"This text has {len(job.required)} terms to hold; a sentence takes {MOST_TERMS}: send it in parts."
        raise InvalidRequest(message, field="glossary")
    if job.no_repeat_ngram_size:
        _within("no_repeat_ngram_size", job.no_repeat_ngram_size, 0, MOST_NGRAM)


def check_generation(job: GenerationJob) -> None:
    """InvalidRequest names the field and the limit."""
    _within("top_logprobs", job.top_logprobs, 0, MOST_TOP_SCORES)
    if job.top_logprobs and not job.logprobs:
        raise InvalidRequest("top_logprobs are told with logprobs alone: ask for these too.", field="top_logprobs")
    _within("presence_penalty", job.presence_penalty, -2, 2)
    _within("frequency_penalty", job.frequency_penalty, -2, 2)
    _within("repetition_penalty", job.repetition_penalty, 0.01, 100)
    _within("no_repeat_ngram_size", job.no_repeat_ngram_size, 0, MOST_NGRAM)


def _within(field: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:  # true of NaN too
        limit = f"at least {least:g}" if most == math.inf else f"{least:g} to {most:g}"
        raise InvalidRequest(f"{field} is {value:g}; this service takes {limit}.", field=field)
