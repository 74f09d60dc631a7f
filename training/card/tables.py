"""What a model card has in tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from training.memorisation import Overlap
from training.samples import plain, shortened
from training.wording import counted


def of_scores(scores: Mapping[str, Mapping[str, Any]]) -> str:
    """One row for each text that was measured; signatures, which are long, below."""
    if not scores:
        return "Not scored: no held-out data was given.\n"
    names = dict.fromkeys(n for row in scores.values() for n in row if not n.startswith("signature"))
    parts = [_table(["measured on", *(n.replace("_", " ") for n in names)], _rows(scores, list(names)))]
    signatures = {(n, row[n]) for row in scores.values() for n in row if n.startswith("signature")}
    parts += [f"- {_measure(name)}: `{signature}`\n" for name, signature in sorted(signatures)]
    return "\n".join([parts[0], "".join(parts[1:])]) if signatures else parts[0]


def _rows(scores: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> Iterator[list[str]]:
    for title, row in scores.items():
        yield [title, *(str(row.get(name, "")) for name in names)]


def _measure(signature: str) -> str:
    return {"signature": "bleu", "signature_lowercased": "bleu lowercased", "signature_chrf": "chrf"}[signature]


def of_memorised(measured: tuple[Overlap, Overlap | None] | None) -> str:
    if measured is None:
        return ""
    texts = {"generated text": measured[0], "held-out text": measured[1]}
    rows = (
        [
            f"{name}, {counted(found.characters, 'character')}",
            f"{counted(len(found.longest), 'character')}: {json.dumps(found.longest, ensure_ascii=False)}",
            *("–" if share is None else f"{share:.2%}" for share in found.shares.values()),
        ]
        for name, found in texts.items()
        if found is not None
    )
    spans = [f"spans of {length} that are copies" for length in measured[0].shares]
    return f"""
## Memorisation

What stands word for word in the training text. Held-out text was copied from nowhere: what it shares is the language's.

{_table(["text", "longest copied span", *spans], rows)}"""


def of_samples(samples: Sequence[tuple[str, str, str]]) -> str:
    if not samples:
        return ""
    reference = any(wanted for _, wanted, _ in samples)
    head = ["source", "reference", "model"] if reference else ["opening", "model"]
    lines = [head, ["---"] * len(head)]
    texts = ((source, wanted, shortened(made)) for source, wanted, made in samples)
    lines += [[*map(plain, text if reference else (text[0], text[2]))] for text in texts]
    return "\n## Samples\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _table(head: Sequence[str], rows: Iterator[list[str]]) -> str:
    lines = [list(head), ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")
