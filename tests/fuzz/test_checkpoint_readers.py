"""Made-up checkpoints: a reader answers with a value or its own error. FUZZ_EXAMPLES and FUZZ_SEED as elsewhere."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from safetensors import safe_open

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from models.tokenizer import READERS, read_tokenizer
from models.weights_file import read_header
from tests.models.folders import edit
from tests.tiny import write_multilingual, write_translator

pytestmark = [pytest.mark.fuzz, pytest.mark.filterwarnings("ignore")]
EXAMPLES, SEED = int(os.environ.get("FUZZ_EXAMPLES", "2000")), int(os.environ.get("FUZZ_SEED", "0"))
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
sizes = st.integers(-2, 40) | st.sampled_from([1 << 31, 1 << 48, 1 << 64, 10**30])
tensors = st.dictionaries(
    st.text(max_size=3) | st.just("__metadata__"),
    values
    | st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["F32", "U8", "BF16", "F99"]),
            "shape": st.lists(sizes, max_size=3),
            "data_offsets": st.lists(sizes, min_size=2, max_size=2),
        }
    ),
    max_size=4,
)


@seed(SEED)
@fuzzed
@given(header=tensors, data=st.integers(0, 80), length=st.none() | sizes)
def test_header_that_is_accepted_is_accepted_by_the_library(
    tmp_path: Path, header: object, data: int, length: int | None
) -> None:
    text = json.dumps(header).encode()
    path = tmp_path / "w"
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length % (1 << 64)) + text + bytes(data))
    try:
        read = read_header(path)
    except ValueError:
        return
    with safe_open(path, "pt") as file:
        assert set(file.keys()) == set(read)


@seed(SEED)
@fuzzed
@given(change=st.dictionaries(st.sampled_from(sorted(checkpoints.CheckpointConfig.__dataclass_fields__)), values))
def test_config_is_read_or_refused(tmp_path: Path, change: dict[str, object]) -> None:
    folder = tmp_path / "m"
    if not folder.exists():
        write_translator(folder, "de", "en")
        (folder / "kept").write_bytes((folder / "config.json").read_bytes())
    (folder / "config.json").write_bytes((folder / "kept").read_bytes())
    edit(folder, **change)
    try:
        checkpoints.check_weights_header(folder, checkpoints.read_config(folder))
    except CheckpointError as error:
        str(error).encode()


@seed(SEED)
@fuzzed
@given(
    kind=st.sampled_from(["word", "marian"]),
    change=st.dictionaries(
        st.sampled_from(["kind", "special", "vocabulary", "added", "hidden", "model", "writer", "split_added"]), values
    ),
)
def test_tokenizer_is_read_or_refused(tmp_path: Path, kind: str, change: dict[str, object]) -> None:
    path = tmp_path / "t.json"
    special = {"pad": 0, "unknown": 1, "bos": None, "eos": None}
    whole = {"kind": "word", "special": special, "vocabulary": ["<pad>", "<unk>", "a"], "added": {}, "hidden": []}
    path.write_text(json.dumps({**whole, "model": "", "writer": None, **change}))
    try:
        tokenizer = read_tokenizer(kind, path)
    except Exception as error:
        assert not isinstance(error, MemoryError | SystemError)
    else:
        # a vocabulary without an unknown token has an error of its own for other texts
        tokenizer.decode(tokenizer.encode("a b") if tokenizer.special.unknown is not None else [])


@seed(SEED)
@fuzzed
@given(
    cuts=st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=6), st.integers(0, 6)), min_size=1, max_size=4)
)
def test_sentencepiece_model_is_read_or_refused(tmp_path: Path, cuts: list[tuple[int, bytes, int]]) -> None:
    folder = tmp_path / "m"
    if not folder.exists():
        write_multilingual(folder, [("de", "en"), ("en", "de")])
    content = (folder / "source.model").read_bytes()
    for place, new, removed in cuts:
        at = place % len(content)
        content = content[:at] + new + content[at + removed :]
    path = tmp_path / "changed.model"
    path.write_bytes(content)
    try:
        READERS["sentencepiece"](path)
    except Exception as error:
        assert not isinstance(error, MemoryError | SystemError)
