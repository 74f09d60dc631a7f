"""Comparison of translation systems on one test set: scores side by side, and paired bootstrap resampling (Koehn 2004,
"Statistical Significance Tests for Machine Translation Evaluation") by sacreBLEU's own implementation.

In files, outputs stand a line for each pair: line n belongs to line n of the test set, and pairs with an empty side
keep their line."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sacrebleu.significance import PairedTest

from training.data.corpus_files import numbered_lines
from training.data.sentence_pairs import MOST_LINES, Pairs, one_line
from training.errors import TrainingError, pluralize
from training.evaluation.scores import Score
from training.evaluation.text_metrics import RESAMPLES, TextMetrics

SIGNIFICANT = 0.05
HEADINGS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}  # of the scores with a paired test


@dataclass(frozen=True, slots=True)
class System:
    """outputs: its translations in the order of the test set. score: of the whole set. tokenizer: digest of a model's
    target tokenizer."""

    name: str
    outputs: Sequence[str]
    score: Score
    tokenizer: str | None


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
        rows = [[*header, "perplexity"]]
        for place, system in enumerate(self.systems):
            row = [f"{system.name} (baseline)" if place == self.baseline else system.name]
            for name, bootstraps in self.bootstraps.items():
                one = bootstraps[place]
                star = "*" if one.p_value is not None and one.p_value < SIGNIFICANT else ""
                p_value = "" if one.p_value is None else f"{one.p_value:.4f}{star}"
                p_value = "–" if place in self.copies else p_value
                row += [f"{system.score[name]:.2f}", f"{one.mean:.2f} ± {one.ci:.2f}", p_value]
            rows.append([*row, f"{system.score['perplexity']:.2f}"])
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
        if len({system.tokenizer for system in self.systems}) > 1:
            yield "The models have different tokenizers: their perplexities per token cannot be compared."


def compare_systems(
    systems: Sequence[System],
    references: Sequence[Sequence[str]],
    text_metrics: TextMetrics,
    *,
    baseline: int = 0,
    resamples: int | None = None,
) -> Comparison:
    """Tests each system against the baseline. The seed is sacreBLEU's, 12345 unless SACREBLEU_SEED says otherwise, so
    that `sacrebleu --paired-bs` prints the same numbers for the same outputs. resamples: None for `RESAMPLES`."""
    resamples = resamples or RESAMPLES
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # scoring has warned of tokenised outputs already
    metrics = {name: metric for name, metric in text_metrics.build().items() if name in HEADINGS}
    order = [baseline, *(place for place in range(len(systems)) if place != baseline)]
    named = [(str(place), systems[place].outputs) for place in order]
    signatures, results = PairedTest(named, metrics, references, test_type="bs", n_samples=resamples)()
    bootstraps: dict[str, list[Bootstrap]] = {}
    columns = [column for heading, column in results.items() if heading != "System"]
    for name, column in zip(metrics, columns, strict=True):
        by_place = {place: _rounded(result) for place, result in zip(order, column, strict=True)}
        bootstraps[name] = [by_place[place] for place in range(len(order))]
    by_name = dict(zip(metrics, map(str, signatures.values()), strict=True))
    return Comparison(systems, baseline, resamples, bootstraps, by_name)


def _rounded(result: Any) -> Bootstrap:
    p_value = None if result.p_value is None else round(float(result.p_value), 4)
    return Bootstrap(round(float(result.mean), 4), round(float(result.ci), 4), p_value)


def lines_of_pairs(pairs: Pairs) -> tuple[list[int], int]:
    """The index of each pair's line, and the number of lines. A test set whose line numbers count something else, such
    as the lines of an XML file, has one line for each pair that is kept."""
    read = pairs.reported().read
    if pairs.lines is None or read == len(pairs):
        return list(range(len(pairs))), len(pairs)
    indices = [line % MOST_LINES - 1 for line in pairs.lines]
    return (indices, read) if max(indices) < read else (list(range(len(pairs))), len(pairs))


def read_outputs(path: Path, pairs: Pairs) -> list[str]:
    """One text for each pair. TrainingError if the file has another number of lines than the test set."""
    texts = [line.strip() for _, line in numbered_lines(path)]
    if len(texts) == len(pairs):
        return texts
    indices, count = lines_of_pairs(pairs)
    if len(texts) != count:
        raise TrainingError(
            f"{path} has {pluralize(len(texts), 'line')} and {pairs.origin} {pluralize(count, 'pair')}: line n must"
            " translate pair n."
        )
    return [texts[index] for index in indices]


def output_lines(outputs: Sequence[str], pairs: Pairs) -> list[str]:
    """The outputs, with empty lines for pairs that were left out."""
    indices, count = lines_of_pairs(pairs)
    lines = [""] * count
    for index, output in zip(indices, outputs, strict=True):
        lines[index] = one_line(output)
    return lines


def write_outputs(path: Path, outputs: Sequence[str], pairs: Pairs) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in output_lines(outputs, pairs)), encoding="utf-8", newline="\n")
