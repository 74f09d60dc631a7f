"""The loop: limits, the best weights, and runs that stop and go on as if they had not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models import checkpoint as checkpoints
from models.networks import load_network
from tests.training.small import CPU, lyricist, pairs, text, translator
from training import loop as loops
from training import snapshot
from training.config import LoopConfig, OptimizerConfig
from training.errors import TrainingError
from training.loop import Loop, Outcome
from training.lyricist import train_lyricist
from training.report import Report, read_metrics
from training.translator import train_translator

pytestmark = pytest.mark.usefixtures("no_curves")


class Counting:
    """A task whose one weight is the number of updates, and whose validation says what it is told to."""

    def __init__(self, validations: Sequence[float | None] = (), batches: int = 1) -> None:
        self.network = nn.Linear(1, 1, bias=False)
        self.network.weight.data.zero_()
        self.validations, self.count = iter(validations), batches
        self.seen: list[float] = []
        self.after_loss: Callable[[], None] = lambda: None
        self.state = torch.zeros(1)

    def batches(self, epoch: int) -> list[int]:
        return list(range(self.count))

    def loss(self, batch: int) -> tuple[Tensor, int]:
        assert self.network.training
        self.after_loss()
        self.state = self.state + 1
        return -self.network.weight.sum(), 1

    def validate(self) -> float | None:
        assert not self.network.training
        assert torch.is_inference_mode_enabled()
        self.seen.append(self.network.weight.item())
        return next(self.validations, None)

    def carried(self) -> dict[str, Tensor]:
        return {"state": self.state}

    def restore(self, carried: dict[str, Tensor]) -> None:
        self.state = carried["state"]


STEP_BY_ONE = OptimizerConfig(name="sgd", rate=1.0, clip_norm=0.0)


def looping(task: Any, folder: Path | None = None, optimizer: OptimizerConfig = STEP_BY_ONE, **limits: Any) -> Loop:
    config = LoopConfig(precision="fp32", **limits)
    return Loop(task, optimizer, config, folder=folder, report=Report(folder, "", quiet=True), device=CPU)


def weight(outcome: Outcome) -> float:
    return outcome.weights["weight"].item()


def test_the_best_weights_are_kept_and_not_the_last() -> None:
    task = Counting([3.0, 1.0, 2.0, 1.5])
    outcome = looping(task, max_epochs=4).run()
    assert task.seen == [1.0, 2.0, 3.0, 4.0]
    assert (weight(outcome), outcome.progress.best_loss, outcome.progress.best_update) == (2.0, 1.0, 2)
    assert task.network.weight.item() == 4.0
    assert outcome.ended_by == "the limit of 4 epochs"


def test_an_equal_loss_is_no_gain() -> None:
    assert weight(looping(Counting([1.0, 1.0, 1.0]), max_epochs=3).run()) == 1.0


def test_patience_counts_validations_without_a_gain() -> None:
    task = Counting([3.0, 1.0, 2.0, 1.0, 0.5, 2.0, 2.0, 2.0, 0.1])
    outcome = looping(task, max_epochs=50, patience=3).run()
    assert outcome.ended_by == "3 validations without a gain"
    assert (outcome.progress.epoch, outcome.progress.best_update, weight(outcome)) == (8, 5, 5.0)


def test_without_validation_the_last_weights_are_kept() -> None:
    assert weight(looping(Counting(), max_epochs=3, patience=1).run()) == 3.0


def test_a_validation_that_is_not_a_number_is_no_gain() -> None:
    outcome = looping(Counting([2.0, float("nan"), 1.0, float("nan")]), max_epochs=4).run()
    assert (weight(outcome), outcome.progress.without_gain) == (3.0, 1)


def test_validation_sees_and_keeps_the_average_and_training_goes_on_without_it() -> None:
    task = Counting([3.0, 1.0, 2.0])
    outcome = looping(task, max_epochs=3, average_decay=0.25).run()
    first = 9 / 11  # 2/11 of 0, the rest of 1
    second = 0.25 * first + 0.75 * 2
    assert task.seen == pytest.approx([first, second, 0.25 * second + 0.75 * 3])
    assert weight(outcome) == pytest.approx(second)
    assert task.network.weight.item() == 3.0


def test_validation_comes_every_so_many_epochs_and_at_the_end() -> None:
    task = Counting([1.0] * 9)
    looping(task, max_epochs=7, validate_every_epochs=3).run()
    assert task.seen == [3.0, 6.0, 7.0]


def test_minutes_end_a_run_in_the_middle_of_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(loops, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    task = Counting([5.0, 4.0, 3.0], batches=4)

    def ten_seconds() -> None:
        clock[0] += 10

    task.after_loss = ten_seconds
    outcome = looping(task, max_epochs=10_000, max_minutes=1.0).run()
    assert outcome.ended_by == "the limit of 1 minutes"
    assert (outcome.progress.update, outcome.progress.epoch, outcome.progress.batch) == (6, 1, 2)
    assert task.seen == [4.0, 6.0]  # what was learnt since the last validation counts too
    assert weight(outcome) == 6.0


def test_the_cosine_falls_by_whichever_limit_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(loops, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    optimizer = replace(STEP_BY_ONE, schedule="cosine", final_fraction=0.0)
    for seconds, limits in ((0, {"max_epochs": 4}), (15, {"max_epochs": 10_000, "max_minutes": 1.0})):
        task, rates = Counting(), []
        loop = looping(task, optimizer=optimizer, **limits)

        def tick(seconds: int = seconds) -> None:
            clock[0] += seconds

        task.after_loss = tick
        original = loop.report.step

        def step(*arguments: Any, rates: list[float] = rates, original: Callable[..., None] = original) -> None:
            rates.append(arguments[4])
            original(*arguments)

        loop.report.step = step  # type: ignore[method-assign]
        loop.run()
        assert rates == pytest.approx([1.0, 0.8535534, 0.5, 0.1464466], abs=1e-3)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_ends_the_run_and_spares_the_snapshot(tmp_path: Path, value: float) -> None:
    class Diverging(Counting):
        def loss(self, batch: int) -> tuple[Tensor, int]:
            loss, tokens = super().loss(batch)
            return (loss * value if self.state.item() == 3 else loss), tokens

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "SNAPSHOT_EVERY_S", 0.0)
        with pytest.raises(TrainingError, match=r"^The loss became -?(nan|inf) at update 3: lower the learning rate"):
            looping(Diverging(), tmp_path, max_epochs=9).run()
    assert snapshot.load(tmp_path)["network"]["weight"].item() == 2.0


def test_a_corpus_too_small_for_one_batch() -> None:
    with pytest.raises(TrainingError, match=r"^This corpus is too small for a single batch"):
        looping(Counting(batches=0)).run()


def test_a_snapshot_keeps_the_best_weights_as_they_were(tmp_path: Path) -> None:
    looping(Counting([1.0, 2.0]), tmp_path, max_epochs=2).run()
    state = snapshot.load(tmp_path)
    assert (state["network"]["weight"].item(), state["best"]["weight"].item()) == (2.0, 1.0)
    again = Counting([3.0, 0.5])
    outcome = looping(again, tmp_path, max_epochs=3).run(resume=True)
    assert (again.seen, weight(outcome), again.state.item()) == ([3.0], 1.0, 3.0)
    outcome = looping(Counting([0.5]), tmp_path, max_epochs=4).run(resume=True)
    assert (weight(outcome), outcome.progress.best_update) == (4.0, 4)


def test_patience_goes_on_counting_after_a_resume(tmp_path: Path) -> None:
    looping(Counting([1.0, 2.0]), tmp_path, max_epochs=2, patience=3).run()
    outcome = looping(Counting([2.0] * 9), tmp_path, max_epochs=9, patience=3).run(resume=True)
    assert outcome.progress.epoch == 4


# Runs that stop and go on ---------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for a signal: nothing may catch it and carry on."""


