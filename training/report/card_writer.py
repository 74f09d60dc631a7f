"""The model card: README.md of a checkpoint, with the front matter that the Hugging Face Hub reads."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from training.config import run_file
from training.errors import pluralize
from training.evaluation.memorisation import Overlap
from training.evaluation.samples import escape_markdown, shorten_repetition


@dataclass(frozen=True, slots=True)
class CardFacts:
    """left_out: of the training data, as a table, or "". languages: codes. memorised: what samples have in common with
    the training text, and what held-out text has."""

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
    use: str = ""
    left_out: str = ""
    licence: str | None = None
    languages: Sequence[str] = ()
    task: str = ""  # as the Hub names it
    memorised: tuple[Overlap, Overlap | None] | None = None
    samples: Sequence[tuple[str, str, str]] = field(default=())


KNOWN_LICENCES = re.compile(
    r"apache-2\.0|mit|cc0-1\.0|unlicense|(a|l)?gpl(-3\.0|-2\.0)?|mpl-2\.0|bsd(-[23]-clause)?|openrail"
    r"|cc-by(-nc)?(-sa|-nd)?-[34]\.0"
)  # names that the Hub has a page for; others are "other" there, with a name of their own


def front_matter(facts: CardFacts) -> str:
    """YAML. Its texts are written as JSON's, which YAML reads alike: a language `no` is no truth value then."""
    lines = ["---"]
    if facts.licence:
        known = KNOWN_LICENCES.fullmatch(facts.licence.lower())
        lines += (
            [f"license: {facts.licence.lower()}"] if known else ["license: other", _licence_name("license_name", facts)]
        )
    if facts.languages:
        lines += ["language:", *(f"- {json.dumps(code.partition('-')[0].lower())}" for code in facts.languages)]
    if facts.task:
        lines.append(f"pipeline_tag: {facts.task}")
    return "\n".join([*lines, "library_name: parlance", "---"])


def _licence_name(name: str, facts: CardFacts) -> str:
    return f"{name}: {json.dumps(facts.licence, ensure_ascii=False)}"


def scores_table(scores: Mapping[str, Mapping[str, Any]]) -> str:
    """One row for each text that was measured; signatures, which are long, below."""
    if not scores:
        return "Not scored: no held-out data was given.\n"
    names = dict.fromkeys(n for row in scores.values() for n in row if not n.startswith("signature"))
    parts = [_markdown_table(["measured on", *(n.replace("_", " ") for n in names)], _score_rows(scores, list(names)))]
    signatures = {(n, row[n]) for row in scores.values() for n in row if n.startswith("signature")}
    parts += [f"- {_signature_metric(name)}: `{signature}`\n" for name, signature in sorted(signatures)]
    return "\n".join([parts[0], "".join(parts[1:])]) if signatures else parts[0]


def _score_rows(scores: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> Iterator[list[str]]:
    for title, row in scores.items():
        yield [title, *(str(row.get(name, "")) for name in names)]


def _signature_metric(signature: str) -> str:
    return {"signature": "bleu", "signature_lowercased": "bleu lowercased", "signature_chrf": "chrf"}[signature]


def memorisation_section(measured: tuple[Overlap, Overlap | None] | None) -> str:
    if measured is None:
        return ""
    texts = {"generated text": measured[0], "held-out text": measured[1]}
    rows = (
        [
            f"{name}, {pluralize(found.characters, 'character')}",
            f"{pluralize(len(found.longest), 'character')}: {json.dumps(found.longest, ensure_ascii=False)}",
            *("–" if share is None else f"{share:.2%}" for share in found.shares.values()),
        ]
        for name, found in texts.items()
        if found is not None
    )
    spans = [f"spans of {length} that are copies" for length in measured[0].shares]
    return f"""
## Memorisation

What stands word for word in the training text. Held-out text was copied from nowhere: what it shares is the language's.

{_markdown_table(["text", "longest copied span", *spans], rows)}"""


def samples_section(samples: Sequence[tuple[str, str, str]]) -> str:
    if not samples:
        return ""
    reference = any(wanted for _, wanted, _ in samples)
    head = ["source", "reference", "model"] if reference else ["opening", "model"]
    lines = [head, ["---"] * len(head)]
    texts = ((source, wanted, shorten_repetition(made)) for source, wanted, made in samples)
    lines += [[*map(escape_markdown, text if reference else (text[0], text[2]))] for text in texts]
    return "\n## Samples\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _markdown_table(head: Sequence[str], rows: Iterator[list[str]]) -> str:
    lines = [list(head), ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_markdown_cell(cell) for cell in line)} |\n" for line in lines)


def _markdown_cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def source_revision() -> str:
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


def model_card(facts: CardFacts) -> str:
    loop = facts.configuration.get("loop", {})
    licence = f"`{facts.licence}`" if facts.licence else "not stated; that of the training data decides"
    return f"""{front_matter(facts)}
# {facts.title}

{facts.summary}

## Use and limits

{" ".join(filter(None, [facts.use, facts.limits]))}

## Scores

{scores_table(facts.scores)}
## How it was made

- Data: {facts.data}
- Recipe: `{facts.recipe}`, {facts.parameters:,} parameters, seed {loop.get("seed", "unknown")}
- Command: `{facts.command}`
- {_reproduction(loop)}
- {facts.training}
- Hardware: {facts.device}; torch {torch.__version__}, Python {platform.python_version()}
- Source revision: {source_revision()}
- Licence: {licence}
{_dropped_section(facts.left_out)}{memorisation_section(facts.memorised)}{samples_section(facts.samples)}
## Configuration

```json
{json.dumps(facts.configuration, ensure_ascii=False, indent=1)}
```
"""


def _reproduction(loop: Mapping[str, Any]) -> str:
    holds = f"`{run_file.RUN_FILE}` beside this file holds every option"
    if loop.get("max_minutes") is None:
        return f"Again, exactly: {holds}"
    return f"Again, but for what a clock decided (`loop.max_minutes`): {holds}"


def _dropped_section(table: str) -> str:
    return f"\n## Left out of the training data\n\n{table}\n" if table else ""
