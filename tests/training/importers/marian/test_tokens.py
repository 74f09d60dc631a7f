"""Token ids and texts equal those of transformers' MarianTokenizer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from models import checkpoint as checkpoints
from models.tokenizer import MarianTokenizer
from tests.combinations import slow_but
from tests.training.importers.marian import folders, strings
from tests.training.importers.marian.imported import their_tokenizer
from training.importers.marian.hub_folder import MarianFolder
from training.importers.marian.tokenizer_conversion import tokenizers_of

CODES = (">>deu<<", ">>fra<<")
EXTRA = {"additional_special_tokens": ["<ent>", "<entity>"]}
BYTES = {"byte_fallback": True, "vocab_size": 500}
WHOLE = {"add_dummy_prefix": False, "remove_extra_whitespaces": False, "normalization_rule_name": "identity"}
FOLDERS: dict[str, dict[str, Any]] = {
    "common vocabulary": {"languages": CODES},
    "separate vocabularies": {"separate": True},
    "bytes": {"cutting": BYTES, "pair": ("es", "en")},
    "nothing normalised": {"cutting": WHOLE},
    "more special tokens": {"languages": CODES, "tokenizer": EXTRA, "extra_rows": 2},
}


class Case(NamedTuple):
    ours: dict[str, MarianTokenizer]
    theirs: Any


@pytest.fixture(scope="module", params=slow_but(FOLDERS, "common vocabulary", "separate vocabularies", "bytes"))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    options = dict(FOLDERS[request.param])
    more = options.pop("extra_rows", 0)
    path = folders.write(tmp_path_factory.mktemp("marian") / "folder", **options)
    theirs = their_tokenizer(path)
    rows = theirs.vocab_size + more
    yield Case(tokenizers_of(MarianFolder(path, "folder"), (rows, rows)), theirs)


def test_source_token_ids_equal_transformers(case: Case) -> None:
    texts = strings.texts()
    assert len(set(texts)) > 950
    ours, theirs = case.ours["source"], case.theirs
    assert [[*ours.encode(text), ours.special.eos] for text in texts] == [theirs(text).input_ids for text in texts]


def test_target_token_ids_equal_transformers(case: Case) -> None:
    texts = strings.texts(seed=8)
    ours, theirs = case.ours["target"], case.theirs
    expected = [theirs(text_target=text).input_ids for text in texts]
    assert [[*ours.encode(text), ours.special.eos] for text in texts] == expected


def test_written_tokenizer_gives_equal_tokens(case: Case) -> None:
    draw, size = random.Random(3), case.ours["target"].size
    answers = [[draw.randrange(size) for _ in range(draw.randint(0, 12))] for _ in range(1000)]
    answers += [case.ours["target"].encode(text) for text in strings.texts(300)]
    expected = [case.theirs.decode(ids, skip_special_tokens=True) for ids in answers]
    assert [case.ours["target"].decode(ids) for ids in answers] == expected


def test_pieces_match_ids_and_lie_in_the_text(case: Case) -> None:
    for text in strings.texts():
        for side in ("source", "target"):
            results = case.ours[side].pieces(text)
            assert [piece.id for piece in results] == case.ours[side].encode(text), text
            assert all(0 <= piece.start <= piece.end <= len(text) for piece in results), text
            assert [piece.start for piece in results] == sorted(piece.start for piece in results), text


def test_tokenizer_file_round_trip(case: Case, tmp_path: Path) -> None:
    for side, tokenizer in case.ours.items():
        path = tmp_path / checkpoints.tokenizer_file(side, tokenizer.kind)
        tokenizer.write(path)
        again = MarianTokenizer.read(path)
        assert again.special == tokenizer.special
        assert again.vocabulary == tokenizer.vocabulary
        for text in strings.texts(200):
            ids = tokenizer.encode(text)
            assert again.encode(text) == ids
            assert again.decode(ids) == tokenizer.decode(ids)
