"""The tutorials' own systems through our commands and over HTTP (make test-slow). *The Random Transformer* stands in
tests/models/networks/test_attention.py, the figures of the RNN lyricists in benchmarks/results."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving import serving
from training.__main__ import main
from training.data.corpus_loading import read_text

pytestmark = pytest.mark.slow


def test_transformer_from_scratch_is_served(tmp_path: Path) -> None:
    (tmp_path / "pair.tsv").write_text("ich mochte ein bier\ti want a beer\n")
    pair = ["--source", "de", "--target", "en", "--train", str(tmp_path / "pair.tsv")]
    out = str(tmp_path / "checkpoints" / "classic")
    assert main(["translator", *pair, "--recipe", "classic", "--threads", "1", "--out", out]) == 0
    with serving(tmp_path / "checkpoints", tmp_path) as server:
        body = {"q": "ich mochte ein bier", "source": "de", "target": "en"}
        assert server.ask("/translate", body) == {"translatedText": "i want a beer"}
        shown = server.ask("/attention", {"source": "ich mochte ein bier"})
    assert [token["piece"] for token in shown["source"]["tokens"]] == ["ich", "mochte", "ein", "bier", "P"]
    assert [token["piece"] for token in shown["target"]["input_tokens"]] == ["S", "i", "want", "a", "beer"]
    assert [token["piece"] for token in shown["target"]["output_tokens"]] == ["i", "want", "a", "beer", "E"]
    assert list(shown["attention"]) == ["encoder", "decoder", "cross"]
    for kind, result in shown["attention"].items():
        assert result["shape"] == [6, 8, 5, 5]
        rows = [row for layer in result["weights"] for head in layer for row in head]
        assert len(rows) == 6 * 8 * 5
        assert all(abs(sum(row) - 1) < 1e-6 for row in rows)
        if kind != "decoder":
            assert all(row[4] == 0 for row in rows)  # the P at the end of the source is padding


@pytest.mark.parametrize("recipe", ["d2l-random", "d2l-consecutive", "d2l-adam"])
def test_tutorial_lyricist_is_trained_and_generates(tmp_path: Path, recipe: str) -> None:
    """Few epochs of our own lyrics: that the whole way works. How well is for the benchmark."""
    (tmp_path / "songs.txt").write_text(read_text("songs-zh"))
    out = tmp_path / "checkpoints" / recipe
    corpus = ["--corpus", str(tmp_path / "songs.txt"), "--cell", "rnn", "--recipe", recipe]
    assert main(["lyrics", *corpus, "--max-epochs", "3", "--threads", "1", "--out", str(out)]) == 0
    with serving(tmp_path / "checkpoints", tmp_path) as server:
        written = server.ask("/generate", {"prompt": "分开", "max_new_tokens": 50, "temperature": 0, "seed": 1})
    assert len(written["text"]) == 50
    assert "\n" not in written["text"]  # these recipes read newlines as spaces
