"""How a translator does on sentences that newcomers type first: chrF, and a table for a person to judge.

python -m benchmarks.newcomers --checkpoint checkpoints/everyday [--out FILE] [--json]

`newcomers.tsv` holds 200 sentences, 50 composed in each of four languages without a look at any corpus, with their
translations. The program translates the sentences of each language into English, and the English ones into the three
others, through the text layer and the engine of the server. FILE gets a row for each: direction, whether a notice
marks it, source, translation, reference.
"""

from __future__ import annotations

import asyncio
import csv
from pathlib import Path
from typing import Any

import sacrebleu

from app.engine.interface import TranslationOptions
from app.translation import TextRequest
from benchmarks.fidelity import translating
from benchmarks.report import argument_parser, finish

DIRECTIONS = (("de", "en"), ("es", "en"), ("zh", "en"), ("en", "de"), ("en", "es"), ("en", "zh"))


async def translated(checkpoint: Path) -> list[list[str]]:
    """Rows of the table."""
    with Path(__file__).with_name("newcomers.tsv").open(encoding="utf-8", newline="") as file:
        sentences = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    table = []
    async with translating(checkpoint) as translator:
        for source, target in DIRECTIONS:
            own = [row for row in sentences if row["first"] == source]
            requests = [TextRequest(row[source], TranslationOptions(source, target)) for row in own]
            results = await translator.translate(requests)
            table += [
                [f"{source}-{target}", "marked" if result.notices else "", row[source], result.text, row[target]]
                for row, result in zip(own, results, strict=True)
            ]
    return table


def main() -> None:
    top = argument_parser("newcomers", __doc__)
    top.add_argument("--checkpoint", type=Path, required=True)
    top.add_argument("--out", type=Path, help="a file for the table")
    arguments = top.parse_args()
    table = asyncio.run(translated(arguments.checkpoint))
    if arguments.out:
        arguments.out.write_text("".join("\t".join(row) + "\n" for row in table), encoding="utf-8")
    rows: list[dict[str, Any]] = []
    for direction in dict.fromkeys(row[0] for row in table):
        own = [row for row in table if row[0] == direction]
        chrf = sacrebleu.CHRF().corpus_score([row[3] for row in own], [[row[4] for row in own]]).score
        marked = 100 * sum(bool(row[1]) for row in own) / len(own)
        rows.append({"direction": direction, "sentences": len(own), "chrf": chrf, "marked_percent": marked})
    finish(arguments, rows, [])


if __name__ == "__main__":
    main()
