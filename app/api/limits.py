"""The configured limits of one request, and the sentences that say where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.api.wording import value_shown
from app.engine.errors import InvalidRequest, TextTooLong


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
                f'"{field}" is {value_shown(value)}; this server takes at most {limit:,}.', field=field
            )
