"""BLEU and sample translations of held-out sentences, decoded with the serving code."""

from __future__ import annotations

import sacrebleu

from models.backends.select import Network
from models.checkpoint import Checkpoint
from training.config.run_config import LoopConfig
from training.data.sentence_pairs import Pairs
from training.evaluation.scores import translate
from training.loop.progress import Quality, Sample


def evenly_spaced_indices(count: int, most: int) -> list[int]:
    """At most `most` evenly spaced indices of 0..count-1, always the same."""
    return [i * count // most for i in range(most)] if most < count else list(range(count))


def subsample(pairs: Pairs, most: int) -> Pairs:
    if len(pairs) <= most:
        return pairs
    return pairs.only(evenly_spaced_indices(len(pairs), most), pairs.origin)


class BleuValidator:
    """Greedy decoding of the validation `pairs`; only of the samples unless weights are chosen by BLEU."""

    def __init__(self, checkpoint: Checkpoint, network: Network, pairs: Pairs, config: LoopConfig) -> None:
        self.checkpoint, self.network = checkpoint, network
        self.scores_bleu = config.choose_by == "bleu"
        self.pairs, self.samples = pairs, evenly_spaced_indices(len(pairs), config.sample_translations)

    def examples(self) -> tuple[Sample, ...]:
        """Sample translations by the current network."""
        some = self.pairs.only(self.samples, self.pairs.origin)
        outputs = translate(self.checkpoint, self.network, some.sources)
        return tuple(zip(some.sources, some.targets, outputs, strict=True))

    def __call__(self) -> Quality:
        if not self.scores_bleu:
            return Quality(None, self.examples())
        sources, references = self.pairs.sources, self.pairs.targets
        outputs = translate(self.checkpoint, self.network, sources)
        bleu = sacrebleu.BLEU().corpus_score(outputs, [references]).score
        return Quality(bleu, tuple((sources[i], references[i], outputs[i]) for i in self.samples))