def translate(out: Path, epochs: int = 4, *, resume: bool = False, **changes: Any) -> dict[str, Any]:
    config = translator(**changes)
    config = replace(config, loop=replace(config.loop, max_epochs=epochs))
    return train_translator(config, pairs(40), pairs(10, seed=1), out=out, device=CPU, resume=resume, quiet=True)


def sing(out: Path, epochs: int = 4, *, resume: bool = False, **changes: Any) -> dict[str, Any]:
    config = lyricist(**changes)
    config = replace(config, loop=replace(config.loop, max_epochs=epochs))
    return train_lyricist(config, text(300), origin="made up", out=out, device=CPU, resume=resume, quiet=True)


def sing_random(out: Path, epochs: int = 4, *, resume: bool = False, **changes: Any) -> dict[str, Any]:
    return sing(out, epochs, resume=resume, sampling="random", **changes)


def sing_unheard(out: Path, epochs: int = 4, *, resume: bool = False, **changes: Any) -> dict[str, Any]:
    """Nothing held out, SGD, LSTM: what the tutorials' recipes do."""
    network = {"cell": "lstm", "embedding": 0, "hidden": 8}
    optimizer = OptimizerConfig(name="sgd", rate=0.5, clip_norm=0.1)
    return sing(out, epochs, resume=resume, network=network, optimizer=optimizer, valid_share=0.0, **changes)


