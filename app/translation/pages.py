"""Jobs whose text is HTML: every text of a page is asked as a plain one, and comes back between the page's tags."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from app.engine.jobs import AlignedWord, FinishReason, Usage
from app.text.markup.page import Page, read_page
from app.text.markup.words import Word
from app.translation.asking import aside
from app.translation.job import TextJob, TranslatedText

Ask = Callable[[Sequence[TextJob]], Awaitable[list[TranslatedText]]]
_WORST: tuple[FinishReason, ...] = ("stop", "length", "repetition")


async def translated_page(job: TextJob, ask: Ask) -> TranslatedText:
    """Of one job; see `translated_pages`."""
    return (await translated_pages([job], ask))[0]


async def translated_pages(jobs: Sequence[TextJob], ask: Ask) -> list[TranslatedText]:
    """Answers in the order of the jobs, of both formats: those of plain text go on as they are. All texts of all pages
    are asked at once. A page has no alternatives, no tokens and no alignment: they are those of its texts, not of HTML.
    Its `scores` are the mean of its texts', its prefix begins the first of them."""
    if all(job.format != "html" for job in jobs):
        return await ask(jobs) if jobs else []
    size = sum(len(job.text) for job in jobs if job.format == "html")
    pages = await aside(size, lambda: [read_page(job.text) if job.format == "html" else None for job in jobs])
    asked = [_asked(job, page) for job, page in zip(jobs, pages, strict=True)]
    together = [each for one in asked for each in one]
    found = iter(await ask(together) if together else [])
    texts = [[next(found) for _ in own] for own in asked]
    written = zip(jobs, pages, texts, strict=True)
    return await aside(
        size, lambda: [own[0] if page is None else _written(job, page, own) for job, page, own in written]
    )


def _asked(job: TextJob, page: Page | None) -> list[TextJob]:
    if page is None:
        return [job]
    wants = frozenset({"alignment", *(job.wants & {"scores"})})
    plain = replace(job, format="text", alternatives=0, wants=wants)
    return [replace(plain, text=text, prefix="" if i else job.prefix) for i, text in enumerate(page.texts)]


def _written(job: TextJob, page: Page, texts: Sequence[TranslatedText]) -> TranslatedText:
    pieces = page.pieces([(each.text, [_word(word) for word in each.alignment or ()]) for each in texts])
    return TranslatedText(
        "".join(pieces),
        (),
        max((each.finish_reason for each in texts), key=_WORST.index, default="stop"),
        next((each.model for each in texts if each.model), ""),
        _usage([each.usage for each in texts]),
        _mean([each.scores[0] for each in texts if each.scores]) if "scores" in job.wants else None,
    )


def _word(each: AlignedWord) -> Word:
    return Word(each.target_start, each.target_end, each.source_start, each.source_end)


def _usage(each: Sequence[Usage]) -> Usage:
    """Tokens of all texts together; the first to begin, the last to end."""
    queued = [one.queued_s for one in each if one.queued_s is not None]
    first = [one.first_token_s for one in each if one.first_token_s is not None]
    return Usage(
        sum(one.read_tokens for one in each),
        sum(one.new_tokens for one in each),
        min(queued, default=None),
        min(first, default=None),
        max((one.total_s for one in each), default=0.0),
    )


def _mean(scores: Sequence[float]) -> tuple[float, ...] | None:
    return (sum(scores) / len(scores),) if scores else None
