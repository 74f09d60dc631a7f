"""Made-up checkpoints: a reader answers with a value or its own error. Texts are
encoded and decoded by each kind of tokenizer."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st
from safetensors import safe_open

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from models.tokenizer import (
    READERS,
    MarianTokenizer,
    SpecialTokens,
    Tokenizer,
    VocabularyTokenizer,
    read_tokenizer,
)
from models.weights_file import read_header
from tests.fuzz.examples import SEED, fuzzed
from tests.models.folders import edit
from tests.pieces import trained
from tests.tiny import write_multilingual, write_translator

pytestmark = [pytest.mark.fuzz, pytest.mark.filterwarnings("ignore")]
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
    whole_model=st.booleans(),
)
def test_tokenizer_is_read_or_refused(tmp_path: Path, kind: str, change: dict[str, object], whole_model: bool) -> None:
    path = tmp_path / "t.json"
    special = {"pad": 0, "unknown": 1, "bos": None, "eos": None}
    whole = {"kind": "word", "special": special, "vocabulary": ["<pad>", "<unk>", "a"], "added": {}, "hidden": []}
    model = base64.b64encode(ENGLISH_PIECES.model).decode() if whole_model else ""
    path.write_text(json.dumps({**whole, "model": model, "writer": None, **change}))
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


ENGLISH_PIECES = trained(["the cat sat on the mat", "a dog ran", "the dog and the cat are fine"] * 3)
LISTED = [ENGLISH_PIECES.piece(i) for i in range(ENGLISH_PIECES.size)]
SPECIAL = SpecialTokens(pad=0, unknown=1, bos=2, eos=3)
ADDED = {">>de<<": 4, "cat": 5}
TOKENIZERS: dict[str, Tokenizer] = {
    "character": VocabularyTokenizer(
        "character", ["<pad>", "<unk>", " ", "a", "t", "\u0301", "猫"], SpecialTokens(0, 1)
    ),
    "word": VocabularyTokenizer("word", ["<pad>", "<unk>", "the", "cat", "🙂"], SpecialTokens(0, 1)),
    "sentencepiece": ENGLISH_PIECES,
    "marian": MarianTokenizer(LISTED, SPECIAL, ENGLISH_PIECES.model, added=ADDED),
}
words = st.sampled_from(
    [*("the", "cat", " ", "\n", "\0", ">>de<<", ">>", "<<", "</s>", "<unk>", "▁", "🙂", "\u0301", "ﬁ")]
)
texts = st.lists(words | st.text(max_size=4), max_size=12).map("".join)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_tokenizer_reads_any_text(tmp_path: Path, kind: str) -> None:
    """Also one that a file was written of."""
    TOKENIZERS[kind].write(tmp_path / "t")
    tokenizer = read_tokenizer(kind, tmp_path / "t")

    @seed(SEED)
    @fuzzed
    @given(texts, st.lists(st.integers(0, tokenizer.size - 1), max_size=12))
    def read(text: str, ids: list[int]) -> None:
        pieces, encoded = tokenizer.pieces(text), tokenizer.encode(text)
        assert [piece.id for piece in pieces] == encoded == TOKENIZERS[kind].encode(text)
        assert tokenizer.encode_all([text, "a"])[0] == encoded
        assert all(0 <= token < tokenizer.size for token in encoded)
        ends = [0, *(place for piece in pieces for place in (piece.start, piece.end)), len(text)]
        assert ends == sorted(ends)
        assert all(part in text for part in tokenizer.unknown(text))
        tokenizer.decode(encoded).encode()
        shown = tokenizer.decode(ids)
        shown.encode()
        assert shown in (tokenizer.untrimmed(ids), tokenizer.untrimmed(ids).strip())

    read()
