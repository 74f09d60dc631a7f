"""Converts a Marian folder: configuration, weights, tokenizers and model card -> checkpoint."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from models import checkpoint as checkpoints
from models.checkpoint import MOST_TOKENS, CheckpointConfig, LanguagePair
from models.child_process import limited
from models.imported_folder import CARDS, IMPORTED_FROM, ORIGINAL_CARD, REVISION
from models.model_card import CARD, card_licence
from models.model_names import parse_model_name
from models.networks import loading
from models.networks.transformer import Transformer
from models.tokenizer import Tokenizer
from training.errors import TrainingError
from training.importers.import_progress import ConsoleProgress, ImportProgress
from training.importers.marian.hub_folder import (
    ALLOCATORS,
    GenerationSettings,
    JsonObject,
    MarianFolder,
    first_line,
    read_generation_settings,
)
from training.importers.marian.marian_languages import Languages, language_pairs
from training.importers.marian.tokenizer_conversion import TOKENIZER_CONFIG_FILE, tokenizers_of
from training.importers.marian.weight_conversion import NORM_OF_TYPE, complete_config, convert_network
from training.output_folder import check_output_folder, claim_output_folder, save_weights, staging_folder
from training.report.card_writer import front_matter

MOST_BYTES = 600_000_000  # that an import may allocate beside its weights; a vocabulary of 65,000 pieces takes a tenth
OF_WEIGHTS = 6  # times their file: read, converted to fp32, written, and read again
MOST_CPU_S = 30  # and a second for each CPU_BYTES of weights
CPU_BYTES = 20_000_000
MOST_MESSAGE = 1000  # characters of an error, which may quote a file
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e]+")
CARD_METRICS = {"bleu": "bleu", "chr-f": "chrf", "chrf": "chrf", "comet": "comet"}
NUMBER = re.compile(r"\d{1,3}(\.\d{1,9})?")
MOST_SCORES, MOST_NAME = 2000, 200  # of a card; a multilingual model of OPUS-MT has hundreds of test sets
PUBLISHED = "published: "  # before the name of a score that the original card gives


def card_scores(card: str) -> Iterator[tuple[str, dict[str, float]]]:
    """(test set, scores) of every table with a column BLEU or chrF and a column for the test set."""
    heads: list[str] = []
    for line in card.splitlines():
        if not line.lstrip().startswith("|"):
            heads = []
            continue
        cells = [cell.strip(" \t*`") for cell in line.strip().strip("|").split("|")]
        if not heads:
            heads = [cell.lower() for cell in cells]
            continue
        row = dict(zip(heads, cells, strict=False))
        scores = {
            CARD_METRICS[head]: float(cell)
            for head, cell in row.items()
            if head in CARD_METRICS and NUMBER.fullmatch(cell) and float(cell)
        }
        name = " ".join(row[head] for head in ("langpair", "testset") if row.get(head))[:MOST_NAME]
        if name and scores:
            yield name, scores


def imported_model_card(
    metadata: CheckpointConfig,
    languages: Sequence[Languages],
    generation: GenerationSettings,
    original: str,
    scores: Mapping[str, Mapping[str, float]],
) -> str:
    """The card of an imported model. original: the model's own card, or "". scores: by test set, from that card."""
    origin = metadata.training
    rows = [f"| {test} | {', '.join(f'{k} {v:g}' for k, v in values.items())} |" for test, values in scores.items()]
    table = "\n".join(["| measured on | scores |", "|---|---|", *rows])
    tokens = [f"`{token}`" for token in dict.fromkeys(pair.prefix for pair in languages) if token]
    behind = "the language token" if len(tokens) == 1 else "the language token of its target,"
    commit = f" at commit {origin['revision']}" if origin["revision"] else ""
    token = f"Every source is read behind {behind} {', '.join(tokens)}, unless it starts with another itself."
    pairs = ", ".join(f"{pair.source} to {pair.target}" for pair in languages)
    not_applied = f"Not applied: {', '.join(generation.not_applied)}." if generation.not_applied else ""
    codes = dict.fromkeys(code for pair in languages for code in (pair.source, pair.target))
    front = front_matter([origin["licence"]] if origin["licence"] else [], list(codes), "translation")
    return f"""{front}

# {origin["imported_from"]}

Translates {pairs}, sentence by sentence. {token if tokens else ""}

## Origin

- Imported from: {origin["imported_from"]}{commit}
- Licence: {origin["licence"] or "the original card names none; ask its makers before you pass the model on"}
- Parameters: {metadata.parameters:,}
- The original card{", `README.original.md`, is kept beside this one" if original else " was not in the folder"}.

## Scores

As the original card gives them; `python -m training evaluate` measures.

{table if rows else "The original card gives no scores."}

## Decoding

The folder asks for: `{json.dumps(origin["generation"], ensure_ascii=False)}`. {not_applied}

## Configuration

```json
{json.dumps(origin["marian"], ensure_ascii=False, indent=1)}
```
"""


