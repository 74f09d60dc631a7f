"""What the numbers of an evaluation are: BLEU and chrF of texts, nats of reference tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sacrebleu
import torch
from torch.nn import functional as F

from models.checkpoint import Checkpoint
from training.batches import by_length, pair_batch
from training.corpora.pairs import Pairs

TOKENS_PER_BATCH = 4096


def text_scores(outputs: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """sacreBLEU's BLEU (13a), cased and lowercased, and chrF, with their signatures."""
    bleu, lowercased, chrf = sacrebleu.BLEU(), sacrebleu.BLEU(lowercase=True), sacrebleu.CHRF()
    scored = {
        "bleu": (bleu, "signature"),
        "bleu_lowercased": (lowercased, "signature_lowercased"),
        "chrf": (chrf, "signature_chrf"),
    }
    found: dict[str, Any] = {}
    for name, (metric, _) in scored.items():
        found[name] = round(metric.corpus_score(outputs, [references]).score, 2)
    for metric, signature in scored.values():
        found[signature] = str(metric.get_signature())
    exact = sum(a == b for a, b in zip(outputs, references, strict=True))
    return {**found, "exact_match": round(exact / len(references), 4)}


@torch.inference_mode()
def reference_nats(checkpoint: Checkpoint, network: Any, pairs: Pairs) -> float:
    """Nats per reference token, end tokens included, each predicted from the reference before it (teacher forcing)."""
    end = () if checkpoint.config.eos is None else (checkpoint.config.eos,)
    sources = [checkpoint.source_ids(text) for text in pairs.sources]
    targets = [(*checkpoint.target_ids(text), *end) for text in pairs.targets]
    lengths = [(len(s), len(t) - 1) for s, t in zip(sources, targets, strict=True)]
    pad, total, tokens = network.config.pad, 0.0, 0
    for group in by_length(lengths, TOKENS_PER_BATCH, seed=0, epoch=0):
        batch = pair_batch([sources[i] for i in group], [targets[i] for i in group], pad)
        source, inputs, outputs = (part.to(network.device) for part in batch)
        real = torch.arange(outputs.shape[1], device=outputs.device) < torch.tensor(
            [[lengths[i][1]] for i in group], device=outputs.device
        )
        logits = network.project(network.features(source, inputs)[real]).float()
        total += F.cross_entropy(logits, outputs[real], reduction="sum").item()
        tokens += int(real.sum())
    return total / tokens


def perplexity(nats: float) -> float:
    return round(math.exp(min(nats, 700.0)), 4)
