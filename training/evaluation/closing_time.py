"""Estimates of the time that a run takes after its last update, which a run with a time limit keeps free.
Each is measured on a small part with the present weights."""

from __future__ import annotations

import time
from collections.abc import Sequence

from torch import Tensor

from models.checkpoint import Checkpoint
from models.networks.recurrent import RecurrentLanguageModel
from models.networks.transformer import Transformer
from training.evaluation.bleu_validator import evenly_spaced_indices
from training.evaluation.memorisation import CHARACTERS, SAMPLES
from training.evaluation.model_outputs import sample_lyrics, translate
from training.evaluation.scores import negative_log_likelihood
from training.loop.progress import Closing

PUBLISHING_S = 3.0  # curves, card, weights
PROBED_SENTENCES, PROBED_CHARACTERS, PROBED_STEPS = 32, 2000, 25
BEAM_COST = 3.0  # of beam 5, relative to greedy decoding
OVERLAP_S = 3e-6  # CPU seconds per character of the training text (`benchmarks/LOG.md`)


def translator_closing(
    checkpoint: Checkpoint, network: Transformer, sources: Sequence[str], *, greedy: int, beam: int
) -> Closing:
    """sources: to measure on. greedy, beam: sentences that are scored so at the end."""
    probed = [sources[index] for index in evenly_spaced_indices(len(sources), PROBED_SENTENCES)]

    def closing(validation_s: float) -> float:
        started = time.monotonic()
        translate(checkpoint, network, probed)
        each_s = (time.monotonic() - started) / len(probed)
        return validation_s + each_s * (greedy + BEAM_COST * beam) + PUBLISHING_S

    return closing


def lyricist_closing(
    checkpoint: Checkpoint, network: RecurrentLanguageModel, train: str, valid_ids: Tensor, seed: int, *, models: int
) -> Closing:
    """train: the training text, for which memorisation is measured. valid_ids [N]: the text to score. models: that are
    scored on it."""

    def closing(validation_s: float) -> float:
        started = time.monotonic()
        _, characters = negative_log_likelihood(network, valid_ids[: PROBED_CHARACTERS + 1])
        scored = time.monotonic()
        sample_lyrics(checkpoint, network, [train[:1]] * SAMPLES, PROBED_STEPS, 1.0, seed)
        sampled = time.monotonic()
        scoring_s = models * (scored - started) * len(valid_ids) / characters
        sampling_s = (sampled - scored) * CHARACTERS / PROBED_STEPS
        return validation_s + scoring_s + sampling_s + OVERLAP_S * len(train) + PUBLISHING_S

    return closing
