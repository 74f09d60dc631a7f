"""Checkpoints made to do harm: each is refused by name before anything is allocated for what it claims."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from models.networks.loading import load_network
from models.tokenizer import read_tokenizer
from models.weights_file import read_header
from tests.models.folders import edit, one_sentence, written
from tests.tiny import write_lyricist, write_translator

A = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
B = {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}


def weights(path: Path, header: object, data: bytes = bytes(16), length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def test_header_of_a_real_file_is_that_of_the_library(tmp_path: Path) -> None:
    path = write_translator(tmp_path / "tiny", "de", "en") / "model.safetensors"
    header = read_header(path)
    with safe_open(path, "pt") as file:
        assert {name: list(shape) for name, shape in header.items()} == {
            name: file.get_slice(name).get_shape()
            for name in file.keys()  # noqa: SIM118 (no mapping)
        }


@pytest.mark.parametrize(
    "header",
    [
        {"a": A, "b": {**B, "data_offsets": [4, 12]}},
        {"a": A, "b": {**A}},
        {"a": A, "b": {**B, "data_offsets": [12, 20]}},
        {"a": A},
        {"a": A, "b": B, "c": {"dtype": "F32", "shape": [1], "data_offsets": [16, 20]}},
        {"a": {**A, "data_offsets": [0, 16]}},
        {"a": {**A, "shape": [1 << 40, 1 << 40], "data_offsets": [0, 16]}},
        {"a": {**A, "shape": [1 << 60]}},
        {"a": {**A, "shape": [-2]}},
        {"a": {**A, "shape": [True, 2]}},
        {"a": {**A, "shape": [1] * 9 + [2]}},
        {"a": {**A, "data_offsets": [8, 0]}},
        {"a": {**A, "dtype": "PICKLE"}},
        {"a": {**A, "dtype": ["F32"]}},
        {"a": 5},
        [A],
        {},
        b'{"a": 1, "a": 1}',
        b"[" * 50_000,
        b"\xff\xfe",
    ],
    ids=str,
)
def test_header_that_is_untrue_is_refused(tmp_path: Path, header: object) -> None:
    with pytest.raises(ValueError, match=r"^its header is not that of its data \(.+\)$"):
        read_header(weights(tmp_path / "w", header))


def test_file_without_tensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="it holds no tensors"):
        read_header(weights(tmp_path / "w", {}, b""))


@pytest.mark.parametrize("length", [1 << 63, 10**9, 17, 0xFFFFFFFFFFFFFFFF])
def test_header_longer_than_its_file_is_refused(tmp_path: Path, length: int) -> None:
    with pytest.raises(ValueError, match="no safetensors file"):
        read_header(weights(tmp_path / "w", b"{}", bytes(14), length))


def test_large_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "w"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 10**11))
        file.truncate(10**11 + 100)  # of holes
    with pytest.raises(ValueError, match="has 100,000,000,000 bytes, and the most is 16,000,000"):
        read_header(path)


def reshape(folder: Path, **architecture: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    edit(folder, architecture={**config["architecture"], **architecture})


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("translator", {"encoder_layers": 1_000_000}, "encoder_layers is 1,000,000, and the weights are"),
        ("translator", {"decoder_layers": 10**30}, "decoder_layers is"),
        ("translator", {"d_ff": 10**12}, "d_ff is 1,000,000,000,000"),
        ("translator", {"source_vocabulary": 2_000_000}, "source_vocabulary is 2,000,000"),
        ("translator", {"d_ff": 8_000, "d_model": 8_000, "heads": 1_000}, "do not fit the architecture"),
        ("translator", {"heads": 8_000, "head_width": 8_000}, "do not fit the architecture"),
        ("translator", {"attention_scale": float("nan")}, "architecture.attention_scale must be finite"),
        ("translator", {"norm_epsilon": float("inf")}, "architecture.norm_epsilon must be finite"),
        ("lyricist", {"layers": 1_000_000}, "layers is 1,000,000"),
        ("lyricist", {"hidden": 5_000, "embedding": 5_000}, "do not fit the architecture"),
    ],
    ids=str,
)
def test_network_beyond_its_weights_is_not_built(
    tmp_path: Path, kind: str, change: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "m"
    write_translator(folder, "de", "en") if kind == "translator" else write_lyricist(folder)
    checkpoint = checkpoints.read(folder)
    load_network(checkpoint)
    reshape(folder, **change)
    monkeypatch.setattr("torch.Tensor.zero_", lambda tensor: tensor if tensor.is_meta else pytest.fail("allocated"))
    with pytest.raises(CheckpointError) as refused:
        load_network(checkpoints.read(folder))
    one_sentence(str(refused.value), folder, words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"source_language": "\ud800"}, "half a character, \\ud800"),
        ({"scores": {"\udfff": 1}}, "half a character, \\udfff"),
        ({"target_language": "de\n<b>"}, "printable characters"),
        ({"target_language": "d" * 65}, "length <= 64 - at `$.target_language`"),
    ],
    ids=["half", "half of a key", "line end", "long"],
)
def test_languages_that_no_answer_can_hold_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    folder = written(tmp_path)
    edit(folder, **changes)
    with pytest.raises(CheckpointError) as refused:
        checkpoints.read(folder)
    one_sentence(str(refused.value), folder / "config.json", words)


def test_tokenizer_with_half_a_character_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path)
    path = folder / "target.json"
    content = json.loads(path.read_text())
    content["vocabulary"][-1] = "\udc80"
    path.write_text(json.dumps(content))
    edit(folder, files={**checkpoints.read_config(folder).files, "target.json": checkpoints.sha256(path)})
    with pytest.raises(CheckpointError, match="is not a tokenizer that this version reads"):
        checkpoints.read(folder)


def test_large_files_are_refused_before_they_are_read(tmp_path: Path) -> None:
    for name in ("config.json", "demo.json"):
        folder = written(tmp_path / name)
        with (folder / name).open("ab") as file:
            file.truncate(10**12)
        with pytest.raises(CheckpointError, match=r"1,000,000,000,000 bytes, and the most is 16,000,000"):
            checkpoints.read(folder)


def test_changed_config_does_not_match_its_checksum(tmp_path: Path) -> None:
    folder = written(tmp_path)
    path = folder / "config.json"
    path.write_bytes(path.read_bytes().replace(b'"max_new_tokens": 70', b'"max_new_tokens": 71'))
    with pytest.raises(CheckpointError) as refused:
        checkpoints.read(folder)
    one_sentence(str(refused.value), path, "does not match its checksum: restore it, or", "remove config.sha256")
    (folder / "config.sha256").unlink()
    assert checkpoints.read(folder).config.max_new_tokens == 71


@pytest.mark.parametrize("change", [{"model": ""}, {"writer": ""}, {"added": {"x": 99}}, {"added": {"x": -1}}], ids=str)
def test_marian_tokenizer_that_could_split_no_text_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    special = {"pad": 0, "unknown": 1, "bos": None, "eos": None}
    whole = {"vocabulary": ["<pad>", "<unk>"], "special": special, "model": "AAAA", "writer": None, "added": {}}
    (tmp_path / "t.json").write_text(json.dumps({**whole, "hidden": [], **change}))
    with pytest.raises(ValueError, match=r"A Marian tokenizer needs the|An added piece must have an id"):
        read_tokenizer("marian", tmp_path / "t.json")
