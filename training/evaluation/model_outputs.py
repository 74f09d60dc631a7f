"""Outputs of a checkpoint, decoded through `models.decoding.decoder` as in serving."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from models import checkpoint as checkpoints
from models.backends.select import Network
from models.checkpoint import Checkpoint, CheckpointConfig, new_token_limit
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.interface import Precision, Prompt
from models.networks.loading import load_network
from training.errors import TrainingError
from training.evaluation.device_decoding import decode_in_memory, default_precision, default_slots

MAX_BEAM_SIZE = 64
SAMPLE_TEMPERATURE = 0.8  # of a lyricist's samples


def load_model(folder: Path, device: torch.device) -> tuple[Checkpoint, Any]:
    """Raises TrainingError without a valid checkpoint."""
    try:
        checkpoint = checkpoints.read(folder)
        return checkpoint, load_network(checkpoint, device)
    except checkpoints.CheckpointError as error:
        raise TrainingError(str(error)) from error


Languages = tuple[str, str]  # source, target
AnyLanguages = tuple[str | None, str | None]
"""Source and target as options name them; None stands for any language."""
Rerank = Callable[[Checkpoint, Sequence[str], Sequence[list[Hypothesis]]], list[list[Hypothesis]]]
"""Orders the beam of each source anew, best first; `training.evaluation.reranking.Reranker` is one."""


def load_translator(
    folder: Path, device: torch.device, languages: AnyLanguages | None = None, *, zero_shot: bool = False
) -> tuple[Checkpoint, Any]:
    """As `load_model`; of a model with several language pairs the checkpoint of this one."""
    checkpoint, network = load_model(folder, device)
    return for_languages(checkpoint, languages or (None, None), zero_shot=zero_shot), network


def for_languages(checkpoint: Checkpoint, wanted: AnyLanguages, *, zero_shot: bool = False) -> Checkpoint:
    """The checkpoint of one language pair. TrainingError if the model has no such pair, or several; a model of unknown
    languages takes any. zero_shot: also a pair that a multilingual model was not trained for, of one of its targets."""
    config, (source, target) = checkpoint.config, wanted
    if config.kind != "translator" or (
        not config.language_pairs and None in (config.source_language, config.target_language)
    ):
        return checkpoint
    try:
        return checkpoint.for_pair(source, target)
    except checkpoints.CheckpointError as error:
        message = str(error).removesuffix(".")
        into = [each for each in checkpoint.single_pairs() if each.config.target_language == target]
        if source and into and config.language_pairs:
            if zero_shot:
                return replace(into[0], config=replace(into[0].config, source_language=source))
            raise TrainingError(f"{message}; evaluate --zero-shot tries it all the same.") from error
        options = " (--source, --target)" if "say which" in message else ""
        raise TrainingError(f"{message}{options}.") from error


def token_rules(config: CheckpointConfig) -> TokenRules:
    return TokenRules(config.eos, tuple(config.suppressed), config.renormalise, config.forced_end)


def hypotheses(
    checkpoint: Checkpoint,
    network: Network,
    sources: Sequence[str],
    *,
    beam: int = 1,
    n_best: int = 1,
    length_penalty: float = 1.0,
    precision: Precision | None = None,
    slots: int | None = None,
    rerank: Rerank | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[list[str]]:
    """The beam's hypotheses of each source, best first; at least one, which may be empty. precision, slots: None for
    those of the device (`device_decoding`). rerank: orders all hypotheses of the beam before the best n are taken.
    progress: as of `decode`."""
    prompts = [Prompt(checkpoint.source_ids(text), tuple(checkpoint.config.target_prefix)) for text in sources]
    shared = DecodingOptions(beam_size=beam, n_best=beam if rerank else n_best, length_penalty=length_penalty)
    options = [replace(shared, max_new_tokens=new_token_limit(len(p.source), 1 << 16)) for p in prompts]
    rules = token_rules(checkpoint.config)
    device: torch.device = network.device  # type: ignore[union-attr]  # an ensemble has one, too
    beams, _ = decode_in_memory(
        network,
        rules,
        prompts,
        options,
        slots=slots or default_slots(device),
        precision=precision or default_precision(device),
        progress=progress,
    )
    if rerank is not None:
        beams = [beam[:n_best] for beam in rerank(checkpoint, sources, beams)]
    return [[checkpoint.decode(hypothesis.tokens) for hypothesis in beam] or [""] for beam in beams]


def translate(
    checkpoint: Checkpoint,
    network: Network,
    sources: Sequence[str],
    *,
    beam: int = 1,
    length_penalty: float = 1.0,
    precision: Precision | None = None,
    slots: int | None = None,
    rerank: Rerank | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[str]:
    """The best hypothesis of each source."""
    beams = hypotheses(
        checkpoint,
        network,
        sources,
        beam=beam,
        length_penalty=length_penalty,
        precision=precision,
        slots=slots,
        rerank=rerank,
        progress=progress,
    )
    return [best for best, *_ in beams]


def sample_lyrics(
    checkpoint: Checkpoint, network: Network, openings: Sequence[str], characters: int, temperature: float, seed: int
) -> list[str]:
    """Continuations of openings by a lyricist. Draws depend on (seed + index, step) alone, not on training's state."""
    prompts = [Prompt((), checkpoint.target_ids(opening)) for opening in openings]
    shared = DecodingOptions(max_new_tokens=characters, temperature=temperature, scores=False)
    options = [replace(shared, seed=seed + index) for index in range(len(prompts))]
    results = decode(network, token_rules(checkpoint.config), prompts, options)
    return [checkpoint.decode(hypotheses[0].tokens) for hypotheses in results]
