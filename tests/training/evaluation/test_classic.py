"""The tutorial's own network and sentence: it learns them by heart, and its attention shows the padding unread."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from models import checkpoint as checkpoints
from models.inspection.forced_pass import forced_pass
from models.networks.loading import load_network
from training.__main__ import main
from training.evaluation.model_outputs import translate
from training.report.progress_report import read_rows


@pytest.mark.slow  # a quarter of a minute: 44 million weights, twenty times
def test_classic_learns_the_sentence_by_heart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pair.tsv").write_text("ich mochte ein bier\ti want a beer\n")
    out = tmp_path / "classic"
    arguments = ["--source", "de", "--target", "en", "--train", str(tmp_path / "pair.tsv"), "--out", str(out)]
    assert main(["translator", *arguments, "--recipe", "classic", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out) == {}
    rows = [row for row in read_rows(out / "metrics.jsonl") if "loss" in row]
    assert rows[-1]["epoch"] <= 20
    assert rows[-1]["loss"] < 0.01
    checkpoint = checkpoints.read(out)
    network = load_network(checkpoint)
    assert translate(checkpoint, network, ["ich mochte ein bier"]) == ["i want a beer"]
    source, target = checkpoint.source_ids("ich mochte ein bier"), checkpoint.target_ids("i want a beer")
    assert (len(source), source[-1], len(target)) == (5, 0, 5)
    maps = forced_pass(network, source, target).maps
    assert list(maps) == ["encoder", "decoder", "cross"]
    for kind, result in maps.items():
        weights = torch.stack(result)
        assert weights.shape == (6, 8, 5, 5)
        torch.testing.assert_close(weights.sum(-1), torch.ones(6, 8, 5))
        if kind == "decoder":
            assert not weights.triu(1).any()
        else:
            assert not weights[..., 4].any()  # the column of P
            assert weights[..., :4].all()
