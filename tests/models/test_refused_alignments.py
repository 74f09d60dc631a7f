"""What config.json may say of alignment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from models import checkpoint as checkpoints

GOOD = {"heads": [[1, 0], [1, 3]], "convention": "input", "error": 0.05, "sentences": 50}


def read(folder: Path, tmp_path: Path, alignment: Any) -> checkpoints.CheckpointConfig:
    content = json.loads((folder / checkpoints.CONFIG).read_text(encoding="utf-8"))
    content["alignment"] = alignment
    (tmp_path / checkpoints.CONFIG).write_text(json.dumps(content), encoding="utf-8")
    return checkpoints.read_config(tmp_path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"heads": [[True, False]]}, r"alignment\.heads must be pairs"),
        ({"heads": [[2, 0]]}, r"alignment\.heads must be pairs of a layer in 0\.\.1 and a head in 0\.\.3"),
        ({"error": float("nan")}, r"alignment\.error must be a number in 0\.\.1"),
        ({"error": -5}, r"alignment\.error must be a number in 0\.\.1"),
        ({"error": True}, r"alignment\.error must be a number in 0\.\.1"),
        ({"convention": ["input"]}, r"alignment\.convention must be predicting or input"),
    ],
)
def test_unusable_alignment_is_refused_in_one_sentence(
    tiny_checkpoints: Path, tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    folder = tiny_checkpoints / "tiny-de-en"
    assert read(folder, tmp_path, GOOD).alignment == GOOD
    assert read(folder, tmp_path, None).alignment is None
    with pytest.raises(checkpoints.CheckpointError, match=says):
        read(folder, tmp_path, GOOD | change)
