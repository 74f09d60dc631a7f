"""The model of *The Random Transformer* as a checkpoint, to walk through with its published numbers.

python -m examples.random_transformer checkpoints/random-transformer

The tutorial (Omar Sanseviero, 2024) works one encoder layer by hand on "hello world": two heads of width 3, tokens of
width 4, scores divided by 30. Up to the first norm the walkthrough shows its very numbers; it drew the rest at random,
as is done here, and a model that nobody trained translates nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointConfig
from models.networks import loading
from models.networks.transformer import Transformer, TransformerConfig
from models.tokenizer import SpecialTokens, VocabularyTokenizer

PUBLISHED = Path(__file__).parents[1] / "tests" / "golden" / "random_transformer.json"
SOURCE, TARGET = ("hello", "world", "<pad>"), ("hola", "mundo", "<pad>", "<s>", "</s>")
PAD, BOS, EOS = 2, 3, 4
SCALE = 1 / 30  # by which the tutorial's later figures are; usual would be 1/sqrt(3)
LANGUAGES = "en-x-tutorial", "es-x-tutorial"  # so that nobody's English and Spanish comes here
LONGEST = 16  # tokens


def published() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    return found


def network(scale: float = SCALE) -> Transformer:
    """Its two tokens, and its weights as far as they are published; the others are drawn with a fixed seed."""
    torch.manual_seed(0)
    made = Transformer(
        TransformerConfig(
            source_vocabulary=len(SOURCE),
            target_vocabulary=len(TARGET),
            pad=PAD,
            d_model=4,
            encoder_layers=1,
            decoder_layers=1,
            heads=2,
            head_width=3,
            d_ff=8,
            attention_bias=False,
            attention_scale=scale,
            norm_epsilon=1e-12,
            scale_embedding=False,
        )
    )
    made.double().eval()
    numbers, attention = published(), made.encoder[0].attention
    heads = [{name: _tensor(values) for name, values in numbers[head].items()} for head in ("head1", "head2")]
    with torch.no_grad():
        attention.projection.weight.copy_(torch.cat([head[n].T for n in ("W_Q", "W_K", "W_V") for head in heads]))
        attention.output.weight.copy_(_tensor(numbers["W_O"]).T)
        made.source_embedding.weight[:2] = _tensor(numbers["x"]) - made.position_vectors(2)[:2]
    return made


def _tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def write(folder: Path) -> None:
    """FileExistsError where something is already."""
    if folder.exists():
        raise FileExistsError(folder)
    staging = folder.with_name(f".{folder.name}")  # of "." and "..", which are there, there is none
    made = network().float()
    config = CheckpointConfig(
        kind="translator",
        architecture=loading.architecture("transformer", made.config),
        source_language=LANGUAGES[0],
        target_language=LANGUAGES[1],
        target_prefix=(BOS,),
        eos=EOS,
        suppressed=(PAD, BOS),
        max_source_tokens=LONGEST,
        max_new_tokens=LONGEST,
        parameters=sum(each.numel() for each in made.parameters()),
    )
    staging.mkdir(parents=True)
    loading.save_weights(made, staging / checkpoints.WEIGHTS)
    reader = VocabularyTokenizer("word", SOURCE, SpecialTokens(PAD))
    writer = VocabularyTokenizer("word", TARGET, SpecialTokens(PAD, None, BOS, EOS))
    checkpoints.write(staging, folder, config, {"source": reader, "target": writer})
    shutil.rmtree(staging)


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the checkpoint's folder, which must not be there yet")
    folder = parser.parse_args(given).folder
    try:
        write(folder)
    except OSError as error:
        print(f"{folder} cannot be written: {error.strerror or 'it is there already.'}", file=sys.stderr)
        raise SystemExit(2) from None
    print(f'{folder} is written: serve it, and walk through "hello world".')


if __name__ == "__main__":
    main()
