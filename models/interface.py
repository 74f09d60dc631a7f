"""Decodable: all that a decoder or an engine may know of a network.

A network keeps the state of `slots` sequences in one statically allocated object. Rows 0..B-1 are the live
ones: whoever drives the network keeps them packed, moving the last row into the hole that a leaver leaves
(`copy`), so that a step is a view of the first B slots and never a gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

Precision = Literal["fp32", "bf16", "fp16", "int8"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a sequence starts from.

    source: token ids that an encoder reads, special tokens included; () for a network without an encoder.
    prefix: token ids that the decoder takes as given, at least one (a translator's is its start token, a
        language model's is the text to continue). All but the last are read by `prefill`; the last is the
        token of the first `step`.
    """

    source: tuple[int, ...]
    prefix: tuple[int, ...]


class Decodable(Protocol):
    """A network that can be stepped. State is the network's own business: pass it back, do not look inside."""

    @property
    def device(self) -> torch.device: ...

    def allocate(self, slots: int, source_length: int, target_length: int) -> Any:
        """Room for `slots` sequences of at most so many source and target tokens, on the network's device."""

    def prefill(self, state: Any, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        """Read each prompt into its row, whatever the row held before."""

    def step(self, state: Any, tokens: Tensor, group: int = 1) -> Tensor:
        """Feed tokens [B] to rows 0..B-1; the logits, float32, of what comes next: [B, V], or more columns, of which
        those behind the vocabulary are -inf. The caller may write over them.

        group: each so many rows, counted from row 0, have the same source (the hypotheses of a beam); it need be
        read once for them."""

    def copy(
        self, state: Any, sources: Sequence[int], destinations: Sequence[int], since: Sequence[int] | None = None
    ) -> None:
        """Row sources[i] -> row destinations[i] for all i at once, as if read before anything is written.

        since: pair i has its source and its first since[i] target tokens in common (they are hypotheses of one beam),
        so that only what comes behind need be copied; None: they have nothing in common."""


class TeacherForced(Protocol):
    """A network that reads given texts in one pass: it can say how probable they are (`models.scoring`)."""

    @property
    def device(self) -> torch.device: ...

    def features(self, source: Tensor, target: Tensor) -> Tensor:
        """One pass over given texts (teacher forcing): source [B, S], target [B, T], both read as they are, start token
        included -> [B, T, C], from which what comes after each target token is projected. A network without an encoder
        ignores the source."""

    def project(self, features: Tensor) -> Tensor:
        """[..., C] -> logits [..., V]."""
