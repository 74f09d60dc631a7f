"""The model card: README.md of a checkpoint, for people who meet the model without its maker."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class CardFacts:
    title: str
    summary: str
    data: str
    recipe: str
    command: str
    configuration: Mapping[str, Any]
    scores: Mapping[str, Mapping[str, Any]]
    parameters: int
    training: str  # what ended it, after how long
    device: str
    limits: str
    left_out: str = ""  # of the training data: a table, or nothing


def commit() -> str:
    """The revision of this source tree, or "unknown" where there is none (an installed package)."""
    try:
        result = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return result.stdout.strip()


def hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def model_card(facts: CardFacts) -> str:
    scores = "\n".join(f"| {name} | {_row(values)} |" for name, values in facts.scores.items())
    table = f"| measured on | scores |\n|---|---|\n{scores}" if scores else "Not scored: no held-out data was given."
    return f"""# {facts.title}

{facts.summary}

## Scores

{table}

## How it was made

- Data: {facts.data}
- Recipe: `{facts.recipe}`, {facts.parameters:,} parameters
- Command: `{facts.command}`
- {facts.training}
- Hardware: {facts.device}; torch {torch.__version__}, Python {platform.python_version()}
- Source revision: {commit()}
- Licence: that of the training data decides; fill this in before you pass the model on.
{_left_out(facts.left_out)}
## Limits

{facts.limits}

## Configuration

```json
{json.dumps(facts.configuration, ensure_ascii=False, indent=1)}
```
"""


def _left_out(table: str) -> str:
    return f"\n## Left out of the training data\n\n{table}\n" if table else ""


def _row(values: Mapping[str, Any]) -> str:
    row = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())
    return row.replace("|", "\\|")  # a signature has bars, which would end the cell
