"""What a translator is judged by beside its loss: translations of held-out sentences, made as they are served."""

from __future__ import annotations

import sacrebleu

from models.checkpoint import Checkpoint
from models.interface import Network
from training.config.run_config import LoopConfig
from training.data.sentence_pairs import Pairs
from training.evaluation.scores import translate
from training.loop.progress import Quality, Sample


def evenly_spaced_indices(count: int, most: int) -> list[int]:
    """At most so many places of 0..count-1, evenly spread, the same ones every time."""
    return [i * count // most for i in range(most)] if most < count else list(range(count))


def subsample(pairs: Pairs, most: int) -> Pairs:
    if len(pairs) <= most:
        return pairs
    places = evenly_spaced_indices(len(pairs), most)
    return Pairs([pairs.sources[i] for i in places], [pairs.targets[i] for i in places], 0, pairs.origin)


class BleuValidator:
    """Greedy search over the key-value cache, many sentences side by side; a beam is for the end of a run. Where
    nothing is chosen by BLEU, only the samples are translated."""

    def __init__(self, checkpoint: Checkpoint, network: Network, pairs: Pairs, config: LoopConfig) -> None:
        """pairs: those of every validation."""
        self.checkpoint, self.network = checkpoint, network
        self.whole = config.choose_by == "bleu"
        self.pairs = pairs if self.whole else subsample(pairs, config.sample_translations)
        self.samples = evenly_spaced_indices(len(self.pairs), config.sample_translations)

    def examples(self) -> tuple[Sample, ...]:
        """The samples alone, as the network now translates them."""
        sources = [self.pairs.sources[i] for i in self.samples]
        outputs = translate(self.checkpoint, self.network, sources)
        return tuple((s, self.pairs.targets[i], out) for i, s, out in zip(self.samples, sources, outputs, strict=True))

    def __call__(self) -> Quality:
        sources, references = self.pairs.sources, self.pairs.targets
        outputs = translate(self.checkpoint, self.network, sources)
        bleu = sacrebleu.BLEU().corpus_score(outputs, [references]).score if self.whole else None
        return Quality(bleu, tuple((sources[i], references[i], outputs[i]) for i in self.samples))
