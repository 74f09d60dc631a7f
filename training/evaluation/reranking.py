"""Reranking a beam's hypotheses with a translator of the other direction.

    score(y) + weight * log p(x | y) / |x|

score(y) is the search's, so that with a length penalty of 1 both terms are means over tokens, and one weight suits
short and long sentences. A hypothesis that leaves something out makes its source unlikely, which the model of the
translating direction alone does not see. The sum is the noisy channel of Yee et al. 2019 (arXiv 1908.05731) without its
language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from models.checkpoint import Checkpoint
from models.decoding.options import Hypothesis
from training.errors import TrainingError
from training.evaluation.ensemble import load_ensemble
from training.evaluation.model_outputs import AnyLanguages
from training.evaluation.scores import target_log_probabilities

DEFAULT_WEIGHT = 0.2


class Reranker:
    """One translator of the other direction, or several as an ensemble. weight: of their log-probabilities, at least 0.
    languages: source and target of the translations that are reranked. Calls load
    nothing; they come from one thread at a time, as the networks' tables of positions grow. TrainingError for a folder
    without a translator of the other direction, or that cannot join an ensemble."""

    def __init__(
        self,
        folders: Sequence[Path],
        device: torch.device,
        languages: AnyLanguages = (None, None),
        weight: float = DEFAULT_WEIGHT,
    ) -> None:
        self.folders, self.device, self.languages, self.weight = tuple(folders), device, languages, weight
        source, target = languages
        try:
            loaded = load_ensemble(folders, device, languages=(target, source))
        except TrainingError as error:  # which does not say of which option it speaks
            raise TrainingError(f"Translations cannot be reranked: {error}") from error
        self._checkpoint, self._network = loaded

    def __reduce__(self) -> tuple[Any, ...]:
        """A process that is not forked loads the folders itself."""
        return Reranker, (self.folders, self.device, self.languages, self.weight)

    def __call__(
        self, translator: Checkpoint, sources: Sequence[str], beams: Sequence[list[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first, with the sum as their score; of equal ones the earlier first.
        translator: the checkpoint whose tokens they are."""
        texts = [[translator.decode(hypothesis.tokens) for hypothesis in beam] for beam in beams]
        pairs = list(dict.fromkeys((text, source) for source, own in zip(sources, texts, strict=True) for text in own))
        total, lengths = target_log_probabilities(
            self._checkpoint, self._network, [text for text, _ in pairs], [source for _, source in pairs]
        )
        means = total / lengths.clamp(min=1)  # without an end token, a source that has no pieces has no tokens at all
        reverse = dict(zip(pairs, means.tolist(), strict=True))
        return [
            sorted(
                (
                    hypothesis._replace(score=hypothesis.score + self.weight * reverse[text, source])
                    for hypothesis, text in zip(beam, own, strict=True)
                ),
                key=lambda hypothesis: -hypothesis.score,
            )
            for source, beam, own in zip(sources, beams, texts, strict=True)
        ]
