"""Comparison of translation systems on one test set: scores side by side, and paired bootstrap resampling (Koehn 2004,
"Statistical Significance Tests for Machine Translation Evaluation") by sacreBLEU's own implementation."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.base import Score as MetricScore
from sacrebleu.significance import PairedTest

from training.evaluation.scores import Score
from training.evaluation.text_metrics import RESAMPLES, TextMetrics

SIGNIFICANT = 0.05
TESTED = ("bleu", "chrf", "ter")  # scores with a paired test, beside COMET
HEADINGS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "comet": "COMET"}


@dataclass(frozen=True, slots=True)
class System:
    """outputs: its translations in the order of the test set. score: of the whole set. comet: per sentence; () without
    it. tokenizer: digest of a model's target tokenizer."""

    name: str
    outputs: Sequence[str]
    score: Score
    comet: Sequence[float] = ()
    tokenizer: str | None = None


class Bootstrap(NamedTuple):
    """mean, ci: of the score over the resamples, and half the width of its 95 % interval. p_value: of the difference to
    the baseline, two-sided; None for the baseline itself."""

    mean: float
    ci: float
    p_value: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """bootstraps: by score, one for each system. signatures: of the scores, as sacreBLEU states them."""

    systems: Sequence[System]
    baseline: int
    resamples: int
    bootstraps: Mapping[str, Sequence[Bootstrap]] = field(default_factory=dict)
    signatures: Mapping[str, str] = field(default_factory=dict)

    @property
    def copies(self) -> list[int]:
        """Systems with the baseline's outputs, for which sacreBLEU's p-value is its least possible one."""
        outputs = list(self.systems[self.baseline].outputs)
        places = (place for place in range(len(self.systems)) if place != self.baseline)
        return [place for place in places if list(self.systems[place].outputs) == outputs]

    def as_json(self) -> dict[str, object]:
        systems = [
            {
                "name": system.name,
                **system.score,
                "paired_bs": {
                    name: {key: value for key, value in rows[place]._asdict().items() if value is not None}
                    for name, rows in self.bootstraps.items()
                },
            }
            for place, system in enumerate(self.systems)
        ]
        return {
            "baseline": self.systems[self.baseline].name,
            "paired_bs_n": self.resamples,
            "paired_bs_signatures": dict(self.signatures),
            "systems": systems,
        }

    def lines(self) -> Iterator[str]:
        """A table for a terminal, and how to read it."""
        header = ["system"]
        for name in self.bootstraps:
            header += [HEADINGS[name], "mean ± 95 %", "p"]
        with_nats = any("perplexity" in system.score for system in self.systems)
        rows = [[*header, *(["perplexity"] * with_nats)]]
        for place, system in enumerate(self.systems):
            row = [f"{system.name} (baseline)" if place == self.baseline else system.name]
            for name, bootstraps in self.bootstraps.items():
                digits, one = (4 if name == "comet" else 2), bootstraps[place]
                star = "*" if one.p_value is not None and one.p_value < SIGNIFICANT else ""
                p_value = "" if one.p_value is None else f"{one.p_value:.4f}{star}"
                p_value = "–" if place in self.copies else p_value
                row += [f"{system.score[name]:.{digits}f}", f"{one.mean:.{digits}f} ± {one.ci:.{digits}f}", p_value]
            row += [f"{system.score['perplexity']:.2f}" if "perplexity" in system.score else ""] * with_nats
            rows.append(row)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for name, *cells in rows:
            shown = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
            yield "  ".join([name.ljust(widths[0]), *shown]).rstrip()
        yield ""
        yield f"Paired bootstrap, {self.resamples:,} resamples. p: the probability that chance alone makes so large a"
        yield f"difference to the baseline; * below {SIGNIFICANT}. Without * this test set does not tell the two apart."
        for place in self.copies:
            yield f"{self.systems[place].name} has the outputs of the baseline: there is no difference to test."
        yield from (f"{HEADINGS[name]}: {signature}" for name, signature in self.signatures.items())
        if with_nats and len({system.tokenizer for system in self.systems if "perplexity" in system.score}) > 1:
            yield "The models have different tokenizers: their perplexities per token cannot be compared."


class SentenceMean(Metric):
    """The mean of numbers, one a sentence and written as its hypothesis, so that COMET is resampled as BLEU is."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def _preprocess_segment(self, sent: str) -> str:
        return sent

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, object]:
        return {}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: Mapping[str, object]) -> list[float]:
        return [float(hypothesis), 1.0]

    def _compute_score_from_stats(self, stats: Sequence[float]) -> MetricScore:
        return MetricScore("mean", float(stats[0] / stats[1]))

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> MetricScore:
        return self._compute_score_from_stats(np.sum(stats, axis=0))


def compare_systems(
    systems: Sequence[System],
    references: Sequence[Sequence[str]],
    text_metrics: TextMetrics,
    *,
    baseline: int = 0,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Tests each system against the baseline. The seed is sacreBLEU's, 12345 unless SACREBLEU_SEED says otherwise, so
    that `sacrebleu --paired-bs` prints the same numbers for the same outputs."""
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # scoring has warned of tokenised outputs already
    metrics = {name: metric for name, metric in text_metrics.build().items() if name in TESTED}
    order = [baseline, *(place for place in range(len(systems)) if place != baseline)]
    texts = [systems[place].outputs for place in order]
    bootstraps, signatures = _paired_test(texts, metrics, references, order, resamples)
    if all(system.comet for system in systems):
        texts = [[repr(score) for score in systems[place].comet] for place in order]
        comet, _ = _paired_test(texts, {"comet": SentenceMean()}, references, order, resamples)
        bootstraps |= comet
    return Comparison(systems, baseline, resamples, bootstraps, signatures)


def _paired_test(
    outputs: Sequence[Sequence[str]],
    metrics: Mapping[str, Metric],
    references: Sequence[Sequence[str]],
    order: Sequence[int],
    resamples: int,
) -> tuple[dict[str, list[Bootstrap]], dict[str, str]]:
    """By score: the bootstraps in the order of the systems, and the signature. outputs[i] are of system order[i], and
    order[0] is the baseline."""
    named = [(str(place), texts) for place, texts in zip(order, outputs, strict=True)]
    signatures, results = PairedTest(named, metrics, references, test_type="bs", n_samples=resamples)()
    bootstraps: dict[str, list[Bootstrap]] = {}
    columns = [column for heading, column in results.items() if heading != "System"]
    for name, column in zip(metrics, columns, strict=True):
        by_place = {place: _rounded(result) for place, result in zip(order, column, strict=True)}
        bootstraps[name] = [by_place[place] for place in range(len(order))]
    return bootstraps, dict(zip(metrics, map(str, signatures.values()), strict=True))


def _rounded(result: Any) -> Bootstrap:
    p_value = None if result.p_value is None else round(float(result.p_value), 4)
    return Bootstrap(round(float(result.mean), 4), round(float(result.ci), 4), p_value)
