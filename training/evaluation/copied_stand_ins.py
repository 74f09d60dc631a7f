"""Which kinds of stand-ins a finished translator copies, for a server to find with the model."""

from __future__ import annotations

from models.backends.select import Network
from models.checkpoint import Checkpoint, StandInKinds
from models.stand_ins import carriers, copied_kinds
from training.evaluation.model_outputs import translate

_BEAM = 4  # of a server by default
MOST_PAIRS = 30  # each takes a second or two of a small model


def copied_stand_ins(checkpoint: Checkpoint, network: Network) -> StandInKinds:
    """Tried of each language pair of a model with few; a server tries those of others, which may have thousands, when
    they are first needed."""
    pairs = checkpoint.single_pairs()
    if len(pairs) > MOST_PAIRS:
        return {}
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for pair in pairs:
        source, target = pair.config.source_language, pair.config.target_language
        if source is not None and target is not None:
            tried = carriers(source)
            translations = translate(pair, network, [carrier.sentence for carrier in tried], beam=_BEAM)
            found[source, target] = copied_kinds(tried, translations)
    return found
