"""Checkpoints are read in a child process first: what ends the child ends one folder's load."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import time
from pathlib import Path

import pytest

from app.engine.registry import model_registry
from models import checkpoint_trial
from models.checkpoint import CheckpointError
from models.checkpoint_trial import CheckpointTrials
from models.weights_file import read_header
from tests.app.engine.registries import read_registry
from tests.combinations import slow_but
from tests.models.folders import edit

# the child with a reader that some folders are too much for, in place of a flaw in a library
CHILD = """
import os, signal
from models import checkpoint_trial as trial

def problem_of(folder):
    if folder.name == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    while folder.name == "hangs":
        pass
    if folder.name == "grows":
        bytearray(trial.MOST_BYTES)
    print("a library's own line")
    return sound(folder)

sound, trial.problem_of = trial.problem_of, problem_of
trial.main()
"""


@pytest.fixture
def trials() -> CheckpointTrials:
    return CheckpointTrials(program=("-c", CHILD))


def copies(source: Path, root: Path, *names: str) -> list[Path]:
    """Of a checkpoint, each with a config.json of its own."""
    folders = [shutil.copytree(source, root / name) for name in names]
    for number, folder in enumerate(folders):
        edit(folder, parameters=number)
    return folders


def test_crash_is_the_problem_of_its_folder_alone(
    trials: CheckpointTrials, tiny_checkpoints: Path, tmp_path: Path
) -> None:
    first, crashes, last = folders = copies(tiny_checkpoints / "tiny-de-en", tmp_path, "first", "crashes", "last")
    trials.begin(folders)
    trials.require(first)
    with pytest.raises(CheckpointError) as refused:
        trials.require(crashes)
    assert str(refused.value) == f"{crashes} ended its reader (SIGSEGV): no checkpoint does; the model was not loaded."
    trials.require(last)


def test_weights_may_be_larger_than_the_memory_of_their_reader(tiny_checkpoints: Path, tmp_path: Path) -> None:
    (folder,) = copies(tiny_checkpoints / "tiny-de-en", tmp_path, "large")
    path, numbers = folder / "model.safetensors", 3 * checkpoint_trial.MOST_BYTES // 8
    names = list(read_header(path))
    entries = {name: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for name in names[1:]}
    header = json.dumps(entries | {names[0]: {"dtype": "F32", "shape": [numbers], "data_offsets": [0, 4 * numbers]}})
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header.encode())
        file.truncate(8 + len(header) + 4 * numbers)  # of holes
    CheckpointTrials().require(folder)


def test_reader_that_hangs_or_grows_is_ended(trials: CheckpointTrials, tiny_checkpoints: Path, tmp_path: Path) -> None:
    first, hangs, grows = folders = copies(tiny_checkpoints / "tiny-de-en", tmp_path, "first", "hangs", "grows")
    trials.begin(folders)
    trials.require(first)
    trials.limit_s = 0.1
    with pytest.raises(CheckpointError, match="hangs kept its reader busy for too long"):
        trials.require(hangs)
    trials.limit_s = 60
    with pytest.raises(CheckpointError, match=r"grows ended its reader \(status 1\)"):
        trials.require(grows)


@pytest.mark.slow  # waits 1 s
def test_a_sound_folder_does_not_answer_for_the_one_that_hangs_behind_it(
    tiny_checkpoints: Path, tmp_path: Path
) -> None:
    """Two answers that came at once were read at once, and the second was waited for again."""
    first, second, hangs = folders = copies(tiny_checkpoints / "tiny-de-en", tmp_path, "first", "second", "hangs")
    answered = tmp_path / "answered"
    child = f"""
