"""Which kinds of stand-ins a finished translator copies, for a server to find with the model."""

from __future__ import annotations

from models.backends.select import Network
from models.checkpoint import Checkpoint, StandInKinds
from models.stand_ins import carriers, copied_kinds
from training.evaluation.model_outputs import translate

_BEAM = 4  # of a server by default


def copied_stand_ins(checkpoint: Checkpoint, network: Network) -> StandInKinds:
    """Tried of a model with one language pair; a server tries those of the others, which may be thousands, when they
    are first needed."""
    config = checkpoint.config
    if config.source_language is None or config.target_language is None:
        return {}
    tried = carriers(config.source_language)
    translations = translate(checkpoint, network, [carrier.sentence for carrier in tried], beam=_BEAM)
    return {(config.source_language, config.target_language): copied_kinds(tried, translations)}
