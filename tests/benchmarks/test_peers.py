"""The same weights indeed: ours, CTranslate2 and Hugging Face Marian write the same tokens in fp32."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ours import Parlance
from benchmarks.peers.eager import Loop
from benchmarks.processes import Work
from benchmarks.shapes import SHAPES, SPECIAL, random_sources, write_checkpoint
from models import checkpoint as checkpoints
from tests.tiny import write_translator
from training.data.tokenizer_training import EOS

SHAPE = SHAPES["smoke"]
pytestmark = pytest.mark.filterwarnings("default")  # of the peers' own libraries


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("raced") / "smoke", SHAPE)


def work(beam: int, *, ragged: bool = True) -> Work:
    sources = [source[: 20 - 3 * i * ragged] for i, source in enumerate(random_sources(SHAPE, 5, 20))]
    return Work(tuple(map(tuple, sources)), (24,) * 5, beam, 5, forced=True)


def ours(checkpoint: Path, given: Work) -> list[list[int]]:
    setting = Parlance(str(checkpoint), 1, 1, "fp32")
    return setting.tokens(setting.open().translate(given))


def theirs(setting: object, given: Work) -> list[list[int]]:
    return setting.tokens(setting.open().translate(given))  # type: ignore[attr-defined, no-any-return]


def ctranslate2(checkpoint: Path, folder: Path) -> object:
    pytest.importorskip("ctranslate2", reason="extra bench brings it")
    from benchmarks.peers.ctranslate2 import CTranslate2, convert

    return CTranslate2(str(convert(checkpoint, folder)), "float32", 1, 1)


def marian(checkpoint: Path) -> object:
    pytest.importorskip("transformers", reason="extra bench brings it")
    from benchmarks.peers.marian import Marian

    return Marian(str(checkpoint), 1, 1, "fp32")


def test_the_random_network_writes_to_its_limit_and_not_one_token_again_and_again(checkpoint: Path) -> None:
    tokens = ours(checkpoint, work(1))
    assert [len(token) for token in tokens] == [24] * 5
    assert len({token for sequence in tokens for token in sequence}) > 15
    assert not {token for sequence in tokens for token in sequence} & set(SPECIAL)
    assert len(set(map(tuple, tokens))) == 5


@pytest.mark.parametrize("beam", [1, 4])
def test_ctranslate2_writes_the_same_tokens(checkpoint: Path, tmp_path: Path, beam: int) -> None:
    assert theirs(ctranslate2(checkpoint, tmp_path / "ct2"), work(beam)) == ours(checkpoint, work(beam))


@pytest.mark.parametrize("beam", [1, 4])
def test_hugging_face_marian_writes_the_same_tokens(checkpoint: Path, beam: int) -> None:
    assert theirs(marian(checkpoint), work(beam)) == ours(checkpoint, work(beam))


@pytest.mark.parametrize("beam", [1, 4])
def test_the_plain_loop_writes_the_same_tokens(checkpoint: Path, beam: int) -> None:
    given = work(beam, ragged=False)
    assert theirs(Loop(str(checkpoint), "eager", "cpu", "fp32"), given) == ours(checkpoint, given)


def test_a_trained_kind_of_checkpoint_ends_where_ours_ends(tmp_path: Path) -> None:
    """Two vocabularies, untied, suppressed tokens, a start and an end token, the paper's positions."""
    checkpoint = write_translator(tmp_path / "words", "de", "en")
    given = Work(((5, 6, 7, EOS), (4, EOS)), (20, 20), 1, 2)
    assert theirs(ctranslate2(checkpoint, tmp_path / "ct2"), given) == ours(checkpoint, given)


def test_what_marian_cannot_be_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="extra bench brings it")
    from benchmarks.peers.marian import build

    checkpoint = write_translator(tmp_path / "words", "de", "en")
    assert checkpoints.read_config(checkpoint).architecture["tied"] == "none"
    with pytest.raises(ValueError, match="tied output"):
        build(checkpoint)
