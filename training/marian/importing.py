"""The import as a whole: folder -> config, weights, tokenizers -> checkpoint."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models import checkpoint as checkpoints
from models import networks
from models.checkpoint import MOST_TOKENS, CheckpointConfig
from models.tokenizer import MarianTokenizer
from models.transformer import Transformer
from training.marian import card as cards
from training.marian.architecture import whole
from training.marian.folder import MarianFolder
from training.marian.generation import Generation, generation_of
from training.marian.hub import marian_folder
from training.marian.languages import Languages, languages_of
from training.marian.vocabulary import OPTIONS, tokenizers_of
from training.marian.weights import network_of
from training.output import check, claimed, save_weights, staging

ORIGINAL_CARD = "README.original.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the user says of the languages; None: as the folder says."""

    source: str | None = None
    target: str | None = None
    prefix: str | None = None


def import_marian(given: str, out: Path, choice: Choice) -> dict[str, Any]:
    """given: a folder or a name on the hub. What was made, in a few words. TrainingError names what cannot be."""
    started = time.monotonic()
    check(out, resume=False)
    folder = marian_folder(given)
    config, options = whole(folder.object("config.json")), folder.object(OPTIONS, required=False)
    network = network_of(config, folder.tensors())
    shape = network.config
    tokenizers = tokenizers_of(folder, (shape.source_vocabulary, shape.target_vocabulary))
    settings = folder.object("generation_config.json", required=False)
    generation = generation_of(config, settings, shape.pad, shape.target_vocabulary)
    asked = choice.source, choice.target, choice.prefix
    languages = languages_of(*asked, options, config, tokenizers["source"].languages)
    own = cards.original(folder.card())
    made = _config(folder, config, network, tokenizers, generation, languages, own)
    text = cards.card(folder.name, languages, generation, own, config, made.parameters)
    with claimed(out, resume=False):
        _publish(out, made, tokenizers, network, text, own.text)
    return {
        "model": folder.name,
        "out": str(out),
        **languages._asdict(),
        "parameters": made.parameters,
        "seconds": round(time.monotonic() - started, 2),
    }


def _config(
    folder: MarianFolder,
    config: dict[str, Any],
    network: Transformer,
    tokenizers: dict[str, MarianTokenizer],
    generation: Generation,
    languages: Languages,
    own: cards.Original,
) -> CheckpointConfig:
    reader = tokenizers["source"]
    eos = reader.special.eos
    assert eos is not None
    return CheckpointConfig(
        kind="translator",
        architecture=networks.architecture("transformer", network.config),
        source_language=languages.source,
        target_language=languages.target,
        source_prefix=() if languages.prefix is None else (reader.vocabulary.index(languages.prefix),),
        source_suffix=(eos,),
        target_prefix=(generation.start,),
        eos=generation.eos,
        suppressed=generation.suppressed,
        renormalise=generation.renormalise,
        forced_end=generation.forced_end,
        max_source_tokens=min(config["max_position_embeddings"], MOST_TOKENS),
        max_new_tokens=min(generation.max_new_tokens, MOST_TOKENS),
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        training={
            "imported_from": folder.name,
            "licence": own.licence,
            "generation": dict(generation.recorded),
            "marian": config,
        },
        scores={f"published: {name}": dict(values) for name, values in own.scores.items()},
    )


def _publish(
    out: Path,
    config: CheckpointConfig,
    tokenizers: dict[str, MarianTokenizer],
    network: Transformer,
    card: str,
    original: str,
) -> None:
    with staging(out) as folder:
        save_weights(network, folder, out)
        (folder / "README.md").write_text(card, encoding="utf-8")
        if original:
            (folder / ORIGINAL_CARD).write_text(original, encoding="utf-8")
        checkpoints.write(folder, out, config, tokenizers)
