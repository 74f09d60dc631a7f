"""sacreBLEU's metrics of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sacrebleu

from training.errors import TrainingError

FEW_SENTENCES = 500  # below, a BLEU is stated with its interval
TOKENISED_LINES = 100  # that end in a tokenised period, from which on texts count as tokenised, as in sacreBLEU
RESAMPLES = 1000  # of the bootstrap (Koehn 2004), as by default in sacreBLEU


@dataclass(frozen=True, slots=True)
class TextMetrics:
    """sacreBLEU's metrics of detokenised texts. tokenize: of BLEU, a name of sacreBLEU such as 13a, zh or none; ter:
    the translation edit rate, too."""

    tokenize: str = "13a"
    ter: bool = False

    def build(self) -> dict[str, Any]:
        """Name of the score -> a fresh metric. TrainingError if a tokenizer's package or model is missing."""
        try:  # force: without sacreBLEU's warning of tokenised texts, three lines at each score
            bleu = sacrebleu.BLEU(tokenize=self.tokenize, force=True)
            lowercased = sacrebleu.BLEU(tokenize=self.tokenize, force=True, lowercase=True)
        except (ImportError, RuntimeError, OSError, SystemExit) as error:  # mecab, or a model that it cannot download
            said = str(getattr(error, "reason", error)).strip().splitlines() or [type(error).__name__]
            needs = f"sacreBLEU's tokenizer {self.tokenize} cannot be used here ({said[0].rstrip('.')})"
            raise TrainingError(f"{needs}: install what it needs, or take --tokenize 13a, intl or char.") from error
        metrics = {"bleu": bleu, "bleu_lowercased": lowercased, "chrf": sacrebleu.CHRF()}
        return {**metrics, "ter": sacrebleu.TER()} if self.ter else metrics


def looks_tokenised(texts: Sequence[str]) -> bool:
    return sum(text.endswith(" .") for text in texts) >= TOKENISED_LINES


def signature_key(name: str) -> str:
    """The key of a score's signature: "signature" of BLEU, "signature_chrf" of chrF."""
    return "signature" if name == "bleu" else f"signature_{name.removeprefix('bleu_')}"


def text_scores(
    outputs: Sequence[str], references: Sequence[Sequence[str]], text_metrics: TextMetrics | None = None
) -> dict[str, float | int | str]:
    """BLEU, cased and lowercased, and chrF, with their signatures. references: one list or several, each as long as
    the outputs. bleu_interval: half the width of BLEU's 95 % confidence interval, by sacreBLEU's bootstrap; only for
    fewer than `FEW_SENTENCES`."""
    text_metrics = text_metrics or TextMetrics()
    metrics = text_metrics.build()
    exact = sum(output in alternatives for output, *alternatives in zip(outputs, *references, strict=True))
    few = len(outputs) < FEW_SENTENCES
    interval = {"bleu_interval": _bleu_interval(outputs, references, text_metrics)} if few else {}
    return {
        **{name: round(metric.corpus_score(outputs, references).score, 2) for name, metric in metrics.items()},
        **{signature_key(name): str(metric.get_signature()) for name, metric in metrics.items()},
        **interval,
        "exact_match": round(exact / len(outputs), 4),
    }


def _bleu_interval(outputs: Sequence[str], references: Sequence[Sequence[str]], text_metrics: TextMetrics) -> float:
    score = text_metrics.build()["bleu"].corpus_score(outputs, references, n_bootstrap=RESAMPLES)
    return round(float(score._ci), 2)
