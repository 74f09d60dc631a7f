"""What cannot be imported is named in one sentence, with exit code 2, and nothing is written."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.training.importers.marian import folders
from training.__main__ import main

Spoil = Callable[[Path], Any]


def config(**changes: Any) -> Spoil:
    return lambda folder: folders.edit(folder / "config.json", **changes)


def settings(**changes: Any) -> Spoil:
    return lambda folder: folders.edit(folder / "generation_config.json", **changes)


def options(**changes: Any) -> Spoil:
    return lambda folder: folders.edit(folder / "tokenizer_config.json", **changes)


def vocabulary(change: Callable[[dict[str, Any]], Any]) -> Spoil:
    def spoil(folder: Path) -> None:
        content = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        change(content)
        folders.dump(folder / "vocab.json", content)

    return spoil


def tensors(change: Callable[[dict[str, Any]], Any]) -> Spoil:
    def spoil(folder: Path) -> None:
        content = load_file(folder / "model.safetensors")
        change(content)
        save_file(content, folder / "model.safetensors")

    return spoil


def without(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def holding(name: str, content: bytes) -> Spoil:
    return lambda folder: (folder / name).write_bytes(content)


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def raw(folder: Path) -> None:
    """As Marian's own training leaves a model."""
    for path in folder.iterdir():
        path.unlink()
    for name in ("model.npz", "decoder.yml", "source.spm", "target.spm"):
        (folder / name).touch()


class Executed:
    def __reduce__(self) -> Any:
        return (print, ("executed",))


def pickled(content: bytes) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / "pytorch_model.bin").write_bytes(content)

    return spoil


FC1, SHARED = "model.encoder.layers.0.fc1.bias", "model.shared.weight"
SPOILT: dict[str, tuple[Spoil, str]] = {
    "another type": (config(model_type="t5"), "config.json is of a model of type 't5'"),
    "no type": (config(model_type=None), "config.json names no model_type; only marian and pegasus models can be"),
    "a checkpoint of ours": (
        config(format_version=1, model_type=None),
        "config.json is of a checkpoint of Parlance, which needs no import: copy its folder into the one that",
    ),
    "raw Marian": (raw, "is in the form of Marian itself (.npz), and not in Hugging Face's, which import reads"),
    "a norm of embeddings": (config(normalize_embedding=True), "normalize_embedding is True"),
    "a norm before": (config(normalize_before=True), "normalize_before is True"),
    "learned positions": (config(static_position_embeddings=False), "static_position_embeddings is False"),
    "an activation": (config(activation_function="gelu_new"), "the activation 'gelu_new' is none of"),
    "unequal heads": (config(decoder_attention_heads=2), "encoder_attention_heads is 4 and decoder_attention_heads 2"),
    "unequal widths": (config(decoder_ffn_dim=9), "encoder_ffn_dim is 48 and decoder_ffn_dim 9"),
    "no width": (config(d_model=None), "d_model must be a whole number of at least 1, not None"),
    "uneven heads": (config(encoder_attention_heads=5, decoder_attention_heads=5), "d_model 32 is no multiple of 5"),
    "a strange rate": (config(dropout=2), "embedding_dropout must lie in"),
    "padding outside": (config(pad_token_id=99_999), "pad_token_id 99999 lies outside the vocabulary"),
    "no config": (without("config.json"), "config.json is missing: "),
    "a broken config": (holding("config.json", b"{"), "config.json cannot be read as JSON"),
    "a list": (holding("config.json", b"[]"), "config.json holds no JSON object"),
    "no weights": (without("model.safetensors"), "neither model.safetensors nor pytorch_model.bin"),
    "cut weights": (cut, "model.safetensors cannot be read"),
    "empty weights": (holding("model.safetensors", b""), "model.safetensors cannot be read"),
    "no pickle": (pickled(b"none at all"), "pytorch_model.bin is damaged, or holds more than tensors"),
    "a program": (pickled(pickle.dumps(Executed())), "pytorch_model.bin is damaged, or holds more than tensors"),
    "a tensor too few": (tensors(lambda t: t.pop(FC1)), f"The weights hold no tensor {FC1}"),
    "a tensor too many": (tensors(lambda t: t.update(more=torch.ones(1))), "The weights hold a tensor more, which"),
    "a narrow tensor": (
        tensors(lambda t: t.update({FC1: torch.ones(3)})),
        "of the shape (48,), and the weights have (3,)",
    ),
    "untied tables": (
        tensors(lambda t: t.update({"lm_head.weight": t[SHARED] + 1})),
        "lm_head.weight differs from the table it is tied to",
    ),
    "other positions": (
        tensors(lambda t: t.update({"model.encoder.embed_positions.weight": torch.ones(128, 32)})),
        "model.encoder.embed_positions.weight holds other positions",
    ),
    "no vocabulary": (without("vocab.json"), "vocab.json is missing"),
    "an id twice": (vocabulary(lambda v: v.update({"▁more": 7})), "vocab.json gives the id 7 to two tokens"),
    "a hole": (vocabulary(lambda v: v.update({v_piece(v, 7): len(v) + 5})), "vocab.json names no token for the id 7"),
    "a token too many": (vocabulary(lambda v: v.update({"▁more": len(v)})), "and the embedding has"),
    "a token too few": (vocabulary(lambda v: v.pop(v_piece(v, 7))), "and the embedding has"),
    "a word for an id": (vocabulary(lambda v: v.update({v_piece(v, 7): "7"})), "the id '7', which is none"),
    "a broken model": (holding("source.spm", b"nothing"), "source.spm is no SentencePiece model"),
    "no model": (without("target.spm"), "target.spm is missing"),
    "no target vocabulary": (options(separate_vocabs=True), "target_vocab.json is missing"),
    "sampling": (options(sp_model_kwargs={"alpha": 0.1}), "sets sp_model_kwargs"),
    "a stripping token": (options(eos_token={"content": "</s>", "lstrip": True}), "The token </s> has lstrip set"),
    "a number for a token": (options(pad_token=5), "name a token 5, which is none"),
    "a word for the id of an added token": (
        options(added_tokens_decoder={"x": "</s>"}),
        "has 'x' in added_tokens_decoder",
    ),
    "a forced start": (settings(forced_bos_token_id=3), "sets forced_bos_token_id"),
    "another forced end": (settings(forced_eos_token_id=3), "sets forced_eos_token_id to 3"),
    "two ends": (settings(eos_token_id=[0, 1]), "gives eos_token_id as [0, 1]"),
    "a long bad word": (settings(bad_words_ids=[[1, 2]]), "bad_words_ids holds [1, 2]"),
    "a bad word outside": (settings(bad_words_ids=[[99_999]]), "gives a bad word as 99999"),
    "no source language": (options(source_lang=None), "does not say which its source language is"),
}


def v_piece(content: dict[str, Any], token: int) -> str:
    return next(piece for piece, number in content.items() if number == token)


@pytest.mark.parametrize("name", SPOILT)
def test_unsupported_folder_is_refused_by_name(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, sentence = SPOILT[name]
    folder, out = folders.write(tmp_path / "folder"), tmp_path / "out"
    spoil(folder)
    assert main(["import-marian", str(folder), "--out", str(out)]) == 2
    answer = capsys.readouterr()
    assert sentence in answer.err
    assert answer.err.count("\n") == 1
    assert answer.err.endswith(".\n")
    assert answer.out == ""
    assert not out.exists()
