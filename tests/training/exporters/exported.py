"""Small translators with random weights, and what the programs of each form make of their exports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from benchmarks.peers.exported import Program, of_parlance, of_program
from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, CheckpointConfig
from models.networks import loading
from models.networks.transformer import Transformer, TransformerConfig
from models.tokenizer import SentencePieceTokenizer, Tokenizer
from tests.models.tiny import lively
from tests.training.importers.marian.folders import lines
from training.config.run_config import TokenizerConfig
from training.data.tokenizer_training import BOS, EOS, PAD, UNKNOWN, sentencepiece_tokenizer
from training.exporters.export_checkpoint import export_checkpoint
from training.exporters.exportable import Form

LIMIT = 24
TEXTS = ("Guten Morgen.", "Ich möchte bitte ein Bier.", "Wo ist der Bahnhof?", "Das Haus ist groß und alt.", "Ja.")


@cache
def tokenizer(side: str) -> SentencePieceTokenizer:
    """side: de, en, or both for a common vocabulary; the sizes of de and en differ."""
    texts = [*lines("de"), *lines("en")] if side == "both" else list(lines(side))
    config = TokenizerConfig(vocab_size={"de": 190, "en": 170, "both": 200}[side])
    return sentencepiece_tokenizer(texts, config)


def write_random(
    folder: Path, *, seed: int = 0, eos_bias: float = 0.0, rules: dict[str, Any] | None = None, **options: Any
) -> Checkpoint:
    """A checkpoint of 2 + 2 layers. options: of the network; with tied = all it has one vocabulary. rules: of the
    checkpoint. eos_bias: on the end token's logit, with output_bias."""
    one = options.get("tied") == "all"
    tokenizers: dict[str, Tokenizer] = {
        "source": tokenizer("both" if one else "de"),
        "target": tokenizer("both" if one else "en"),
    }
    torch.manual_seed(seed)
    shape = TransformerConfig(
        **{
            "source_vocabulary": tokenizers["source"].size,
            "target_vocabulary": tokenizers["target"].size,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "heads": 4,
            "head_width": 8,
            "d_ff": 48,
            **options,
        }
    )
    network = lively(Transformer(shape).eval())
    with torch.no_grad():  # large enough for outputs that depend on source and position, not on the last token alone
        for name, parameter in network.named_parameters():
            if parameter.dim() == 2:
                parameter.normal_(0.0, 0.3 if "embedding" in name or name == "output.weight" else 0.5)
            elif name.endswith("norm.bias"):
                parameter.mul_(0.2)
        if network.output_bias is not None:
            network.output_bias[EOS] += eos_bias
    return write_network(folder, network, tokenizers, **(rules or {}))


def write_network(folder: Path, network: Any, tokenizers: dict[str, Tokenizer], **rules: Any) -> Checkpoint:
    draft = CheckpointConfig(
        **{
            "kind": "translator",
            "architecture": loading.architecture("transformer", network.config),
            "source_language": "de",
            "target_language": "en",
            "source_suffix": (EOS,),
            "target_prefix": (BOS,),
            "eos": EOS,
            "suppressed": (PAD, UNKNOWN, BOS),
            "max_source_tokens": 64,
            "max_new_tokens": 80,
            **rules,
        }
    )
    staging = folder.parent / f"{folder.name}-staging"
    staging.mkdir(parents=True)
    loading.save_weights(network, staging / checkpoints.WEIGHTS)
    checkpoints.write(staging, folder, draft, tokenizers)
    return checkpoints.read(folder)


def answers(
    checkpoint: Checkpoint, form: Form, program: Program, out: Path, texts: Sequence[str] = TEXTS
) -> tuple[list[Any], list[Any]]:
    """Our tokens and the program's, greedy and with a beam of 4."""
    export_checkpoint(checkpoint.folder, form, out)
    sources = [checkpoint.source_ids(text) for text in texts]
    ours = [of_parlance(checkpoint, sources, beam, LIMIT) for beam in (1, 4)]
    assert len(set(ours[0])) > 2  # a network that answers all alike shows no fault
    assert ours[0] != ours[1]
    return ours, [of_program(program, out, checkpoint, sources, beam, LIMIT) for beam in (1, 4)]
