"""One flipped bit anywhere in a checkpoint's files: the folder is refused by name, or answers as before.

FLIPS=1000 flips so many bits of each file; the fast suite takes a few."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
import torch

from models import checkpoint as checkpoints
from models import checkpoint_trial
from models.checkpoint import CheckpointError
from models.networks.loading import load_network
from tests.tiny import write_lyricist, write_translator

FLIPS = int(os.environ.get("FLIPS", "12"))
TEXTS = ("ich möchte ein bier", "分开后的街道")


def answers(folder: Path) -> object:
    """All that a request depends on: the config, the ids of texts and what the weights compute."""
    if (problem := checkpoint_trial.problem_of(folder)) is not None:
        raise CheckpointError(problem)
    checkpoint = checkpoints.read(folder)
    network = load_network(checkpoint)
    tokens = [tokenizer.unknown(text) for tokenizer in checkpoint.tokenizers.values() for text in TEXTS]
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        logits = network(ids, ids) if checkpoint.config.kind == "translator" else network(ids)[0]
    return checkpoint.config, tokens, logits.tolist()


@pytest.mark.parametrize("kind", ["translator", "lyricist"])
def test_flipped_bit_is_refused_by_name_or_changes_no_answer(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "m"
    write_translator(folder, "de", "en") if kind == "translator" else write_lyricist(folder)
    (folder / "README.md").write_text("---\nlicense: mit\n---\nA card.\n")
    right, rng, outcomes = answers(folder), random.Random(17), {"refused": 0, "as before": 0}
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for _ in range(FLIPS):
            place, bit = rng.randrange(len(whole)), 1 << rng.randrange(8)
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            try:
                assert answers(folder) == right, (path.name, place, bit)
                outcomes["as before"] += 1
            except CheckpointError as error:
                assert path.name.removesuffix(".sha256") in str(error), (path.name, place, bit)
                outcomes["refused"] += 1
        path.write_bytes(whole)
    print(outcomes)
    assert outcomes["refused"] > outcomes["as before"]


def test_cut_file_is_refused_by_name(tmp_path: Path) -> None:
    folder = write_translator(tmp_path / "m", "de", "en")
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for length in (0, 1, len(whole) // 2, len(whole) - 1):
            copy = shutil.copytree(folder, tmp_path / f"{path.name}-{length}")
            (copy / path.name).write_bytes(whole[:length])
            if path.name == "config.sha256" and length == len(whole) - 1:
                continue  # the line end alone
            with pytest.raises(CheckpointError, match=path.stem):
                answers(copy)
