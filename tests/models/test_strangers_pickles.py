"""Files that can hold code: a checkpoint folder may have any number of them, and none is opened."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from models.networks.loading import load_network
from tests.models.folders import one_sentence
from tests.readme import ROOT
from tests.tiny import write_translator
from training import snapshot

NAMES = [
    *(
        "pytorch_model.bin",
        "model.pt",
        "model.pth",
        "weights.pkl",
        "training_args.bin",
        "scheduler.pt",
        "tokenizer.pickle",
    ),
    *("source.pkl", "target.pkl", "model.safetensors.bin", "modeling.py", "sitecustomize.py", "__init__.py", "x.so"),
    *("resume/state.pt", "resume/last.pt", "config.json.pkl", "demo.pkl", "vocab.pt", "model.npy", "model.onnx"),
]
# Reads the folder as the front end's trial, the front end and a device process do, and notes every file that is opened.
READ = """
import json, sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
from pathlib import Path
from models.model_card import licence
from models import checkpoint as checkpoints
from models.checkpoint_trial import problem_of
from models.networks.loading import load_network
folder = Path(sys.argv[1])
assert problem_of(folder) is None
load_network(checkpoints.read(folder))
licence(folder)
print(json.dumps([name for name in opened if name.startswith(str(folder))]))
"""


class Planted:
    """Leaves a mark once it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def payloads(mark: Path, folder: Path) -> list[bytes]:
    """Such an object as a bare pickle, and as torch.save writes it, in both of its forms."""
    for name, zipped in (("zipped", True), ("plain", False)):
        torch.save({"weight": Planted(mark)}, folder / name, _use_new_zipfile_serialization=zipped)
    return [pickle.dumps(Planted(mark)), (folder / "zipped").read_bytes(), (folder / "plain").read_bytes()]


def test_payload_would_run(tmp_path: Path) -> None:
    """So that the tests below can fail."""
    first, *_ = payloads(mark := tmp_path / "mark", tmp_path)
    pickle.loads(first)
    assert mark.exists()


@pytest.mark.slow  # a process that imports torch
def test_no_file_that_can_hold_code_is_opened(tmp_path: Path) -> None:
    folder, mark = write_translator(tmp_path / "tiny", "de", "en"), tmp_path / "mark"
    code = f"import pathlib; pathlib.Path({str(mark)!r}).touch()"
    for name in NAMES:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(code.encode() if name.endswith(".py") else payloads(mark, tmp_path)[len(name) % 3])
    known = {path.name for path in folder.iterdir() if path.is_file()} - set(NAMES)
    done = subprocess.run(
        [sys.executable, "-c", READ, str(folder)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    opened = {Path(name).relative_to(folder).as_posix() for name in json.loads(done.stdout.splitlines()[-1])}
    assert "config.json" in opened
    assert opened <= known | {"README.md", "demo.json", "config.sha256"}
    assert not mark.exists()


@pytest.mark.parametrize("form", range(3))
@pytest.mark.parametrize("file", ["model.safetensors", "source.json", "config.json"])
def test_pickle_in_the_place_of_a_file_is_refused_by_name(tmp_path: Path, file: str, form: int) -> None:
    """With its checksum in order, as whoever made the folder would have it."""
    folder, mark = write_translator(tmp_path / "tiny", "de", "en"), tmp_path / "mark"
    (folder / file).write_bytes(payloads(mark, tmp_path)[form])
    (folder / "config.sha256").unlink(missing_ok=True)
    if file != "config.json":
        config = json.loads((folder / "config.json").read_bytes())
        config["files"][file] = checkpoints.sha256(folder / file)
        (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError) as refusal:
        load_network(checkpoints.read(folder))
    one_sentence(str(refusal.value), folder / file)
    assert not mark.exists()


@pytest.mark.parametrize("form", range(3))
def test_snapshot_of_a_stranger_runs_nothing(tmp_path: Path, form: int) -> None:
    """resume/ is torch.save's own form: it is read as tensors and plain values."""
    path, mark = tmp_path / "state.pt", tmp_path / "mark"
    path.write_bytes(payloads(mark, tmp_path)[form])
    with pytest.raises(Exception, match=r"state\.pt|weights_only|Weights only"):
        snapshot.read(path)
    assert not mark.exists()


def test_numpy_array_with_objects_is_not_unpickled(tmp_path: Path) -> None:
    """Nothing here reads arrays with objects in them; NumPy refuses them unless it is told otherwise."""
    found = [
        path.relative_to(ROOT).as_posix()
        for package in ("app", "models", "parlance", "training")
        for path in sorted((ROOT / package).rglob("*.py"))
        if "allow_pickle=True" in (text := path.read_text("utf-8")) or "weights_only=False" in text
    ]
    assert found == []
