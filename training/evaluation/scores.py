"""Scores of a checkpoint on pairs or a text: BLEU, chrF, and the nats of what was to be predicted."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import sacrebleu
import torch
from torch import Tensor
from torch.nn import functional as F

from models.checkpoint import Checkpoint
from models.networks.recurrent import RecurrentLanguageModel
from models.networks.transformer import Transformer
from training.data.batches import batches_by_length, pair_batch
from training.data.corpus_loading import Columns, read_pairs, read_text
from training.data.sentence_pairs import Pairs
from training.errors import TrainingError, pluralize
from training.evaluation.ensemble import Ensemble
from training.evaluation.model_outputs import load_model, translate
from training.kernels.training_backend import LyricistBackend

TOKENS_PER_BATCH = 4096
FEW_SENTENCES = 500  # below, a BLEU is stated with its interval
RESAMPLES = 1000  # of the bootstrap (Koehn 2004), as by default in sacreBLEU
IGNORED_TARGET = -100  # ignored by cross-entropy

Score = dict[str, float | int | str]
Scores = dict[str, Score]
"""Name of a text -> what was measured on it."""


def text_scores(outputs: Sequence[str], references: Sequence[str]) -> Score:
    """sacreBLEU's BLEU (13a), cased and lowercased, and chrF, with their signatures. bleu_interval: half the width of
    BLEU's 95 % confidence interval, by sacreBLEU's bootstrap; only for fewer than `FEW_SENTENCES`."""
    metrics = (
        ("bleu", "signature", sacrebleu.BLEU()),
        ("bleu_lowercased", "signature_lowercased", sacrebleu.BLEU(lowercase=True)),
        ("chrf", "signature_chrf", sacrebleu.CHRF()),
    )
    exact = sum(a == b for a, b in zip(outputs, references, strict=True))
    return {
        **{name: round(metric.corpus_score(outputs, [references]).score, 2) for name, _, metric in metrics},
        **{signature: str(metric.get_signature()) for _, signature, metric in metrics},
        **({"bleu_interval": _bleu_interval(outputs, references)} if len(references) < FEW_SENTENCES else {}),
        "exact_match": round(exact / len(references), 4),
    }


def _bleu_interval(outputs: Sequence[str], references: Sequence[str]) -> float:
    score = sacrebleu.BLEU().corpus_score(outputs, [references], n_bootstrap=RESAMPLES)
    return round(float(score._ci), 2)


def score_summary(score: Score) -> str:
    """The main score in words: "BLEU 17.3 ± 7.4 (95 %) on 40 sentences"."""
    if "bleu" in score:
        spread = f" ± {score['bleu_interval']:.1f} (95 %)" if "bleu_interval" in score else ""
        return f"BLEU {score['bleu']:.2f}{spread} on {pluralize(int(score['sentences']), 'sentence')}"
    return f"{score['nats_per_character']:.3f} nats per character"


@torch.inference_mode()
def reference_nats(checkpoint: Checkpoint, network: Transformer | Ensemble, pairs: Pairs) -> float:
    """Nats per reference token, end tokens included, with teacher forcing."""
    end = () if checkpoint.config.eos is None else (checkpoint.config.eos,)
    sources = [checkpoint.source_ids(text) for text in pairs.sources]
    targets = [(*checkpoint.target_ids(text), *end) for text in pairs.targets]
    lengths = [(len(s), len(t) - 1) for s, t in zip(sources, targets, strict=True)]
    pad = network.pad if isinstance(network, Ensemble) else network.config.pad
    total, tokens = 0.0, 0
    for group in batches_by_length(lengths, TOKENS_PER_BATCH, seed=0, epoch=0):
        batch = pair_batch([sources[i] for i in group], [targets[i] for i in group], pad)
        source, inputs, outputs = (part.to(network.device) for part in batch)
        ends = torch.tensor([[lengths[i][1]] for i in group], device=outputs.device)
        real = torch.arange(outputs.shape[1], device=outputs.device) < ends
        logits = network.project(network.features(source, inputs)[real]).float()
        total += F.cross_entropy(logits, outputs[real], reduction="sum").item()
        tokens += int(real.sum())
    return total / tokens


@torch.inference_mode()
def negative_log_likelihood(
    network: RecurrentLanguageModel, text: Tensor, lanes: int = 1, lead: int = 0, window: int = 4096
) -> tuple[float, int]:
    """Nats of a text [N >= 2], and the number of characters counted: all but the first. The text is cut into `lanes`
    read in parallel, `window` characters at a time. Each lane but the first starts `lead` characters early from a zero
    state, which loses only context further back, and counts from its own part on."""
    text, lead = text.to(network.device), lead if lanes > 1 else 0
    per_lane = -(-(len(text) - 1 - lead) // lanes)
    missing = lead + per_lane * lanes + 1 - len(text)
    cut = F.pad(text, (0, missing), value=IGNORED_TARGET).unfold(0, lead + per_lane + 1, per_lane)
    inputs, outputs = cut[:, :-1].clamp(min=0), cut[:, 1:].clone()
    outputs[1:, :lead] = IGNORED_TARGET
    scan, state, total, steps = LyricistBackend(network).scan, None, 0.0, -(-window // lanes)
    for i in range(0, inputs.size(1), steps):
        logits, state = network(inputs[:, i : i + steps], state, scan)
        rows = logits.flatten(0, 1) if lanes > 1 else logits[0].double()
        nats = F.cross_entropy(rows, outputs[:, i : i + steps].flatten(), reduction="none")
        total += nats.double().sum().item()
    return total, len(text) - 1


def perplexity(nats: float) -> float:
    return round(math.exp(min(nats, 700.0)), 4)


def score_translator(
    checkpoint: Checkpoint, network: Transformer | Ensemble, pairs: Pairs, *, beam: int = 1, length_penalty: float = 1.0
) -> Score:
    """`text_scores` of detokenised output, the references' perplexity, and the number of sources over the limit."""
    started = time.monotonic()
    outputs = translate(checkpoint, network, pairs.sources, beam=beam, length_penalty=length_penalty)
    seconds = time.monotonic() - started
    nats = reference_nats(checkpoint, network, pairs)
    most = checkpoint.config.max_source_tokens
    return {
        **text_scores(outputs, pairs.targets),
        "nats_per_token": round(nats, 4),
        "perplexity": perplexity(nats),
        "longer_than_served": sum(len(checkpoint.source_ids(text)) > most for text in pairs.sources),
        "beam": beam,
        **({"length_penalty": length_penalty} if beam > 1 else {}),
        "sentences": len(pairs),
        "seconds": round(seconds, 2),
    }