RUNS = [translate, sing, sing_random, sing_unheard]


def timeless(folder: Path) -> list[dict[str, Any]]:
    rows = read_metrics(folder / "metrics.jsonl")
    return [{k: v for k, v in row.items() if k not in ("seconds", "tokens_per_second")} for row in rows]


def assert_equal(a: Any, b: Any, where: str = "") -> None:
    """Bit for bit, through dictionaries and lists."""
    assert type(a) is type(b), where
    if isinstance(a, Tensor):
        assert torch.equal(a, b), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            if key != "seconds":
                assert_equal(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_equal(x, y, f"{where}[{i}]")
    else:
        assert a == b or (a != a and b != b), where


def assert_same_run(a: Path, b: Path) -> None:
    assert (a / "model.safetensors").read_bytes() == (b / "model.safetensors").read_bytes()
    assert timeless(a) == timeless(b)
    assert len(timeless(a)) >= 4
    assert_equal(snapshot.load(a), snapshot.load(b))
    configs = [checkpoints.read(folder).config for folder in (a, b)]
    assert_equal(dict(configs[0].scores), dict(configs[1].scores))
    assert configs[0].scores


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Callable[..., Any]], Path]]:
    """Each kind of run in one go, once for all tests."""
    done: dict[str, Path] = {}

    def get(train: Callable[..., Any]) -> Path:
        name = train.__name__
        if name not in done:
            done[name] = tmp_path_factory.mktemp(name)
            train(done[name])
        return done[name]

    yield get


@pytest.mark.parametrize("train", RUNS)
def test_two_epochs_and_two_more_equal_four(tmp_path: Path, train: Any, whole: Callable[..., Path]) -> None:
    train(tmp_path, 2)
    half = snapshot.load(tmp_path)["network"]
    train(tmp_path, 4, resume=True)
    assert_same_run(tmp_path, whole(train))
    assert any(not torch.equal(t, half[name]) for name, t in snapshot.load(tmp_path)["network"].items())


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int) -> list[tuple[int, int]]:
    """End the run behind its snapshot `number`, from 1; (epoch, batch) of every snapshot."""
    original, seen = snapshot.save, []

    def save(folder: Path, state: dict[str, Any]) -> None:
        original(folder, state)
        seen.append((state["progress"]["epoch"], state["progress"]["batch"]))
        if len(seen) == number:
            raise Killed

    monkeypatch.setattr(snapshot, "save", save)
    monkeypatch.setattr(loops, "SNAPSHOT_EVERY_S", 0.0)
    return seen


