"""Marian's texts are trimmed, which the parts of a stream must not show."""

from __future__ import annotations

import random
from typing import Any

import pytest

from app.engine.output.output_processor import Detokenizer
from models.tokenizer import MarianTokenizer
from tests.training.importers.marian import folders, strings
from training.importers.marian.hub_folder import MarianFolder
from training.importers.marian.tokenizer_conversion import tokenizers_of

CUTTING: dict[str, dict[str, Any]] = {
    "as OPUS-MT": {},
    "bytes": {"byte_fallback": True, "vocab_size": 500},
    "no space before a text": {"add_dummy_prefix": False, "remove_extra_whitespaces": False},
}


@pytest.fixture(scope="module", params=CUTTING)
def writer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MarianTokenizer:
    path = tmp_path_factory.mktemp("marian") / "folder"
    folders.write(path, cutting=CUTTING[request.param], languages=[">>deu<<"])
    rows = len(folders.vocabulary([(path / name).read_bytes() for name in ("source.spm", "target.spm")], [">>deu<<"]))
    return tokenizers_of(MarianFolder(path, "folder"), (rows, rows))["target"]


def answers(writer: MarianTokenizer) -> list[list[int]]:
    """Texts, and tokens at random: every third stands for white space alone."""
    draw, blank = random.Random(11), writer.vocabulary.index("▁")
    tokens = [
        [draw.choice([blank, draw.randrange(writer.size), draw.randrange(writer.size)]) for _ in range(9)]
        for _ in range(400)
    ]
    return [*tokens, *(writer.encode(text) for text in strings.texts(300)), [blank], [blank, blank, 40], [40, blank]]


def test_the_parts_of_a_stream_join_to_its_text(writer: MarianTokenizer) -> None:
    draw = random.Random(2)
    for ids in answers(writer):
        detokenizer, parts, place = Detokenizer(writer), [], 0
        while place < len(ids):
            step = draw.randint(1, 3)
            parts.append(detokenizer.feed(ids[place : place + step]))
            place += step
        assert "".join([*parts, detokenizer.finish()]) == writer.decode(ids)


def test_white_space_waits_for_the_next_word(writer: MarianTokenizer) -> None:
    word, blank = next(i for i, piece in enumerate(writer.vocabulary) if piece.isalpha()), writer.vocabulary.index("▁")
    detokenizer, text = Detokenizer(writer), writer.vocabulary[word]
    assert [detokenizer.feed([token]) for token in (blank, word, blank, word, blank)] == ["", text, "", f" {text}", ""]
    assert detokenizer.finish() == ""
