"""Scores and samples of the held-out texts during training."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from models.backends.select import Network
from models.checkpoint import Checkpoint
from training.config.run_config import LoopConfig
from training.data.sentence_pairs import Pairs
from training.evaluation.model_outputs import SAMPLE_TEMPERATURE, sample_lyrics, translate
from training.evaluation.text_metrics import tokenizer_for
from training.progress import Sample, Validation

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
    """Greedy decoding of the validation `pairs`; only of the samples unless weights are chosen by BLEU. losses: the
    last validation losses of the language pairs of a multilingual corpus."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        network: Network,
        pairs: Pairs,
        config: LoopConfig,
        losses: Callable[[], Sequence[float]] = tuple,
    ) -> None:
        self.checkpoint, self.network, self.losses = checkpoint, network, losses
        self.scores_bleu = config.choose_by == "bleu"
        self.pairs, self.samples = pairs, evenly_spaced_indices(len(pairs), config.sample_translations)

    def examples(self) -> tuple[Sample, ...]:
        some = self.pairs.only(self.samples, self.pairs.origin)
        outputs = translate(self.checkpoint, self.network, some.sources)
        return tuple(zip(some.sources, some.targets, outputs, strict=True))

    def __call__(self, loss: float) -> Validation:
        names = [name for name, _ in self.pairs.parts]
        by_pair = {name: {"loss": own} for name, own in zip(names, self.losses(), strict=True)}
        if not self.scores_bleu:
            return Validation(loss, None, self.examples(), by_pair)
        import sacrebleu  # takes a quarter of a second

        sources, references = self.pairs.sources, self.pairs.targets
        outputs = translate(self.checkpoint, self.network, sources)
        scores, first = list[float](), 0
        for name, part in self.pairs.by_part():
            end = first + len(part)
            tokenize = tokenizer_for(self.checkpoint.config.target_language or part.target_language)
            metric = sacrebleu.BLEU(tokenize=tokenize, force=True)
            scores.append(metric.corpus_score(outputs[first:end], [part.targets]).score)
            if name:
                by_pair[name]["bleu"] = scores[-1]
            first = end
        samples = tuple((sources[i], references[i], outputs[i]) for i in self.samples)
        return Validation(loss, sum(scores) / len(scores), samples, by_pair)
