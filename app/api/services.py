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


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may ask for; every `check` raises `InvalidRequest` when it asks for more."""

    max_batch_texts: int
    max_text_characters: int
    max_alternatives: int
    max_new_tokens: int
    max_samples: int
    max_attention_values: int
    max_beam_size: int

    def check_texts(self, texts: Sequence[str], field: str) -> None:
        """How many texts, and how long each (in code points)."""
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
        self._check("alternatives", alternatives, self.max_alternatives)

    def check_samples(self, n: int) -> None:
        self._check("n", n, self.max_samples)

    def check_new_tokens(self, max_new_tokens: int, field: str = "max_new_tokens") -> None:
        self._check(field, max_new_tokens, self.max_new_tokens)

    def check_search(self, beam_size: int | None, max_new_tokens: int | None) -> None:
        """What a translation may ask of the search; None: it asked for nothing of its own."""
        if beam_size is not None:
            self._check("beam_size", beam_size, self.max_beam_size)
        if max_new_tokens is not None:
            self.check_new_tokens(max_new_tokens)

    @staticmethod
    def _check(field: str, value: int, limit: int) -> None:
        if value > limit:
            raise InvalidRequest(
                f'"{field}" is {describe_value(value)}; this server takes at most {limit:,}.', field=field
            )


UNLIMITED_CHARACTERS = 1_000_000_000_000  # as DeepL says it: its clients compare with it, and take null for 0


class KeylessUsage:
    """What DeepL's clients without a key had translated since the server started; the gate counts by keys alone."""

    def __init__(self) -> None:
        self._characters = 0

    def count(self, caller: Caller, characters: int) -> None:
        if not caller.key_id:
            self._characters += characters

    async def of(self, caller: Caller, gate: AccessControl) -> tuple[int, int]:
        """So far, in this month where there is a key, and the limit."""
        found = await gate.usage(caller)
        used = found.characters if caller.key_id else self._characters
        return used, UNLIMITED_CHARACTERS if found.limit is None else found.limit


@dataclass(frozen=True, slots=True)
class Services:
    """Kept as `app.state.services`. write_timeout_s: a reader of a stream that takes nothing for so long is left."""

    engine: Engine
    translator: Translator
    detector: Detector
    limits: Limits
    write_timeout_s: float
    metrics: Metrics
    gate: AccessControl
    files: TranslatedFileStore
    glossaries: GlossaryStore
    usage: KeylessUsage
    documents: DocumentJobs
    suggestions: SuggestionStore | None = None  # None: switched off
    public_url: str = ""  # what clients put before a path; "": as each of them called us


async def services(request: Request) -> Services:
    """The services of the app that answers this request."""
    wired = request.app.state.services
    assert isinstance(wired, Services)
    return wired


ServicesDependency = Annotated[Services, Depends(services)]
