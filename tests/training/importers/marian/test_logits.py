"""Logits equal those of transformers' MarianMTModel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.combinations import slow_but
from tests.training.importers.marian import folders
from tests.training.importers.marian.imported import Imported, ours, their_network

FOLDERS: dict[str, dict[str, Any]] = {
    "one table": {},
    "two vocabularies": {"separate": True},
    "two vocabularies, an output of its own": {"separate": True, "tie_word_embeddings": False},
    "one vocabulary, three tables": {"tie_word_embeddings": False},
    "shallow encoder, relu, unscaled": {
        "encoder_layers": 1,
        "decoder_layers": 4,
        "activation_function": "relu",
        "scale_embedding": False,
    },
    "pickled, gelu, wide heads": {
        "pickled": True,
        "d_model": 48,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "activation_function": "gelu",
    },
}


@pytest.mark.parametrize(
    "name", slow_but(FOLDERS, "one table", "two vocabularies, an output of its own", "pickled, gelu, wide heads")
)
def test_logits_are_the_same(name: str, tmp_path: Path) -> None:
    path = folders.write(tmp_path / "folder", **FOLDERS[name])
    same_logits(path, ours(path))


def same_logits(path: Path, found: Imported) -> None:
    """Of ragged sources, and targets that start as generation does."""
    theirs, config = their_network(path), found.network.config
    generator = torch.Generator().manual_seed(5)
    source = torch.randint(0, config.pad, (6, 17), generator=generator)
    target = torch.randint(0, config.pad, (6, 11), generator=generator)
    target[:, 0] = found.checkpoint.config.target_prefix[0]
    for row, length in enumerate((17, 1, 5, 17, 9, 2)):
        source[row, length:] = config.pad
    with torch.no_grad():
        expected = theirs(input_ids=source, attention_mask=source != config.pad, decoder_input_ids=target).logits
        logits = found.network(source, target)
    assert expected.std() > 1
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)


def test_folder_saved_by_transformers(tmp_path: Path) -> None:
    first = folders.write(tmp_path / "first")
    theirs = their_network(first)
    theirs.save_pretrained(tmp_path / "saved")
    for name in ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json"):
        (tmp_path / "saved" / name).write_bytes((first / name).read_bytes())
    same_logits(tmp_path / "saved", ours(tmp_path / "saved"))


def test_a_pickle_of_the_first_years_holds_every_table(tmp_path: Path) -> None:
    """Tied tables under each of their names, and positions as early versions computed them."""
    path = folders.write(tmp_path / "folder")
    tensors = load_file(path / "model.safetensors")
    table = tensors["model.shared.weight"]
    tensors |= dict.fromkeys(("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"), table)
    their = their_network(path).model.encoder.embed_positions.weight
    tensors |= {f"model.{side}.embed_positions.weight": their for side in ("encoder", "decoder")}
    (path / "model.safetensors").unlink()
    torch.save(tensors, path / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    result = ours(path)
    assert result.network.config.tied == "all"
    same_logits(path, result)


def test_half_precision_files_are_widened(tmp_path: Path) -> None:
    path = folders.write(tmp_path / "folder", half=True)
    result = ours(path)
    assert {parameter.dtype for parameter in result.network.parameters()} == {torch.float32}
    weight = result.network.encoder[0].feed_forward.widen.weight
    assert torch.equal(weight, weight.half().float())