import time
from models.child_process import ParentChannel
channel = ParentChannel(lambda body: [body])
channel.receive(None)
channel.send([None])
channel.send([None])
open({str(answered)!r}, "w").close()
time.sleep(1000)
"""
    trials = CheckpointTrials(limit_s=1, program=("-c", child))
    trials.begin(folders)
    while not answered.exists():
        time.sleep(0.01)
    trials.require(first)
    trials.require(second)
    with pytest.raises(CheckpointError, match="hangs kept its reader busy for too long"):
        trials.require(hangs)


@pytest.mark.slow  # waits 2 s
def test_half_an_answer_is_waited_for_no_longer_than_a_whole_one(tiny_checkpoints: Path, tmp_path: Path) -> None:
    (folder,) = copies(tiny_checkpoints / "tiny-de-en", tmp_path, "half")
    child = "import os, sys, time; os.write(int(sys.argv[-1]), bytes(2)); time.sleep(20)"
    with pytest.raises(CheckpointError, match="half kept its reader busy for too long"):
        CheckpointTrials(limit_s=2, program=("-c", child)).require(folder)


@pytest.mark.parametrize("said", [b"\xff\xff\xff\xff", b"\0\0\0\1\xc1", b"\0\0\0\2\x91\x07"])
def test_child_that_sends_garbage_costs_its_folder(said: bytes, tiny_checkpoints: Path, tmp_path: Path) -> None:
    """A length over the limit, a body that is no msgpack, and a message of another type."""
    (folder,) = copies(tiny_checkpoints / "tiny-de-en", tmp_path, "taken-over")
    child = f"import os, socket, sys; socket.socket(fileno=int(sys.argv[-1])).sendall({said!r}); os._exit(3)"
    with pytest.raises(CheckpointError, match=r"taken-over ended its reader \(status 3\)"):
        CheckpointTrials(program=("-c", child)).require(folder)


def test_checkpoint_is_tried_also_by_a_server_of_many_connections(
    trials: CheckpointTrials, tiny_checkpoints: Path, tmp_path: Path
) -> None:
    """select takes no descriptor beyond 1023: a reload was an internal error."""
    (folder,) = copies(tiny_checkpoints / "tiny-de-en", tmp_path, "m")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2048), limits[1]))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for _ in range(1100):
            stack.enter_context(open(os.devnull))  # noqa: PTH123
        trials.require(folder)


@pytest.mark.parametrize(
    "name",
    slow_but(
        ["config.json", "config.sha256", "model.safetensors", "source.json", "demo.json", "notices.json"],
        *("config.json", "model.safetensors", "notices.json"),
    ),
)
def test_a_pipe_in_place_of_a_file_is_refused_and_waited_for_by_nobody(
    name: str, tiny_checkpoints: Path, tmp_path: Path
) -> None:
    (folder,) = copies(tiny_checkpoints / "tiny-de-en", tmp_path, "m")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(CheckpointError, match=rf"{name} .*it is no regular file"):
        CheckpointTrials(limit_s=30).require(folder)


def test_sound_checkpoint_is_read_once(tiny_checkpoints: Path, tmp_path: Path) -> None:
    (folder,) = copies(tiny_checkpoints / "tiny-lyrics", tmp_path, "a")
    trials = CheckpointTrials()
    trials.require(folder)
    trials._program = ("-c", "raise SystemExit('no further child')")
    trials.require(folder)
    trials.require(shutil.copytree(folder, tmp_path / "b"))
    edit(folder, parameters=17)
    with pytest.raises(CheckpointError, match="ended its reader"):
        trials.require(folder)


def test_checkpoints_beyond_their_weights_are_refused_by_name_and_the_others_served(
    tiny_checkpoints: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    folder = root / "tiny-de-en"
    config = json.loads((folder / "config.json").read_text())
    edit(folder, architecture={**config["architecture"], "encoder_layers": 1_000_000})
    registry = read_registry(root)
    assert list(registry.versions) == ["tiny-en-es", "tiny-lyrics"]
    assert registry.problems == {
        "tiny-de-en": f"{folder}/config.json describes no network that can be built: encoder_layers is 1,000,000, and"
        " the weights are 63 tensors."
    }


def test_front_end_reads_no_tokenizer_before_its_trial(
    tiny_checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder,) = copies(tiny_checkpoints / "tiny-lyrics", tmp_path / "c", "m")
    monkeypatch.setattr(model_registry, "TRIALS", CheckpointTrials(program=("-c", "raise SystemExit(7)")))
    monkeypatch.setattr("models.checkpoint.read_tokenizer", lambda kind, path: pytest.fail("read"))
    assert read_registry(tmp_path / "c").problems == {
        "m": f"{folder} ended its reader (status 7): no checkpoint does; the model was not loaded."
    }


def test_trial_names_what_is_wrong(tiny_checkpoints: Path, tmp_path: Path) -> None:
    (folder,) = copies(tiny_checkpoints / "tiny-de-en", tmp_path, "m")
    assert checkpoint_trial.problem_of(folder) is None
    (folder / "source.json").write_text("{}")
    assert checkpoint_trial.problem_of(folder) == (
        f"{folder}/source.json is not a tokenizer that this version reads ('kind')."
    )
