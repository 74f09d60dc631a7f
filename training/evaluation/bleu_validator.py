"""BLEU and sample translations of held-out sentences, decoded as they are served."""

from __future__ import annotations

import sacrebleu

from models.backends.select import Network
from models.checkpoint import Checkpoint
from training.config.run_config import LoopConfig
from training.data.sentence_pairs import Pairs
from training.evaluation.scores import translate
from training.loop.progress import Quality, Sample


def evenly_spaced_indices(count: int, most: int) -> list[int]:
    """At most `most` of 0..count-1, the same ones every time."""
    return [i * count // most for i in range(most)] if most < count else list(range(count))


def subsample(pairs: Pairs, most: int) -> Pairs:
    if len(pairs) <= most:
        return pairs
    return pairs.only(evenly_spaced_indices(len(pairs), most), pairs.origin)


class BleuValidator:
    """Greedy search, many sentences side by side; a beam is for the end of a run. Where weights are not chosen by BLEU,
    only the samples are translated. pairs: of every validation."""

    def __init__(self, checkpoint: Checkpoint, network: Network, pairs: Pairs, config: LoopConfig) -> None:
        self.checkpoint, self.network = checkpoint, network
        self.scores_bleu = config.choose_by == "bleu"
        self.pairs = pairs if self.scores_bleu else subsample(pairs, config.sample_translations)
        self.samples = evenly_spaced_indices(len(self.pairs), config.sample_translations)

    def examples(self) -> tuple[Sample, ...]:
        """The samples alone, as the network now translates them."""
        sources = [self.pairs.sources[i] for i in self.samples]
        outputs = translate(self.checkpoint, self.network, sources)
        return tuple((s, self.pairs.targets[i], out) for i, s, out in zip(self.samples, sources, outputs, strict=True))

    def __call__(self) -> Quality:
        sources, references = self.pairs.sources, self.pairs.targets
        outputs = translate(self.checkpoint, self.network, sources)
        bleu = sacrebleu.BLEU().corpus_score(outputs, [references]).score if self.scores_bleu else None
        return Quality(bleu, tuple((sources[i], references[i], outputs[i]) for i in self.samples))
