"""The model card of an imported model: what its own card says of licence and scores, and where it is from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from training.marian.generation import Generation
from training.marian.languages import Languages

FRONT = re.compile(r"\A---\s*\n(.*?)\n---\s*\n", re.DOTALL)
METRICS = {"bleu": "bleu", "chr-f": "chrf", "chrf": "chrf", "comet": "comet"}


@dataclass(frozen=True, slots=True)
class Original:
    """What the model's own card says. scores: of each test set."""

    text: str
    licence: str | None
    scores: Mapping[str, Mapping[str, float]]


def original(text: str) -> Original:
    front = FRONT.match(text)
    licence = re.search(r"^license:\s*['\"]?([^\s'\"#]+)", front[1], re.MULTILINE) if front else None
    return Original(text, licence[1] if licence else None, dict(_scores(text.splitlines())))


def _scores(lines: list[str]) -> Iterator[tuple[str, dict[str, float]]]:
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
        found = {METRICS[head]: number for head, cell in row.items() if head in METRICS if (number := _number(cell))}
        name = " ".join(row[head] for head in ("langpair", "testset") if row.get(head))
        if name and found:
            yield name, found


def _number(cell: str) -> float | None:
    return float(cell) if re.fullmatch(r"\d+(\.\d+)?", cell) else None


def card(
    name: str, languages: Languages, generation: Generation, own: Original, config: Mapping[str, Any], parameters: int
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
