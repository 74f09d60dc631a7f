"""What `app.main` wires into the routes: the engine, the limits of one request, storage and counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.access.authorization import AccessControl
from app.access.key_file import Caller
from app.api.document_jobs import DocumentJobs
from app.api.field_types import describe_value
from app.engine.errors import InvalidRequest, TextTooLong
from app.engine.interface import Engine
from app.engine.metrics.collector import Metrics
from app.storage.glossary_store import GlossaryStore
from app.storage.suggestion_store import SuggestionStore
from app.storage.translated_file_store import TranslatedFileStore
from app.text.language_detection import Detector
from app.translation.text_translator import Translator

_LARGEST_BEAM = 64
UNLIMITED_CHARACTERS = 1_000_000_000_000  # DeepL's own number: its clients compare with it, and take null for 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """The section of the settings that limits one request; every `check` raises `InvalidRequest`."""

    max_body_bytes: int
    max_file_bytes: int
    max_batch_texts: int
    max_text_characters: int
    max_alternatives: int
    max_new_tokens: int
    max_samples: int
    max_attention_values: int
    slots_per_model: int
    request_timeout_s: float  # also of a client that reads nothing of a stream, or sends nothing of a body

    def check_texts(self, texts: Sequence[str], field: str) -> None:
        """The number of texts, and the characters (code points) of each."""
        if len(texts) > self.max_batch_texts:
            raise InvalidRequest(
                f'"{field}" has {len(texts):,} texts; one request takes {self.max_batch_texts:,}.'
                " Send them in several.",
                field=field,
            )
        for text in texts:
            if len(text) > self.max_text_characters:
                raise TextTooLong(
                    f'"{field}" has a text of {len(text):,} characters; one text may have'
                    f" {self.max_text_characters:,}. Send it in parts.",
                    field=field,
                )

    def check_alternatives(self, alternatives: int) -> None:
        _check("alternatives", alternatives, self.max_alternatives)

    def check_samples(self, n: int) -> None:
        _check("n", n, self.max_samples)

    def check_new_tokens(self, max_new_tokens: int, field: str = "max_new_tokens") -> None:
        _check(field, max_new_tokens, self.max_new_tokens)

    def check_search(self, beam_size: int | None, max_new_tokens: int | None) -> None:
        """Options of a beam search; None: the server's own. Each hypothesis takes a slot."""
        if beam_size is not None:
            _check("beam_size", beam_size, min(_LARGEST_BEAM, self.slots_per_model))
        if max_new_tokens is not None:
            self.check_new_tokens(max_new_tokens)


def _check(field: str, value: int, limit: int) -> None:
    if value > limit:
        raise InvalidRequest(f'"{field}" is {describe_value(value)}; this server takes at most {limit:,}.', field=field)


class KeylessUsage:
    """Characters that DeepL's clients without a key had translated since the server's start; `AccessControl` counts by
    key alone."""

    def __init__(self) -> None:
        self._characters = 0

    def count(self, caller: Caller, characters: int) -> None:
        if not caller.key_id:
            self._characters += characters

    async def of(self, caller: Caller, access: AccessControl) -> tuple[int, int]:
        """Characters used, in this month where there is a key, and their limit."""
        usage = await access.usage(caller)
        used = usage.characters if caller.key_id else self._characters
        return used, UNLIMITED_CHARACTERS if usage.limit is None else usage.limit


@dataclass(frozen=True, slots=True)
class Services:
    """Kept as `app.state.services`."""

    engine: Engine
    translator: Translator
    detector: Detector
    limits: RequestLimits
    metrics: Metrics
    access: AccessControl
    files: TranslatedFileStore
    glossaries: GlossaryStore
    usage: KeylessUsage
    documents: DocumentJobs
    suggestions: SuggestionStore | None  # None: switched off
    public_url: str  # what clients put before a path; "": as each client called this server


async def services(request: Request) -> Services:
    """The services of the app that answers this request."""
    wired = request.app.state.services
    assert isinstance(wired, Services)
    return wired


ServicesDependency = Annotated[Services, Depends(services)]