@pytest.mark.parametrize("number", [1, 2, 7])
@pytest.mark.parametrize("train", RUNS)
def test_a_run_killed_at_any_snapshot_goes_on_as_if_it_had_not(
    tmp_path: Path, train: Any, number: int, whole: Callable[..., Path]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        seen = kill_at(patch, number)
        with pytest.raises(Killed):
            train(tmp_path)
    assert seen[0] == (0, 1)  # inside the first epoch
    assert not checkpoints.is_checkpoint(tmp_path)
    train(tmp_path, resume=True)
    assert_same_run(tmp_path, whole(train))


def test_a_run_killed_again_and_again(tmp_path: Path, whole: Callable[..., Path]) -> None:
    """With a falling rate that knows the end, and with log lines written after the snapshots."""
    changes = {"optimizer": OptimizerConfig(rate=1e-2, schedule="cosine", warmup_updates=3)}
    translate(tmp_path / "whole", **changes)
    resume = False
    for number in (3, 1, 4):
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, number)
            with pytest.raises(Killed):
                translate(tmp_path / "parts", resume=resume, **changes)
        with (tmp_path / "parts" / "metrics.jsonl").open("a") as file:
            file.write('{"update": 9999, "epoch": 0, "loss": 0.0}\n{"update": 77, "lo')
        resume = True
    translate(tmp_path / "parts", resume=True, **changes)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_whole_run_resumed_changes_nothing(tmp_path: Path, whole: Callable[..., Path]) -> None:
    for train in (translate, sing_unheard):
        out = tmp_path / train.__name__
        train(out)
        train(out, resume=True)
        assert_same_run(out, whole(train))


def test_the_log_within_an_epoch_is_the_same_after_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "LOG_EVERY_UPDATES", 5)
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    looping(Counting(batches=12), tmp_path / "whole", max_epochs=2).run()
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 8)
        with pytest.raises(Killed):
            looping(Counting(batches=12), tmp_path / "parts", max_epochs=2).run()
    looping(Counting(batches=12), tmp_path / "parts", max_epochs=2).run(resume=True)
    assert timeless(tmp_path / "parts") == timeless(tmp_path / "whole")
    losses = {row["update"]: row["loss"] for row in timeless(tmp_path / "whole")}
    assert losses == pytest.approx({5: -2.0, 10: -7.0, 12: -10.5, 15: -13.0, 20: -17.0, 24: -21.5})


@pytest.mark.parametrize(
    "change",
    [
        {"max_tokens": 255},
        {"label_smoothing": 0.2},
        {"optimizer": OptimizerConfig(rate=1e-3)},
        {"network": {**translator().network, "d_model": 32}},
        {"loop": LoopConfig(average_decay=0.0)},
        {"loop": LoopConfig(average_decay=0.9, seed=2)},
    ],
)
def test_another_recipe_cannot_go_on(tmp_path: Path, change: dict[str, Any]) -> None:
    translate(tmp_path, 1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(TrainingError) as caught:
        translate(tmp_path, 2, resume=True, **change)
    assert str(caught.value) == (
        f"{tmp_path} was trained with another recipe, corpus or seed; resume it with the same ones."
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_another_corpus_cannot_go_on_even_with_the_same_vocabulary(tmp_path: Path) -> None:
    translate(tmp_path / "t", 1)
    with pytest.raises(TrainingError, match="another recipe, corpus or seed"):
        train_translator(translator(), pairs(40, seed=9), None, out=tmp_path / "t", device=CPU, resume=True, quiet=True)
    sing(tmp_path / "s", 1)
    with pytest.raises(TrainingError, match="another recipe, corpus or seed"):
        train_lyricist(lyricist(), text(300)[::-1], origin="", out=tmp_path / "s", device=CPU, resume=True, quiet=True)


def test_more_time_may_be_given_at_a_resume(tmp_path: Path) -> None:
    translate(tmp_path, 1)
    config = translator(loop=LoopConfig(max_epochs=2, average_decay=0.9, max_minutes=60.0, patience=3))
    train_translator(config, pairs(40), pairs(10, seed=1), out=tmp_path, device=CPU, resume=True, quiet=True)
    assert snapshot.load(tmp_path)["progress"]["epoch"] == 2


# Snapshots ------------------------------------------------------------------------------------------------


def saved(folder: Path) -> float:
    return float(snapshot.load(folder)["number"])


@pytest.mark.parametrize("dies_at", [1, 2])
def test_a_kill_between_the_renames_leaves_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    snapshot.save(tmp_path, {"number": 1})
    rename, calls = Path.rename, [0]

    def dying(self: Path, target: Path) -> Path:
        calls[0] += 1
        if calls[0] == dies_at:
            raise Killed
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dying)
        with pytest.raises(Killed):
            snapshot.save(tmp_path, {"number": 2})
    assert snapshot.exists(tmp_path)
    assert saved(tmp_path) == 1
    snapshot.save(tmp_path, {"number": 3})
    assert saved(tmp_path) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["resume"]


def test_the_only_snapshot_is_not_removed_before_the_next_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot.save(tmp_path, {"number": 1})
    (tmp_path / "resume").rename(tmp_path / "resume.old")  # a kill between the renames

    def dying(self: Path, target: Path) -> Path:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dying)
        with pytest.raises(Killed):
            snapshot.save(tmp_path, {"number": 2})
    assert saved(tmp_path) == 1


