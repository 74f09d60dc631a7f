"""What int8 and bf16 change: BLEU against fp32's, answers that differ from fp32's, and answers that differ beside
others from those alone.

python -m benchmarks.precision --checkpoint FOLDER --data MULTI30K [--beam 4] [--sentences 1014] [--json]

Sentences come from Multi30k's validation part: its test part is for scores, and is read once.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import sacrebleu
import torch

from benchmarks.corpora import multi30k_lines
from benchmarks.peers.exported import decoded
from benchmarks.report import argument_parser, finish, goal
from models.backends.select import RefusedError
from models.checkpoint import Checkpoint, read
from models.interface import Precision
from models.networks.loading import load_network

CANDIDATES: tuple[Precision, ...] = ("fp32", "int8", "bf16")
GOAL_BLEU_LOST = 0.2
ALONE = 200  # sentences that are also decoded alone


def translate(
    checkpoint: Checkpoint, network: Any, texts: list[str], beam: int, precision: Precision, slots: int
) -> list[str]:
    sources = [checkpoint.source_ids(text) for text in texts]
    outputs = decoded(network, checkpoint, sources, beam, slots=slots, precision=precision)
    return [checkpoint.decode(tokens) for tokens in outputs]


def measure(checkpoint: Checkpoint, texts: list[str], references: list[str], beam: int) -> list[dict[str, Any]]:
    network, rows, exact = load_network(checkpoint), list[dict[str, Any]](), list[str]()
    for precision in CANDIDATES:
        started = time.monotonic()
        try:
            together = translate(checkpoint, network, texts, beam, precision, 64 * beam)
        except RefusedError:
            continue
        seconds = time.monotonic() - started
        alone = [translate(checkpoint, network, [text], beam, precision, beam)[0] for text in texts[:ALONE]]
        exact = exact or together
        rows.append(
            {
                "precision": precision,
                "bleu": round(sacrebleu.corpus_bleu(together, [references]).score, 2),
                "differ_from_fp32": round(sum(a != b for a, b in zip(together, exact, strict=True)) / len(texts), 4),
                "differ_from_alone": sum(a != b for a, b in zip(together, alone, strict=False)) / len(alone),
                "seconds": round(seconds, 1),
            }
        )
    return rows


def main() -> None:
    top = argument_parser("precision", __doc__)
    top.add_argument("--checkpoint", type=Path, required=True)
    top.add_argument("--data", type=Path, required=True)
    top.add_argument("--beam", type=int, default=4)
    top.add_argument("--sentences", type=int, default=1014)
    arguments = top.parse_args()
    torch.set_num_threads(1)
    checkpoint = read(arguments.checkpoint)
    source, target = (
        multi30k_lines(arguments.data, "val", str(language), arguments.sentences)
        for language in (checkpoint.config.source_language, checkpoint.config.target_language)
    )
    rows = measure(checkpoint, source, target, arguments.beam)
    bleu = {row["precision"]: row["bleu"] for row in rows}
    goals = [
        goal(f"BLEU that {name} loses", round(bleu["fp32"] - score, 2), GOAL_BLEU_LOST, "BLEU", "lower")
        for name, score in bleu.items()
        if name != "fp32"
    ]
    together = next(row["differ_from_alone"] for row in rows if row["precision"] == "fp32")
    goals.append(goal("fp32 answers that differ from those alone", together, 0.0, "share", "lower"))
    finish(arguments, rows, goals)


if __name__ == "__main__":
    main()
