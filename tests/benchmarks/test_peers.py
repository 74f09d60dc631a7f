"""The same weights indeed: CTranslate2 writes our tokens in fp32."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.ours import Parlance
from benchmarks.peers.ctranslate2 import CTranslate2, convert
from benchmarks.processes import Work
from benchmarks.shapes import SHAPES, SPECIAL, random_sources, write_checkpoint
from tests.tiny import write_translator
from training.data.tokenizer_training import EOS

SHAPE = SHAPES["smoke"]
pytestmark = pytest.mark.filterwarnings("default")  # of the peers' own libraries


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("raced") / "smoke", SHAPE)


def work(beam: int) -> Work:
    sources = [source[: 20 - 3 * i] for i, source in enumerate(random_sources(SHAPE, 5, 20))]
    return Work(tuple(map(tuple, sources)), (24,) * 5, beam, 5, forced=True)


def ours(checkpoint: Path, given: Work) -> list[list[int]]:
    setting = Parlance(str(checkpoint), 1, 1, "fp32")
    return setting.tokens(setting.open().translate(given))


def theirs(setting: object, given: Work) -> list[list[int]]:
    return setting.tokens(setting.open().translate(given))  # type: ignore[attr-defined, no-any-return]


def ctranslate2(checkpoint: Path, folder: Path) -> object:
    pytest.importorskip("ctranslate2", reason="extra bench brings it")
    return CTranslate2(str(convert(checkpoint, folder)), "float32", 1, 1)


def test_the_random_network_writes_to_its_limit_and_not_one_token_again_and_again(checkpoint: Path) -> None:
    tokens = ours(checkpoint, work(1))
    assert [len(token) for token in tokens] == [24] * 5
    assert len({token for sequence in tokens for token in sequence}) > 15
    assert not {token for sequence in tokens for token in sequence} & set(SPECIAL)
    assert len(set(map(tuple, tokens))) == 5


@pytest.mark.parametrize("beam", [1, 4])
def test_ctranslate2_writes_the_same_tokens(checkpoint: Path, tmp_path: Path, beam: int) -> None:
    assert theirs(ctranslate2(checkpoint, tmp_path / "ct2"), work(beam)) == ours(checkpoint, work(beam))


def test_a_trained_kind_of_checkpoint_ends_where_ours_ends(tmp_path: Path) -> None:
    """Two vocabularies, untied, suppressed tokens, a start and an end token, the paper's positions."""
    checkpoint = write_translator(tmp_path / "words", "de", "en")
    given = Work(((5, 6, 7, EOS), (4, EOS)), (20, 20), 1, 2)
    assert theirs(ctranslate2(checkpoint, tmp_path / "ct2"), given) == ours(checkpoint, given)


class Recorder:
    def __init__(self, *_: Any, **__: Any) -> None:
        self.calls: list[tuple[int, int]] = []

    def translate_batch(self, sources: Sequence[Any], *, max_batch_size: int, **_: Any) -> list[Any]:
        self.calls.append((len(sources), max_batch_size))
        return [SimpleNamespace(hypotheses=[source]) for source in sources]


@pytest.mark.parametrize(
    ("translators", "at_once", "calls"),
    [(1, 1, [(5, 1)]), (2, 1, [(1, 1)] * 5), (2, 4, [(5, 2)]), (4, 2, [(2, 1), (2, 1), (1, 1)])],
)
def test_ctranslate2_works_on_no_more_sentences_at_once_than_we(
    monkeypatch: pytest.MonkeyPatch, translators: int, at_once: int, calls: list[tuple[int, int]]
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", SimpleNamespace(Translator=Recorder))
    setting = CTranslate2("folder", "int8", translators, 1)
    engine, given = setting.open(), Work(((4,), (5,), (6,), (7,), (8,)), (9,) * 5, 1, at_once)
    assert setting.tokens(engine.translate(given)) == [[4], [5], [6], [7], [8]]
    assert engine.translator.calls == calls
