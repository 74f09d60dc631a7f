"""Scores of a model: of its texts with sacreBLEU's metrics, of its probabilities in nats."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from models.backends.select import RefusedError
from models.checkpoint import Checkpoint
from models.interface import Precision
from models.networks.recurrent import RecurrentLanguageModel
from models.networks.transformer import Transformer
from training.data.batches import batches_by_length, pair_batch
from training.data.sentence_pairs import Pairs
from training.errors import TrainingError, pluralize
from training.evaluation.ensemble import Ensemble
from training.evaluation.model_outputs import Rerank, default_precision, translate
from training.evaluation.text_metrics import TextMetrics, text_scores, tokenizer_for
from training.kernels.training_backend import LyricistBackend

TOKENS_PER_BATCH = 4096
TOKENS_PROJECTED = 512  # at once: the logits of a batch over 60,000 pieces would take 2 GB
IGNORED_TARGET = -100  # ignored by cross-entropy

Score = dict[str, float | int | str]
Scores = dict[str, Score]
"""Name of a text -> what was measured on it."""


def score_summary(score: Score) -> str:
    """The main score in words: "BLEU 17.3 ± 7.4 (95 %) on 40 sentences"."""
    if "bleu" in score:
        spread = f" ± {score['bleu_interval']:.1f} (95 %)" if "bleu_interval" in score else ""
        return f"BLEU {score['bleu']:.2f}{spread} on {pluralize(int(score['sentences']), 'sentence')}"
    shown = f", perplexity {score['perplexity']:.2f}" if "perplexity" in score else ""
    return f"{score['nats_per_character']:.3f} nats per character{shown}"


def reference_nats(checkpoint: Checkpoint, network: Transformer | Ensemble, pairs: Pairs) -> float:
    """Nats per reference token, end tokens included, with teacher forcing."""
    log_probabilities, lengths = target_log_probabilities(checkpoint, network, pairs.sources, pairs.targets)
    return -float(log_probabilities.sum()) / int(lengths.sum())


@torch.inference_mode()
def target_log_probabilities(
    checkpoint: Checkpoint, network: Transformer | Ensemble, sources: Sequence[str], targets: Sequence[str]
) -> tuple[Tensor, Tensor]:
    """log p(target | source) of N pairs of texts, with teacher forcing: natural logarithms [N] in float64, and the
    target tokens of each [N], which both count the end token."""
    end = () if checkpoint.config.eos is None else (checkpoint.config.eos,)
    source_ids = [checkpoint.source_ids(text) for text in sources]
    target_ids = [(*checkpoint.target_ids(text), *end) for text in targets]
    sizes = [(len(s), len(t) - 1) for s, t in zip(source_ids, target_ids, strict=True)]
    pad = network.pad if isinstance(network, Ensemble) else network.config.pad
    total = torch.zeros(len(sizes), dtype=torch.float64)
    for group in batches_by_length(sizes, TOKENS_PER_BATCH, seed=0, epoch=0) if sizes else ():
        batch = pair_batch([source_ids[i] for i in group], [target_ids[i] for i in group], pad)
        source, inputs, outputs = (part.to(network.device) for part in batch)
        ends = torch.tensor([[sizes[i][1]] for i in group], device=outputs.device)
        real = torch.arange(outputs.shape[1], device=outputs.device) < ends
        features, tokens = network.features(source, inputs)[real], outputs[real]
        parts = zip(torch.split(features, TOKENS_PROJECTED), torch.split(tokens, TOKENS_PROJECTED), strict=True)
        nats = torch.zeros(outputs.shape, dtype=torch.float64, device=outputs.device)
        nats[real] = torch.cat(
            [F.cross_entropy(network.project(part).float(), own, reduction="none").double() for part, own in parts]
        )
        total[list(group)] = -nats.sum(dim=1).cpu()
    return total, torch.tensor([length for _, length in sizes])


@torch.inference_mode()
def negative_log_likelihood(
    network: RecurrentLanguageModel,
    text: Tensor,
    lanes: int = 1,
    lead: int = 0,
    window: int = 4096,
    untaught: int | None = None,
) -> tuple[float, int]:
    """Nats of a text [N >= 2], and the number of characters counted: all but the first and `untaught` ones. The text is
    cut into `lanes` read in parallel, `window` characters at a time. Each lane but the first starts `lead` characters
    early from a zero state, which loses only context further back, and counts from its own part on."""
    text, lead = text.to(network.device), lead if lanes > 1 else 0
    per_lane = -(-(len(text) - 1 - lead) // lanes)
    missing = lead + per_lane * lanes + 1 - len(text)
    cut = F.pad(text, (0, missing), value=IGNORED_TARGET).unfold(0, lead + per_lane + 1, per_lane)
    inputs, outputs = cut[:, :-1].clamp(min=0), taught(cut[:, 1:].clone(), untaught)
    outputs[1:, :lead] = IGNORED_TARGET
    scan, state, total, steps = LyricistBackend(network).scan, None, 0.0, -(-window // lanes)
    for i in range(0, inputs.size(1), steps):
        logits, state = network(inputs[:, i : i + steps], state, scan)
        rows = logits.flatten(0, 1) if lanes > 1 else logits[0].double()
        nats = F.cross_entropy(rows, outputs[:, i : i + steps].flatten(), reduction="none")
        total += nats.double().sum().item()
    return total, int((taught(text[1:], untaught) != IGNORED_TARGET).sum())


def taught(targets: Tensor, untaught: int | None) -> Tensor:
    """The targets, of which `untaught` ones are ignored."""
    return targets if untaught is None else targets.masked_fill(targets == untaught, IGNORED_TARGET)


def perplexity(nats: float) -> float:
    return round(math.exp(min(nats, 700.0)), 4)


class Search(NamedTuple):
    """How translations are searched for. beam 1 is greedy; the length penalty is that of `DecodingOptions`. precision:
    None for that of the device. rerank: as of `hypotheses`."""

    beam: int = 1
    length_penalty: float = 1.0
    precision: Precision | None = None
    rerank: Rerank | None = None


def score_translator(
    checkpoint: Checkpoint, network: Transformer | Ensemble, pairs: Pairs, *, beam: int = 1, length_penalty: float = 1.0
) -> Score:
    """The scores of `translate_and_score`."""
    return translate_and_score(checkpoint, network, pairs, [pairs.targets], Search(beam, length_penalty))[1]


def translate_and_score(
    checkpoint: Checkpoint,
    network: Transformer | Ensemble,
    pairs: Pairs,
    references: Sequence[Sequence[str]],
    search: Search,
    text_metrics: TextMetrics | None = None,
    progress: Callable[[int], object] | None = None,
) -> tuple[list[str], Score]:
    """The detokenised translations of the sources and their `text_scores`, by default with the tokenizer for the target
    language; the perplexity of the pairs' targets, and the number of sources over the limit. TrainingError for a
    precision that the device does not support."""
    started, precision = time.monotonic(), search.precision or default_precision(network.device)
    try:
        options = search._replace(precision=precision)._asdict()
        outputs = translate(checkpoint, network, pairs.sources, progress=progress, **options)
    except RefusedError as error:
        raise TrainingError(f"{str(error).rstrip('.')}.") from error
    seconds = time.monotonic() - started
    target = checkpoint.config.target_language or pairs.target_language
    nats = reference_nats(checkpoint, network, pairs)
    most = checkpoint.config.max_source_tokens
    return outputs, {
        **text_scores(outputs, references, text_metrics or TextMetrics(tokenizer_for(target))),
        "nats_per_token": round(nats, 4),
        "perplexity": perplexity(nats),
        "longer_than_served": sum(len(checkpoint.source_ids(text)) > most for text in pairs.sources),
        "beam": search.beam,
        **({"length_penalty": search.length_penalty} if search.beam > 1 else {}),
        **({"precision": precision} if precision != "fp32" else {}),
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