def score_lyricist(checkpoint: Checkpoint, network: RecurrentLanguageModel, text: str) -> Score:
    """Character-level perplexity of a text, and related scores."""
    tokenizer = checkpoint.tokenizers["target"]
    unknown = set(tokenizer.unknown(text))
    if unknown and tokenizer.special.unknown is None:
        raise TrainingError(f"The model has no character {sorted(unknown)[0]!r}, and no token for unknown ones.")
    if len(text) < 2:
        raise TrainingError("A text of fewer than two characters cannot be scored: the first is given, not predicted.")
    nats, characters = negative_log_likelihood(network, torch.tensor(tokenizer.encode(text)))
    mean = nats / characters
    return {
        "nats_per_character": round(mean, 4),
        "bits_per_character": round(mean / math.log(2), 4),
        "perplexity": perplexity(mean),
        "characters": characters,
        "unknown_characters": sum(text.count(character) for character in unknown),
    }


def evaluate(
    folder: Path,
    *,
    test: str | None,
    corpus: Path | None,
    beam: int | None,
    length_penalty: float | None = None,
    device: torch.device,
    columns: Columns | None = None,
) -> Score:
    """The `evaluate` command: scores a checkpoint on pairs or a text. TrainingError for options of the other kind."""
    checkpoint, network = load_model(folder, device)
    if checkpoint.config.kind == "translator":
        _require_only(f"{folder} is a translator: give --test SOURCE,TARGET", test, {"--corpus": corpus})
        assert test is not None
        config = checkpoint.config
        languages = (config.source_language or "source", config.target_language or "target")
        pairs = read_pairs(test, languages, columns)
        for note in pairs.reported().notes:
            print(f"note: {note}", file=sys.stderr)
        penalty = 1.0 if length_penalty is None else length_penalty
        scores = score_translator(checkpoint, network, pairs, beam=beam or 1, length_penalty=penalty)
        if len(pairs) < FEW_SENTENCES:
            print(f"note: {score_summary(scores)}, fewer than {FEW_SENTENCES}.", file=sys.stderr)
        if count := scores["longer_than_served"]:
            longer = "is longer" if count == 1 else "are longer"
            print(
                f"note: {count:,} of {scores['sentences']:,} sources {longer} than the {config.max_source_tokens:,}"
                " tokens that this model is served with. A server refuses what is translated and counted here.",
                file=sys.stderr,
            )
        return scores
    others = {"--test": test, "--columns": columns, "--beam": beam, "--length-penalty": length_penalty}
    _require_only(f"{folder} is a lyricist: give --corpus FILE", corpus, others)
    assert corpus is not None
    text = read_text(corpus)
    if checkpoint.config.training.get("newline_as_space"):
        text = text.replace("\n", " ").replace("\r", " ")
    return score_lyricist(checkpoint, network, text)


def _require_only(sentence: str, wanted: object, others: Mapping[str, object]) -> None:
    """Raises TrainingError unless `wanted` is set and all others are unset."""
    if given := [option for option, value in others.items() if value is not None]:
        raise TrainingError(f"{sentence} and no {' and no '.join(given)}.")
    if wanted is None:
        raise TrainingError(f"{sentence}.")
