"""Outputs of a checkpoint, decoded through `models.decoding.decoder` as in serving."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch

from models import checkpoint as checkpoints
from models.backends.select import Network, candidates
from models.checkpoint import Checkpoint, CheckpointConfig, new_token_limit
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.interface import Precision, Prompt
from models.networks.loading import load_network
from training.errors import TrainingError

CPU_SLOTS, GPU_SLOTS = 64, 1024  # rows of a batch: a GPU reads its weights once for all of them


def default_precision(device: torch.device) -> Precision:
    """fp32 on a CPU, where scores should not depend on the machine; on a GPU bf16, if it has that."""
    return "fp32" if device.type == "cpu" else candidates(device)[0]


def default_slots(device: torch.device) -> int:
    return CPU_SLOTS if device.type == "cpu" else GPU_SLOTS


def decode_in_memory(
    network: Network,
    rules: TokenRules,
    prompts: Sequence[Prompt],
    options: Sequence[DecodingOptions],
    *,
    slots: int,
    precision: Precision,
    progress: Callable[[int], object] | None = None,
) -> tuple[list[list[Hypothesis]], int]:
    """`decode`, begun again with half the slots whenever the GPU's memory runs out, as it may beside a training; also
    returns the slots. OutOfMemoryError if the widest beam does not fit."""
    least, reported = max((each.beam for each in options), default=1), 0
    while True:
        finished = [0]

        def report(count: int, finished: list[int] = finished) -> None:
            """Prompts that an earlier attempt has finished and reported count once."""
            nonlocal reported
            finished[0] += count
            if progress is not None and finished[0] > reported:
                progress(finished[0] - reported)
            reported = max(reported, finished[0])

        try:
            return decode(network, rules, prompts, options, slots=slots, precision=precision, progress=report), slots
        except torch.OutOfMemoryError:
            if slots <= least:
                raise
        slots = max(slots // 2, least)
        gc.collect()  # the failed decoder's caches
        torch.cuda.empty_cache()


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
    folder: Path, device: torch.device, languages: AnyLanguages | None = None
) -> tuple[Checkpoint, Any]:
    """As `load_model`; of a model with several language pairs the checkpoint of this one."""
    checkpoint, network = load_model(folder, device)
    return for_languages(checkpoint, languages or (None, None)), network


def for_languages(checkpoint: Checkpoint, wanted: AnyLanguages) -> Checkpoint:
    """The checkpoint of one language pair. TrainingError if the model has no such pair, or several; a model of unknown
    languages takes any."""
    config, (source, target) = checkpoint.config, wanted
    if config.kind != "translator" or (
        not config.language_pairs and None in (config.source_language, config.target_language)
    ):
        return checkpoint
    try:
        return checkpoint.for_pair(source, target)
    except checkpoints.CheckpointError as error:
        message = str(error).removesuffix(".")
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
    rerank: Rerank | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[list[str]]:
    """The beam's hypotheses of each source, best first; at least one, which may be empty. precision: None for
    that of the device. rerank: orders all hypotheses of the beam before the best n are taken.
    progress: as of `decode`."""
    shared = DecodingOptions(beam_size=beam, n_best=beam if rerank else n_best, length_penalty=length_penalty)
    beams = _decoded(checkpoint, network, sources, shared, precision, progress)
    if rerank is not None:
        beams = [beam[:n_best] for beam in rerank(checkpoint, sources, beams)]
    return [[checkpoint.decode(hypothesis.tokens) for hypothesis in beam] or [""] for beam in beams]


def best_hypotheses(checkpoint: Checkpoint, network: Network, sources: Sequence[str], *, beam: int) -> list[Hypothesis]:
    """The best hypothesis of each source, with its log-probability."""
    return [best for best, *_ in _decoded(checkpoint, network, sources, DecodingOptions(beam_size=beam))]


def _decoded(
    checkpoint: Checkpoint,
    network: Network,
    sources: Sequence[str],
    shared: DecodingOptions,
    precision: Precision | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[list[Hypothesis]]:
    prompts = [Prompt(checkpoint.source_ids(text), tuple(checkpoint.config.target_prefix)) for text in sources]
    options = [replace(shared, max_new_tokens=new_token_limit(len(p.source), 1 << 16)) for p in prompts]
    rules = token_rules(checkpoint.config)
    device: torch.device = network.device  # type: ignore[union-attr]  # an ensemble has one, too
    beams, _ = decode_in_memory(
        network,
        rules,
        prompts,
        options,
        slots=default_slots(device),
        precision=precision or default_precision(device),
        progress=progress,
    )
    return beams


class SearchOptions(TypedDict, total=False):
    """Keywords of `hypotheses`."""

    beam: int
    length_penalty: float
    precision: Precision | None
    rerank: Rerank | None
    progress: Callable[[int], object] | None


def translate(
    checkpoint: Checkpoint, network: Network, sources: Sequence[str], **options: Unpack[SearchOptions]
) -> list[str]:
    """The best hypothesis of each source."""
    return [best for best, *_ in hypotheses(checkpoint, network, sources, **options)]


def sample_lyrics(
    checkpoint: Checkpoint, network: Network, openings: Sequence[str], characters: int, temperature: float, seed: int
) -> list[str]:
    """Continuations of openings by a lyricist. Draws depend on (seed + index, step) alone, not on training's state."""
    prompts = [Prompt((), checkpoint.target_ids(opening)) for opening in openings]
    shared = DecodingOptions(max_new_tokens=characters, temperature=temperature, scores=False)
    options = [replace(shared, seed=seed + index) for index in range(len(prompts))]
    results = decode(network, token_rules(checkpoint.config), prompts, options)
    return [checkpoint.decode(hypotheses[0].tokens) for hypotheses in results]
