"""What a translator is judged by beside its loss: translations of held-out sentences, made as they are served."""

from __future__ import annotations

import sacrebleu

from models.checkpoint import Checkpoint
from models.interface import Network
from training.config import LoopConfig
from training.corpus import Pairs
from training.evaluate import translate
from training.validation import Quality


def evenly(pairs: Pairs, most: int) -> Pairs:
    """At most so many pairs, evenly spread over all, the same ones every time."""
    if len(pairs) <= most:
        return pairs
    places = [i * len(pairs) // most for i in range(most)]
    return Pairs([pairs.sources[i] for i in places], [pairs.targets[i] for i in places], 0, pairs.origin)


class TranslationJudge:
    """Greedy search over the key-value cache, many sentences side by side; a beam is for the end of a run. Where
    nothing is chosen by BLEU, only the samples are translated."""

    def __init__(self, checkpoint: Checkpoint, network: Network, pairs: Pairs, config: LoopConfig) -> None:
        """pairs: those of every validation."""
        self.checkpoint, self.network = checkpoint, network
        self.samples = evenly(pairs, config.sample_translations) if config.sample_translations else Pairs([], [])
        self.pairs = pairs if config.choose_by == "bleu" else None

    def __call__(self) -> Quality:
        bleu = None
        if self.pairs is not None:
            outputs = translate(self.checkpoint, self.network, self.pairs.sources)
            bleu = sacrebleu.BLEU().corpus_score(outputs, [self.pairs.targets]).score
        hypotheses = translate(self.checkpoint, self.network, self.samples.sources)
        return Quality(bleu, tuple(zip(self.samples.sources, self.samples.targets, hypotheses, strict=True)))
