"""Scores and samples of the held-out texts during training."""

from __future__ import annotations

import sacrebleu

from models.backends.select import Network
from models.checkpoint import Checkpoint
from training.config.run_config import LoopConfig
from training.data.sentence_pairs import Pairs
from training.evaluation.model_outputs import SAMPLE_TEMPERATURE, sample_lyrics, translate
from training.loop.progress import Quality, Sample

SAMPLE_CHARACTERS = 120  # of a lyricist's validation sample


def validation_sample(checkpoint: Checkpoint, network: Network, train: str, seed: int) -> tuple[Sample, ...]:
    """One text of a lyricist, continuing the first line of its training text."""
    opening = train.lstrip()[:20].split("\n")[0] or train[:1]
    (text,) = sample_lyrics(checkpoint, network, [opening], SAMPLE_CHARACTERS, SAMPLE_TEMPERATURE, seed)
    return ((opening, "", text),)


def evenly_spaced_indices(count: int, most: int) -> list[int]:
    """At most `most` evenly spaced indices of 0..count-1, always the same."""
    return [i * count // most for i in range(most)] if most < count else list(range(count))


def subsample(pairs: Pairs, most: int) -> Pairs:
    return pairs if len(pairs) <= most else pairs.only(evenly_spaced_indices(len(pairs), most), pairs.origin)


class BleuValidator:
    """Greedy decoding of the validation `pairs`; only of the samples unless weights are chosen by BLEU."""

    def __init__(self, checkpoint: Checkpoint, network: Network, pairs: Pairs, config: LoopConfig) -> None:
        self.checkpoint, self.network = checkpoint, network
        self.scores_bleu = config.choose_by == "bleu"
        self.pairs, self.samples = pairs, evenly_spaced_indices(len(pairs), config.sample_translations)

    def examples(self) -> tuple[Sample, ...]:
        some = self.pairs.only(self.samples, self.pairs.origin)
        outputs = translate(self.checkpoint, self.network, some.sources)
        return tuple(zip(some.sources, some.targets, outputs, strict=True))

    def __call__(self) -> Quality:
        if not self.scores_bleu:
            return None, self.examples()
        sources, references = self.pairs.sources, self.pairs.targets
        outputs = translate(self.checkpoint, self.network, sources)
        bleu = sacrebleu.BLEU().corpus_score(outputs, [references]).score
        return bleu, tuple((sources[i], references[i], outputs[i]) for i in self.samples)
