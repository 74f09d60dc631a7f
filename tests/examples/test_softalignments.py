"""The file that SoftAlignments reads, from a checkpoint to its numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from examples import softalignments
from examples.sentence import look
from models import checkpoint as checkpoints
from models.inspection.forced_pass import forced_pass
from models.networks.loading import load_network
from tests.examples.conftest import TARGET, TEXT


def written(out: Path, *given: object) -> tuple[list[str], torch.Tensor]:
    softalignments.main([*map(str, given), "--out", str(out)])
    head, *rows = out.read_text(encoding="utf-8").rstrip("\n").split("\n")
    return head.split(" ||| "), torch.tensor([[float(value) for value in row.split(" ")] for row in rows])


def test_the_file_holds_the_map_of_the_forced_target(translators: dict[str, Path], tmp_path: Path) -> None:
    folder = translators["deep decoder"]
    head, rows = written(tmp_path / "a.txt", folder, TEXT, "--target", TARGET, "--layer", 1, "--head", -1)
    checkpoint = checkpoints.read(folder)
    target = checkpoint.target_ids(TARGET)
    seen = forced_pass(load_network(checkpoint), checkpoint.source_ids(TEXT), target)
    torch.testing.assert_close(rows, seen.maps["cross"][1][-1], rtol=0, atol=1e-6)
    chosen = seen.logits.index_fill(1, torch.tensor(checkpoint.config.suppressed), -torch.inf).log_softmax(-1)
    outputs = [*target[1:], checkpoint.config.eos]
    expected = sum(chosen[row, token].item() for row, token in enumerate(outputs))  # type: ignore[index]
    assert (head[0], head[1], head[3], head[4]) == ("0", TARGET, TEXT, "4 4")
    assert abs(float(head[2]) - expected) <= 1e-5


def test_without_a_head_it_is_their_mean_and_without_a_target_the_translation(
    translators: dict[str, Path], tmp_path: Path
) -> None:
    folder = translators["equal"]
    head, rows = written(tmp_path / "a.txt", folder, TEXT)
    seen = look(folder, TEXT)
    torch.testing.assert_close(rows[: len(seen.outputs)], seen.maps["cross"][-1].mean(dim=0), rtol=0, atol=1e-6)
    assert head[1].split(" ") == (seen.outputs[:-1] if seen.ended else seen.outputs)
    assert head[4] == f"4 {len(rows)}"
    again, same = written(tmp_path / "b.txt", folder, TEXT, "--target", " ".join(head[1].split(" ")))
    assert again[1] == head[1]
    torch.testing.assert_close(same[: len(seen.outputs)], rows[: len(seen.outputs)], rtol=0, atol=1e-6)


def test_a_layer_that_is_not_there(translators: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        softalignments.main([str(translators["equal"]), TEXT, "--layer", "7"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "There is no layer 7: this model has 2 (layers 0 to 1).\n"
