"""The import as a whole: folder -> configuration, weights, tokenizers, model card -> checkpoint."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models import checkpoint as checkpoints
from models.checkpoint import MOST_TOKENS, CheckpointConfig
from models.networks import loading
from models.networks.transformer import Transformer
from models.tokenizer import MarianTokenizer
from training.importers.marian.generation_config import GenerationSettings, read_generation_settings
from training.importers.marian.hub_folder import MarianFolder, marian_folder
from training.importers.marian.marian_languages import Languages, choose_languages
from training.importers.marian.tokenizer_conversion import TOKENIZER_CONFIG_FILE, tokenizers_of
from training.importers.marian.weight_conversion import complete_config, convert_network
from training.output_folder import check_output_folder, claim_output_folder, save_weights, staging_folder

FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*\n", re.DOTALL)
CARD_METRICS = {"bleu": "bleu", "chr-f": "chrf", "chrf": "chrf", "comet": "comet"}


@dataclass(frozen=True, slots=True)
class OriginalCard:
    """What the model's own card says. scores: of each test set."""

    text: str
    licence: str | None
    scores: Mapping[str, Mapping[str, float]]


def parse_original_card(text: str) -> OriginalCard:
    front = FRONT_MATTER.match(text)
    licence = re.search(r"^license:\s*['\"]?([^\s'\"#]+)", front[1], re.MULTILINE) if front else None
    return OriginalCard(text, licence[1] if licence else None, dict(_card_scores(text.splitlines())))


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
        found = {
            CARD_METRICS[head]: number for head, cell in row.items() if head in CARD_METRICS if (number := _score(cell))
        }
        name = " ".join(row[head] for head in ("langpair", "testset") if row.get(head))
        if name and found:
            yield name, found


def _score(cell: str) -> float | None:
    return float(cell) if re.fullmatch(r"\d+(\.\d+)?", cell) else None


def imported_model_card(
    name: str,
    languages: Languages,
    generation: GenerationSettings,
    own: OriginalCard,
    config: Mapping[str, Any],
    parameters: int,
) -> str:
    rows = [f"| {test} | {', '.join(f'{k} {v:g}' for k, v in values.items())} |" for test, values in own.scores.items()]
    table = (
        "\n".join(["| measured on | scores |", "|---|---|", *rows]) if rows else "The original card gives no scores."
    )
    asked = f"Every source is read behind the language token `{languages.prefix}`, " if languages.prefix else ""
    asked += "unless it starts with another itself." if languages.prefix else ""
    left_out = f"Not applied: {', '.join(generation.not_applied)}." if generation.not_applied else ""
    return f"""# {name}

Translates {languages.source} to {languages.target}, sentence by sentence. {asked}

## Origin

- Imported from: {name}
- Licence: {own.licence or "the original card names none; ask its makers before you pass the model on"}
- Parameters: {parameters:,}
- The original card{", `README.original.md`, is kept beside this one" if own.text else " was not in the folder"}.

## Scores

As the original card gives them; `python -m training evaluate` measures.

{table}

## Decoding

The folder asks for: `{json.dumps(dict(generation.recorded), ensure_ascii=False)}`. {left_out}

## Configuration

```json
{json.dumps(dict(config), ensure_ascii=False, indent=1)}
```
"""


ORIGINAL_CARD_FILE = "README.original.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the user says of the languages; None: as the folder says."""

    source: str | None = None
    target: str | None = None
    prefix: str | None = None


def import_marian(given: str, out: Path, choice: Choice) -> dict[str, Any]:
    """given: a folder or a name on the hub. What was made, in a few words. TrainingError names what cannot be."""
    started = time.monotonic()
    check_output_folder(out, resume=False)
    folder = marian_folder(given)
    config, options = (
        complete_config(folder.object("config.json")),
        folder.object(TOKENIZER_CONFIG_FILE, required=False),
    )
    network = convert_network(config, folder.tensors())
    shape = network.config
    tokenizers = tokenizers_of(folder, (shape.source_vocabulary, shape.target_vocabulary))
    settings = folder.object("generation_config.json", required=False)
    generation = read_generation_settings(config, settings, shape.pad, shape.target_vocabulary)
    asked = choice.source, choice.target, choice.prefix
    languages = choose_languages(*asked, options, config, tokenizers["source"].languages)
    own = parse_original_card(folder.card())
    made = _checkpoint_config(folder, config, network, tokenizers, generation, languages, own)
    text = imported_model_card(folder.name, languages, generation, own, config, made.parameters)
    with claim_output_folder(out, resume=False):
        _publish(out, made, tokenizers, network, text, own.text)
    return {
        "model": folder.name,
        "out": str(out),
        **languages._asdict(),
        "parameters": made.parameters,
        "seconds": round(time.monotonic() - started, 2),
    }


def _checkpoint_config(
    folder: MarianFolder,
    config: dict[str, Any],
    network: Transformer,
    tokenizers: dict[str, MarianTokenizer],
    generation: GenerationSettings,
    languages: Languages,
    own: OriginalCard,
) -> CheckpointConfig:
    reader = tokenizers["source"]
    eos = reader.special.eos
    assert eos is not None
    return CheckpointConfig(
        kind="translator",
        architecture=loading.architecture("transformer", network.config),
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
    with staging_folder(out) as folder:
        save_weights(network, folder, out)
        (folder / "README.md").write_text(card, encoding="utf-8")
        if original:
            (folder / ORIGINAL_CARD_FILE).write_text(original, encoding="utf-8")
        checkpoints.write(folder, out, config, tokenizers)
