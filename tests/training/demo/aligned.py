"""How well a trained demo translator aligns the phrasebook's held-out sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from models import checkpoint as checkpoints
from models.inspection.word_alignment import AlignmentCandidate
from models.networks.loading import load_network
from training.demo.demo_models import aligned_phrases
from training.evaluation import alignment_heads


class Errors(NamedTuple):
    """Alignment error rates of the heads that the checkpoint names: as it says, and with each row taken for that of the
    token which it reads."""

    stated: float
    chosen: float
    mislabelled: float


def errors(folder: Path) -> Errors:
    """Over the half of the sentences that the choice did not see."""
    checkpoint = checkpoints.read(folder)
    config = checkpoint.config
    assert config.alignment is not None
    assert config.alignment["convention"] == "predicting"
    known = aligned_phrases(config.source_language or "", config.target_language or "")
    unseen = known[:: len(known) // alignment_heads.MAX_SENTENCES][: alignment_heads.MAX_SENTENCES][1::2]
    given = list(alignment_heads._examples(checkpoint, load_network(checkpoint), unseen))
    chosen = AlignmentCandidate(tuple((layer, head) for layer, head in config.alignment["heads"]), "predicting", 0.0)

    shifted = replace(chosen, convention="input")
    return Errors(config.alignment["error"], chosen.error_on(given), shifted.error_on(given))