def test_a_snapshot_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    snapshot.save(tmp_path, {"number": 1})
    path = tmp_path / "resume" / "state.pt"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(TrainingError, match=r"state\.pt cannot be read"):
        snapshot.load(tmp_path)


def test_a_snapshot_cannot_run_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    (tmp_path / "resume").mkdir()
    torch.save({"evil": Evil()}, tmp_path / "resume" / "state.pt")
    with pytest.raises(TrainingError, match="cannot be read"):
        snapshot.load(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    assert not snapshot.exists(tmp_path)
    with pytest.raises(TrainingError, match="has no run to resume"):
        snapshot.load(tmp_path)


def test_a_kill_in_the_middle_of_publishing_can_be_made_good(tmp_path: Path, whole: Callable[..., Path]) -> None:
    replace_file, moved = Path.replace, []

    def dying(self: Path, target: Path) -> Path:
        if len(moved) == 2:
            raise Killed
        moved.append(target)
        return replace_file(self, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", dying)
        with pytest.raises(Killed):
            translate(tmp_path)
    assert len(moved) == 2
    assert not checkpoints.is_checkpoint(tmp_path)
    (tmp_path / ".staging").mkdir(exist_ok=True)  # as `kill -9` would leave it
    (tmp_path / ".staging" / "model.safetensors").write_bytes(b"half")
    with pytest.raises(TrainingError, match="holds an unfinished run; go on with --resume"):
        translate(tmp_path)
    translate(tmp_path, resume=True)
    assert_same_run(tmp_path, whole(translate))
    assert not (tmp_path / ".staging").exists()
    assert json.loads((tmp_path / "config.json").read_text())["files"].keys() == {
        "model.safetensors",
        "source.json",
        "target.json",
    }


def test_the_published_weights_have_the_held_out_loss_that_chose_them(whole: Callable[..., Path]) -> None:
    """Averaged weights, pair by pair, through a file and back."""
    folder = whole(translate)
    checkpoint = checkpoints.read(folder)
    network, valid = load_network(checkpoint), pairs(10, seed=1)
    nats, tokens = 0.0, 0
    for source, target in zip(valid.sources, valid.targets, strict=True):
        ids = [*checkpoint.target_ids(target), 3]
        with torch.inference_mode():
            logits = network(torch.tensor([checkpoint.source_ids(source)]), torch.tensor([ids[:-1]]))[0]
        log_p = torch.log_softmax(logits.double(), -1)
        nats -= sum(float(log_p[t, following]) for t, following in enumerate(ids[1:]))
        tokens += len(ids) - 1
    losses = [row["valid_loss"] for row in timeless(folder) if "valid_loss" in row]
    assert nats / tokens == pytest.approx(min(losses), rel=1e-5)
    song = checkpoints.read(whole(sing)).config.scores["held-out end of the text"]
    losses = [row["valid_loss"] for row in timeless(whole(sing)) if "valid_loss" in row]
    assert song["nats_per_character"] == pytest.approx(min(losses), abs=6e-5)
