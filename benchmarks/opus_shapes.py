"""Whether every shape that OPUS-MT publishes is imported, and then writes what transformers writes.

python -m benchmarks.opus_shapes [--shapes "base; tiny"] [--sentences 50] [--new-tokens 16] [--json]

Writes a folder of each shape at its real size with random weights, imports it, and translates sentences of railway talk
greedily and with beams of 4 and 6, in float32, with Parlance and with `transformers.MarianMTModel.generate`, of which
the tokenizer gives the source ids. `distinct`: how many different translations there are; `ended`: how many end before
the limit: a network that writes the same whatever it reads would agree without any meaning. `cut`: of a folder that
forces no end token at the limit, the sentences of which transformers' beam gives a hypothesis that the limit cut, and
Parlance's an ended one: transformers ranks both kinds together, Parlance takes cut ones only where none has ended.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.marian_folder import SHAPES, MarianShape, write_marian_folder
from benchmarks.peers.exported import decoded, generated
from benchmarks.railway_talk import corpus
from benchmarks.report import argument_parser, finish, goal
from models import checkpoint as checkpoints
from models.networks.loading import load_network
from training.importers.marian.convert_checkpoint import import_marian

BEAMS = (1, 4, 6)
Tokens = tuple[int, ...]


def their_tokens(folder: Path, texts: Sequence[str]) -> list[Tokens]:
    """The ids that transformers' tokenizer gives."""
    from transformers import MarianTokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package that it then does not use
        tokenizer = MarianTokenizer.from_pretrained(folder)
    return [tuple(tokenizer(text).input_ids) for text in texts]


def compare(name: str, shape: MarianShape, root: Path, count: int, new_tokens: int) -> dict[str, Any]:
    """One row: what was imported, how long it took, and how many of the sentences agree."""
    from transformers import MarianMTModel

    parts = corpus()
    folder = root / shape.like
    train = parts["train"]
    size = min(4000, (shape.vocabulary - len(shape.languages)) // 2)
    texts = [pair.source for pair in train], [pair.target for pair in train]
    write_marian_folder(folder, *texts, size, shape)
    started = time.monotonic()
    import_marian(str(folder), root / "imported")
    seconds = time.monotonic() - started
    checkpoint = checkpoints.read(root / "imported")
    (whole, *_) = checkpoint.single_pairs()
    tokens = [shape.languages[number % len(shape.languages)] if shape.languages else "" for number in range(count)]
    prefixes = [f">>{token}<< " if token else "" for token in tokens]
    lines = [
        prefix + pair.source
        for prefix, pair in zip(prefixes, parts["test"][:: len(parts["test"]) // count], strict=False)
    ]
    sources = [whole.source_ids(line) for line in lines]
    same_ids = sum(a == b for a, b in zip(sources, their_tokens(folder, lines), strict=True))
    ours = {beam: decoded(load_network(whole), whole, sources, beam, new_tokens) for beam in BEAMS}
    network: Any = MarianMTModel.from_pretrained(folder, dtype=torch.float32)  # with the folder's own settings
    network.generation_config.max_length = None
    theirs = {beam: [tokens[:new_tokens] for tokens in generated(network, sources, beam, new_tokens)] for beam in BEAMS}
    row: dict[str, Any] = {
        "shape": name,
        "like": shape.like,
        "parameters": checkpoint.config.parameters,
        "pairs": len(checkpoint.config.language_pairs) or 1,
        "import_s": round(seconds, 2),
        "sentences": len(lines),
        "same_source_ids": same_ids,
    }
    for beam in BEAMS:
        pairs = list(zip(ours[beam], theirs[beam], strict=True))
        row[f"same_beam_{beam}"] = sum(a == b for a, b in pairs)
        if beam > 1 and not whole.config.forced_end:
            row[f"cut_beam_{beam}"] = sum(len(a) < len(b) == new_tokens for a, b in pairs)
    distinct = len(set(ours[BEAMS[1]]))
    ended = sum(len(answer) < new_tokens - 1 for answer in ours[BEAMS[1]])
    shutil.rmtree(root / "imported")
    shutil.rmtree(folder)
    return {**row, "distinct": distinct, "ended": ended}


def main(argv: Sequence[str] | None = None) -> None:
    top = argument_parser("opus_shapes", __doc__)
    top.add_argument("--shapes", help=f"with semicolons between; default: all of {'; '.join(SHAPES)}")
    top.add_argument("--sentences", type=int, default=50)
    top.add_argument("--new-tokens", type=int, default=16)
    arguments = top.parse_args(argv)
    names = [name for name in SHAPES if arguments.shapes is None or name in re.split(r";\s*", arguments.shapes)]
    rows, goals = [], []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            row = compare(name, SHAPES[name], Path(folder), arguments.sentences, arguments.new_tokens)
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        rows.append(row)
        for what, key in (("source ids", "same_source_ids"), *((f"beam {b}", f"same_beam_{b}") for b in BEAMS)):
            count = row["sentences"] - row.get(key.replace("same", "cut"), 0)
            goals.append(goal(f"{name}, {what}: sentences as transformers has them", row[key], count, "", "higher"))
    finish(arguments, rows, goals)


if __name__ == "__main__":
    main()