@dataclass(frozen=True, slots=True)
class MarianConversion:
    """A Marian folder as a checkpoint that is not written yet. original: the text of its card, or ""."""

    metadata: CheckpointConfig
    network: Transformer
    tokenizers: Mapping[str, Tokenizer]
    languages: tuple[Languages, ...]
    generation: GenerationSettings
    original: str


@contextmanager
def careful(folder: MarianFolder, *, download: bool = False) -> Iterator[None]:
    """For reading what a stranger may have made: limits of memory and of the processor's time, and any error that it
    leads to is a TrainingError of one line, which names a model of the Hub. OSErrors of this machine pass.

    download: of a model that is not there yet, which has limits of its own time."""
    name, size = folder.name, 0 if download else folder.weights_bytes
    try:
        with limited(MOST_BYTES + OF_WEIGHTS * size, None if download else MOST_CPU_S + size // CPU_BYTES):
            yield
    except TrainingError as error:
        text = str(error)
        if folder.commit is not None:
            text = text.replace(f"{folder.path}/", "")
            text = text if name in text else f"{name}: {text}"
        if len(text) > MOST_MESSAGE:
            text = f"{text[:MOST_MESSAGE]} …"
        error.args = (UNPRINTABLE.sub("?", text.encode(errors="replace").decode()),)
        raise
    except OSError:
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or any(sign in str(error) for sign in ALLOCATORS):
            raise TrainingError(f"{name} takes more memory than a model of its size: nothing was imported.") from None
        reason = UNPRINTABLE.sub("?", f"{type(error).__name__}: {first_line(error)}")
        raise TrainingError(
            f"The files of {name} are not those of a Marian model ({reason:.200}): nothing was imported."
        ) from error


def convert_marian(
    folder: MarianFolder, *, source: str | None = None, target: str | None = None, prefix: str | None = None
) -> MarianConversion:
    """source, target, prefix: the languages and the language token; None: from the folder. source and target may name
    several, with commas between; a target "all" stands for every language token, and without a target a model with
    several has those of its card. TrainingError names the first unsupported feature."""
    config = complete_config(folder.object("config.json"))
    options = folder.object(TOKENIZER_CONFIG_FILE, required=False)
    network = convert_network(config, folder.tensors())
    shape = network.config
    tokenizers = tokenizers_of(folder, (shape.source_vocabulary, shape.target_vocabulary))
    reader = tokenizers["source"]
    settings = folder.object("generation_config.json", required=False)
    generation = read_generation_settings(config, settings, shape.pad, shape.target_vocabulary)
    original = folder.card()
    chosen = language_pairs(source, target, prefix, options, config, reader.languages, original)
    first = chosen[0] if len(chosen) == 1 else None
    ids = {piece: i for i, piece in enumerate(reader.vocabulary)}
    prefixes = {pair: () if pair.prefix is None else (ids[pair.prefix],) for pair in chosen}
    several = tuple(
        LanguagePair(source=pair.source, target=pair.target, source_prefix=prefixes[pair])
        for pair in (chosen if first is None else ())
    )
    scores = dict(islice(card_scores(original), MOST_SCORES))
    assert reader.special.eos is not None
    metadata = CheckpointConfig(
        kind="translator",
        architecture=loading.architecture("transformer", shape),
        source_language=first and first.source,
        target_language=first and first.target,
        language_pairs=several,
        source_prefix=prefixes[first] if first else (),
        source_suffix=(reader.special.eos,),
        target_prefix=(generation.start,),
        eos=generation.eos,
        suppressed=generation.suppressed,
        renormalise=generation.renormalise,
        forced_end=generation.forced_end,
        max_source_tokens=min(config["max_position_embeddings"], _tokenizer_limit(options), MOST_TOKENS),
        max_new_tokens=min(generation.max_new_tokens, MOST_TOKENS),
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        training={
            IMPORTED_FROM: folder.name,
            REVISION: folder.commit,
            "licence": card_licence(original),
            "generation": generation.recorded,
            "marian": config,
        },
        scores={f"{PUBLISHED}{name}": values for name, values in scores.items()},
    )
    return MarianConversion(metadata, network, tokenizers, chosen, generation, original)


def _tokenizer_limit(options: JsonObject) -> int:
    """The longest source that the tokenizer's settings allow; tc-big models have 512 there, and 1,024 positions."""
    limit = options.get("model_max_length")
    return int(limit) if isinstance(limit, int | float) and limit >= 1 else MOST_TOKENS


def marian_folder(given: str, progress: ImportProgress) -> MarianFolder:
    """Opens a folder, or fetches a model by its name on the Hub, see `models.model_names`. A model of
    another type is refused before its download."""
    path = Path(given)
    if path.is_dir():
        return MarianFolder(path, path.resolve().name)
    name = parse_model_name(given)
    if path.exists() or not name.repositories:
        raise TrainingError(
            f"{given} is no folder, and no name on the hub such as Helsinki-NLP/opus-mt-de-en or de-en."
        )
    from training.importers.hub_download import fetch_model  # it takes a fifth of a second, and folders need none

    with careful(MarianFolder(Path(), name.repositories[0]), download=True):
        snapshot = fetch_model(name, NORM_OF_TYPE, progress)
    return MarianFolder(snapshot.path, snapshot.name, snapshot.commit)


def import_marian(
    given: str,
    out: Path,
    *,
    source: str | None = None,
    target: str | None = None,
    prefix: str | None = None,
    progress: ImportProgress | None = None,
) -> dict[str, object]:
    """Imports a folder, or a model of that name on the Hub; returns a summary. Arguments and errors as of
    `convert_marian` and `marian_folder`. progress: where it is shown; None: on the console."""
    started = time.monotonic()
    check_output_folder(out, resume=False)
    progress = progress or ConsoleProgress()
    try:
        folder = marian_folder(given, progress)
        progress.stage("convert", folder.name)
        with careful(folder):
            made = convert_marian(folder, source=source, target=target, prefix=prefix)
            write_conversion(made, out)
    finally:
        progress.close()
    if len(made.languages) == 1:
        pairs: dict[str, object] = {**made.languages[0]._asdict()}
    else:
        pairs = {"language_pairs": [pair._asdict() for pair in made.languages]}
    summary = {"model": folder.name, "revision": folder.commit, "out": str(out), **pairs}
    return {**summary, "parameters": made.metadata.parameters, "seconds": round(time.monotonic() - started, 2)}


def write_conversion(made: MarianConversion, out: Path) -> None:
    """Writes the checkpoint with its card, and the original card."""
    metadata, original = made.metadata, made.original
    scores = {name.removeprefix(PUBLISHED): values for name, values in metadata.scores.items()}
    card = imported_model_card(metadata, made.languages, made.generation, original, scores)
    with claim_output_folder(out, resume=False), staging_folder(out) as staging:
        save_weights(made.network, staging, out)
        cards = {CARD: card, **({ORIGINAL_CARD: original} if original else {})}
        for name, text in cards.items():
            (staging / name).write_text(text, encoding="utf-8")
        written = {name: checkpoints.sha256(staging / name) for name in cards}
        checkpoints.write(
            staging, out, replace(metadata, training={**metadata.training, CARDS: written}), made.tokenizers
        )
