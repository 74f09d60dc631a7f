"""The import as a whole: folder -> configuration, weights, tokenizers, model card -> checkpoint."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from models import checkpoint as checkpoints
from models.checkpoint import MOST_TOKENS, CheckpointConfig
from models.networks import loading
from models.networks.transformer import Transformer
from models.tokenizer import MarianTokenizer
from training.importers.marian.generation_config import GenerationSettings, read_generation_settings
from training.importers.marian.hub_folder import JsonObject, marian_folder
from training.importers.marian.marian_languages import Languages, choose_languages
from training.importers.marian.tokenizer_conversion import TOKENIZER_CONFIG_FILE, tokenizers_of
from training.importers.marian.weight_conversion import complete_config, convert_network
from training.output_folder import check_output_folder, claim_output_folder, save_weights, staging_folder

ORIGINAL_CARD_FILE = "README.original.md"
FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*\n", re.DOTALL)
CARD_METRICS = {"bleu": "bleu", "chr-f": "chrf", "chrf": "chrf", "comet": "comet"}


@dataclass(frozen=True, slots=True)
class OriginalCard:
    """What the model's own card says. scores: of each test set."""

    text: str
    licence: str | None
    scores: Mapping[str, Mapping[str, float]]


def parse_original_card(text: str) -> OriginalCard:
    return OriginalCard(text, _card_licence(text), dict(_card_scores(text.splitlines())))


def _card_licence(text: str) -> str | None:
    front = FRONT_MATTER.match(text)
    try:
        values = yaml.safe_load(front[1]) if front else None
    except yaml.YAMLError:
        return None
    licence = values.get("license") if isinstance(values, dict) else None
    return ", ".join(map(str, licence if isinstance(licence, list) else [licence])) if licence else None


def _card_scores(lines: list[str]) -> Iterator[tuple[str, dict[str, float]]]:
    """Of every table that has a column BLEU or chrF and one that names the test set."""
    heads: list[str] | None = None
    for line in lines:
        if not line.lstrip().startswith("|"):
            heads = None
            continue
        cells = [cell.strip(" \t*`") for cell in line.strip().strip("|").split("|")]
        if heads is None:
            heads = [cell.lower() for cell in cells]
            continue
        row = dict(zip(heads, cells, strict=False))
        scores = {
            CARD_METRICS[head]: number for head, cell in row.items() if head in CARD_METRICS if (number := _score(cell))
        }
        name = " ".join(row[head] for head in ("langpair", "testset") if row.get(head))
        if name and scores:
            yield name, scores


def _score(cell: str) -> float | None:
    return float(cell) if re.fullmatch(r"\d+(\.\d+)?", cell) else None


def imported_model_card(
    name: str,
    languages: Languages,
    generation: GenerationSettings,
    own: OriginalCard,
    config: JsonObject,
    parameters: int,
) -> str:
    rows = [f"| {test} | {', '.join(f'{k} {v:g}' for k, v in values.items())} |" for test, values in own.scores.items()]
    table = (
        "\n".join(["| measured on | scores |", "|---|---|", *rows]) if rows else "The original card gives no scores."
    )
    prefix = (
        f"Every source is read behind the language token `{languages.prefix}`, unless it starts with another itself."
        if languages.prefix
        else ""
    )
    not_applied = f"Not applied: {', '.join(generation.not_applied)}." if generation.not_applied else ""
    return f"""# {name}

Translates {languages.source} to {languages.target}, sentence by sentence. {prefix}

## Origin

- Imported from: {name}
- Licence: {own.licence or "the original card names none; ask its makers before you pass the model on"}
- Parameters: {parameters:,}
- The original card{", `README.original.md`, is kept beside this one" if own.text else " was not in the folder"}.

## Scores

As the original card gives them; `python -m training evaluate` measures.

{table}

## Decoding

The folder asks for: `{json.dumps(dict(generation.recorded), ensure_ascii=False)}`. {not_applied}

## Configuration

```json
{json.dumps(dict(config), ensure_ascii=False, indent=1)}
```
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The languages and the language token that the user chooses; None: as the folder has them."""

    source: str | None = None
    target: str | None = None
    prefix: str | None = None


def import_marian(given: str, out: Path, choice: Choice) -> dict[str, object]:
    """Makes a checkpoint of a folder, or of the model of that name on the hub; a summary. TrainingError names the first
    thing that cannot be imported."""
    started = time.monotonic()
    check_output_folder(out, resume=False)
    folder = marian_folder(given)
    config = complete_config(folder.object("config.json"))
    options = folder.object(TOKENIZER_CONFIG_FILE, required=False)
    network = convert_network(config, folder.tensors())
    shape = network.config
    tokenizers = tokenizers_of(folder, (shape.source_vocabulary, shape.target_vocabulary))
    settings = folder.object("generation_config.json", required=False)
    generation = read_generation_settings(config, settings, shape.pad, shape.target_vocabulary)
    language_tokens = tokenizers["source"].languages
    languages = choose_languages(choice.source, choice.target, choice.prefix, options, config, language_tokens)
    original = parse_original_card(folder.card())
    metadata = _metadata(config, network, tokenizers["source"], generation, languages)
    metadata = replace(
        metadata,
        training={
            "imported_from": folder.name,
            "licence": original.licence,
            "generation": dict(generation.recorded),
            "marian": config,
        },
        scores={f"published: {name}": dict(values) for name, values in original.scores.items()},
    )
    card = imported_model_card(folder.name, languages, generation, original, config, metadata.parameters)
    with claim_output_folder(out, resume=False), staging_folder(out) as staging:
        save_weights(network, staging, out)
        (staging / "README.md").write_text(card, encoding="utf-8")
        if original.text:
            (staging / ORIGINAL_CARD_FILE).write_text(original.text, encoding="utf-8")
        checkpoints.write(staging, out, metadata, tokenizers)
    return {
        "model": folder.name,
        "out": str(out),
        **languages._asdict(),
        "parameters": metadata.parameters,
        "seconds": round(time.monotonic() - started, 2),
    }


def _metadata(
    config: JsonObject,
    network: Transformer,
    source_tokenizer: MarianTokenizer,
    generation: GenerationSettings,
    languages: Languages,
) -> CheckpointConfig:
    """Without its origin and its published scores."""
    eos, prefix = source_tokenizer.special.eos, languages.prefix
    assert eos is not None
    return CheckpointConfig(
        kind="translator",
        architecture=loading.architecture("transformer", network.config),
        source_language=languages.source,
        target_language=languages.target,
        source_prefix=() if prefix is None else (source_tokenizer.vocabulary.index(prefix),),
        source_suffix=(eos,),
        target_prefix=(generation.start,),
        eos=generation.eos,
        suppressed=generation.suppressed,
        renormalise=generation.renormalise,
        forced_end=generation.forced_end,
        max_source_tokens=min(config["max_position_embeddings"], MOST_TOKENS),
        max_new_tokens=min(generation.max_new_tokens, MOST_TOKENS),
        parameters=sum(parameter.numel() for parameter in network.parameters()),
    )
