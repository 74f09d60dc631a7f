"""Whether other programs give our tokens from the folders that `training export` writes for them.

python -m benchmarks.exports --checkpoint FOLDER --data MULTI30K [--sentences 200] [--json]

Exports a trained translator to transformers, CTranslate2 and ONNX (fp32) and translates the first sentences of
Multi30k's validation set with each, greedily and with a beam of 4, from our own token ids. Also: the ids that
transformers' tokenizer gives for the same texts and for odd ones. onnxruntime has no beam search for these graphs, so
our decoder searches over them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from benchmarks.corpora import multi30k_lines
from benchmarks.peers.exported import Program, load_transformers, of_parlance, of_program
from benchmarks.report import argument_parser, finish, goal
from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint
from training.exporters.export_checkpoint import export_checkpoint

LIMIT = 128  # new tokens
ODD_TEXTS = (
    *(
        "",
        " ",
        "  two  spaces ",
        "\ttab\nline",
        "日本語 und 한국어",
        "😀 Ein 👩‍👩‍👧 Bild",
        "ﬁne ½ ™ …",
        "</s> <pad> <unk>",
    ),
    *("ZWJ\u200bzero\u00a0nbsp", "e\u0301 é", "▁ ▁▁", "x" * 300, ">>", "a >>fr<< b"),
)


def same(ours: Sequence[object], theirs: Sequence[object]) -> int:
    return sum(a == b for a, b in zip(ours, theirs, strict=True))


def compare(checkpoint: Checkpoint, root: Path, texts: Sequence[str]) -> tuple[list[dict[str, Any]], list[Any]]:
    """A row for each program and beam, and the goals."""
    rows, goals, count = [], [], len(texts)
    sources = [checkpoint.source_ids(text) for text in texts]
    ours = {beam: of_parlance(checkpoint, sources, beam, LIMIT) for beam in (1, 4)}
    for program in get_args(Program):
        summary = export_checkpoint(checkpoint.folder, program, root / program)
        for beam, expected in ours.items():
            agreeing = same(expected, of_program(program, root / program, checkpoint, sources, beam, LIMIT))
            row = {"form": summary["form"], "program": program, "beam": beam, "sentences": count, "same": agreeing}
            rows.append(row | {"export_seconds": summary["seconds"]})
            goals.append(goal(f"{program}, beam {beam}: sentences with our tokens", agreeing, count, "", "higher"))
    tokenizer, _ = load_transformers(root / "transformers")
    lines = [*texts, *ODD_TEXTS]
    agreeing = same(
        [list(checkpoint.source_ids(line)) for line in lines], [tokenizer(line).input_ids for line in lines]
    )
    goals.append(goal("transformers' tokenizer: texts with our ids", agreeing, len(lines), "", "higher"))
    answers = [checkpoint.decode(tokens) for tokens in ours[4]]
    decoded = [tokenizer.decode(tokens, skip_special_tokens=True) for tokens in ours[4]]
    goals.append(goal("transformers' tokenizer: our texts", same(answers, decoded), count, "", "higher"))
    return rows, goals


def main() -> None:
    top = argument_parser("exports", __doc__)
    top.add_argument("--checkpoint", type=Path, required=True)
    top.add_argument("--data", type=Path, required=True, help="Multi30k's folder of .gz files")
    top.add_argument("--sentences", type=int, default=200)
    arguments = top.parse_args()
    checkpoint = checkpoints.read(arguments.checkpoint)
    language = str(checkpoint.config.source_language)
    texts = multi30k_lines(arguments.data, "val", language, arguments.sentences)
    with tempfile.TemporaryDirectory() as root:
        rows, goals = compare(checkpoint, Path(root), texts)
    finish(arguments, rows, goals)


if __name__ == "__main__":
    main()
