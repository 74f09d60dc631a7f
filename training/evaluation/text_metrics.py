"""Metrics of texts: sacreBLEU's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from training.config.corpus_languages import base_language
from training.errors import TrainingError

FEW_SENTENCES = 500  # below, a BLEU is stated with its interval
TOKENISED_LINES = 100  # that end in a tokenised period, from which on texts count as tokenised, as in sacreBLEU
UNUSABLE = (ImportError, RuntimeError, OSError, SystemExit)  # mecab is missing, or a model cannot be downloaded
LEAST_INTERVAL = 0.05  # shown as 0.1
RESAMPLES = 1000  # of the bootstrap (Koehn 2004), as by default in sacreBLEU
INTERVAL_RESAMPLES = RESAMPLES  # of the interval of one score


SPACED = "13a"  # sacreBLEU's default tokenizer, which splits at spaces and punctuation
# target language -> sacreBLEU's tokenizer for it, and the one that stands in where the first is not installed
TOKENIZERS = {
    **dict.fromkeys(("zh", "yue", "wuu", "gan", "hak", "lzh"), ("zh", "zh")),
    **dict.fromkeys(("th", "lo", "km", "my", "bo", "dz", "shn"), ("char", "char")),
    "ja": ("ja-mecab", "char"),
    "ko": ("ko-mecab", SPACED),
}


@cache
def tokenizer_for(target: str | None) -> str:
    """The tokenizer of BLEU for a target language: 13a takes a sentence without spaces for one word."""
    wanted, otherwise = TOKENIZERS.get(base_language(target or ""), (SPACED, SPACED))
    if wanted == otherwise:
        return wanted
    import sacrebleu  # takes a quarter of a second

    try:
        sacrebleu.BLEU(tokenize=wanted)
    except UNUSABLE:
        return otherwise
    return wanted


@dataclass(frozen=True, slots=True)
class TextMetrics:
    """sacreBLEU's metrics of detokenised texts. tokenize: of BLEU, a name of sacreBLEU such as 13a, zh or none; ter:
    the translation edit rate, too."""

    tokenize: str = SPACED
    ter: bool = False

    def build(self) -> dict[str, Any]:
        """Name of the score -> a fresh metric. TrainingError if a tokenizer's package or model is missing."""
        import sacrebleu

        try:  # force: without sacreBLEU's warning of tokenised texts, three lines at each score
            bleu = sacrebleu.BLEU(tokenize=self.tokenize, force=True)
            lowercased = sacrebleu.BLEU(tokenize=self.tokenize, force=True, lowercase=True)
        except UNUSABLE as error:
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
    fewer than `FEW_SENTENCES`, and not where all samples score alike, as of sentences that are all right, for then
    the bootstrap knows no interval."""
    text_metrics = text_metrics or TextMetrics()
    metrics = text_metrics.build()
    exact = sum(output in alternatives for output, *alternatives in zip(outputs, *references, strict=True))
    few = len(outputs) < FEW_SENTENCES
    width = _bleu_interval(outputs, references, text_metrics) if few else 0.0
    interval = {"bleu_interval": width} if width >= LEAST_INTERVAL else {}
    return {
        **{name: round(metric.corpus_score(outputs, references).score, 2) for name, metric in metrics.items()},
        **{signature_key(name): str(metric.get_signature()) for name, metric in metrics.items()},
        **interval,
        "exact_match": round(exact / len(outputs), 4),
    }


def _bleu_interval(outputs: Sequence[str], references: Sequence[Sequence[str]], text_metrics: TextMetrics) -> float:
    score = text_metrics.build()["bleu"].corpus_score(outputs, references, n_bootstrap=INTERVAL_RESAMPLES)
    return round(float(score._ci), 2)
