"""Ensembles of translators: one distribution of the next token, the mean of the members' distributions.

    p(y_t | y_<t, x) = sum_m p_m(y_t | y_<t, x) / M

The mean is over probabilities, not over logits, as in fairseq. Sutskever et al. 2014 (arXiv 1409.3215, section 3.6) and
Sennrich et al. 2016 (arXiv 1606.02891, section 3.2) report 1 to 2 BLEU for networks that differ in their seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.backends.select import decodable as select_decodable
from models.checkpoint import Checkpoint
from models.interface import Decodable, Precision, Prompt
from models.networks.transformer import Transformer
from training.errors import TrainingError
from training.evaluation.model_outputs import AnyLanguages, load_translator

TOKEN_RULES = ("source_prefix", "source_suffix", "target_prefix", "eos", "suppressed", "renormalise", "forced_end")


class Ensemble:
    """Translators with the same token ids, for decoding (`models.backends.select.SelfDecoding`) and for scoring given
    texts (`models.interface.TeacherForced`)."""

    def __init__(self, members: Sequence[Transformer]) -> None:
        self.members = tuple(members)
        self.pad = self.members[0].config.pad

    @property
    def device(self) -> torch.device:
        return self.members[0].device

    def decodable(self, precision: Precision = "fp32") -> Decodable:
        """Selects the backend of each member by itself, so that int8 runs on the C kernels. ValueError as `select`."""
        return EnsembleDecodable([select_decodable(member, precision) for member in self.members])

    def features(self, source: Tensor, target: Tensor) -> Tensor:
        """source [B, S], target [B, T] -> the features of all members side by side [B, T, sum of d_model]."""
        return torch.cat([member.features(source, target) for member in self.members], dim=-1)

    def project(self, features: Tensor) -> Tensor:
        """features [..., sum of d_model] -> log-probabilities of the ensemble [..., V], float32."""
        parts = torch.split(features, [member.config.d_model for member in self.members], dim=-1)
        logits = [member.project(part) for member, part in zip(self.members, parts, strict=True)]
        return mix(logits)


class EnsembleDecodable:
    """Steps every member with the same tokens. Its state is the list of the members' states."""

    def __init__(self, members: Sequence[Decodable]) -> None:
        self.members = members

    @property
    def device(self) -> torch.device:
        return self.members[0].device

    def allocate(self, slots: int, source_length: int, target_length: int) -> list[Any]:
        return [member.allocate(slots, source_length, target_length) for member in self.members]

    def prefill(self, state: list[Any], rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        for member, own in zip(self.members, state, strict=True):
            member.prefill(own, rows, prompts)

    @torch.inference_mode()
    def step(self, state: list[Any], tokens: Tensor, group: int = 1) -> Tensor:
        """tokens [B] -> log-probabilities of the ensemble [B, V]."""
        pairs = zip(self.members, state, strict=True)
        return mix([member.step(own, tokens, group) for member, own in pairs])

    def copy(
        self,
        state: list[Any],
        sources: Sequence[int],
        destinations: Sequence[int],
        since: Sequence[int] | None = None,
    ) -> None:
        for member, own in zip(self.members, state, strict=True):
            member.copy(own, sources, destinations, since)


def mix(logits: Sequence[Tensor]) -> Tensor:
    """The members' logits [..., V or padded with -inf to more] -> log of the mean of their softmaxes [..., V],
    float32. One member's logits are returned as they are, so that an ensemble of one decodes as its member."""
    if len(logits) == 1:
        return logits[0]
    columns = min(part.size(-1) for part in logits)
    # log-probabilities, since a mean of probabilities would round the unlikely tokens of all members to zero
    mixed: Tensor | None = None
    for part in logits:
        own = part[..., :columns].float().log_softmax(dim=-1) - math.log(len(logits))
        mixed = own if mixed is None else torch.logaddexp(mixed, own)
    assert mixed is not None
    return mixed


def load_ensemble(
    folders: Sequence[Path],
    device: torch.device,
    languages: AnyLanguages | None = None,
) -> tuple[Checkpoint, Transformer | Ensemble]:
    """The translators of these folders as one network, to pass on to `hypotheses`; of one folder the network itself.
    The checkpoint is the first one's, with the smallest limits of all. languages: as of `load_translator`.
    TrainingError for a folder without a translator, or models that differ in languages, tokenizers or token rules."""
    loaded = [load_translator(folder, device, languages) for folder in folders]
    first = loaded[0][0]
    for checkpoint, _ in loaded:
        if checkpoint.config.kind != "translator":
            raise TrainingError(f"{checkpoint.folder} is a lyricist, not a translator.")
        for difference in _differences(first, checkpoint):
            raise TrainingError(f"{checkpoint.folder} cannot join {first.folder} in an ensemble: {difference}.")
    if len(loaded) == 1:
        return loaded[0]
    configs = [checkpoint.config for checkpoint, _ in loaded]
    config = replace(
        first.config,
        max_source_tokens=min(config.max_source_tokens for config in configs),
        max_new_tokens=min(config.max_new_tokens for config in configs),
    )
    return replace(first, config=config), Ensemble([network for _, network in loaded])


def _differences(first: Checkpoint, other: Checkpoint) -> Iterator[str]:
    """Clauses with the reason why two translators cannot vote on one token."""
    ours, theirs = first.config, other.config
    directions = [f"{config.source_language}→{config.target_language}" for config in (ours, theirs)]
    if directions[0] != directions[1]:
        yield f"it translates {directions[1]} and the other {directions[0]}; give models of one direction"
    for side in ("source", "target"):
        if tokenizer_digest(first, side) != tokenizer_digest(other, side):
            yield (
                f"their {side} tokenizers differ, and members of an ensemble share their token ids; train them on the"
                f" same pairs, or one with --tokenizer {first.folder}"
            )
    for name in TOKEN_RULES:
        if getattr(ours, name) != getattr(theirs, name):
            values = f"{getattr(theirs, name)} and {getattr(ours, name)}"
            yield f"their {name} differ ({values} in config.json); give models that were trained or imported alike"
    vocabularies = [c.architecture.get("target_vocabulary") for c in (theirs, ours)]
    pads = [config.architecture.get("pad", 0) for config in (theirs, ours)]
    for name, (their, our) in (("target vocabularies", vocabularies), ("padding tokens", pads)):
        if their != our:
            yield f"the {name} of their networks differ ({their} and {our}); give models that were trained alike"


def tokenizer_digest(checkpoint: Checkpoint, side: str) -> str | None:
    """SHA-256 of a tokenizer's file."""
    prefix = f"{side}."
    return next((digest for name, digest in checkpoint.config.files.items() if name.startswith(prefix)), None)
