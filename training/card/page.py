"""The facts of a model as the Markdown of its card."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from typing import Any

import torch

from training.card import tables
from training.card.facts import CardFacts
from training.card.head import head
from training.card.revision import commit
from training.configuration import run_file


def model_card(facts: CardFacts) -> str:
    loop = facts.configuration.get("loop", {})
    licence = f"`{facts.licence}`" if facts.licence else "not stated; that of the training data decides"
    return f"""{head(facts)}
# {facts.title}

{facts.summary}

## Use and limits

{" ".join(filter(None, [facts.use, facts.limits]))}

## Scores

{tables.of_scores(facts.scores)}
## How it was made

- Data: {facts.data}
- Recipe: `{facts.recipe}`, {facts.parameters:,} parameters, seed {loop.get("seed", "unknown")}
- Command: `{facts.command}`
- {_again(loop)}
- {facts.training}
- Hardware: {facts.device}; torch {torch.__version__}, Python {platform.python_version()}
- Source revision: {commit()}
- Licence: {licence}
{_left_out(facts.left_out)}{tables.of_memorised(facts.memorised)}{tables.of_samples(facts.samples)}
## Configuration

```json
{json.dumps(facts.configuration, ensure_ascii=False, indent=1)}
```
"""


def _again(loop: Mapping[str, Any]) -> str:
    holds = f"`{run_file.NAME}` beside this file holds every option"
    if loop.get("max_minutes") is None:
        return f"Again, exactly: {holds}"
    return f"Again, but for what a clock decided (`loop.max_minutes`): {holds}"


def _left_out(table: str) -> str:
    return f"\n## Left out of the training data\n\n{table}\n" if table else ""
