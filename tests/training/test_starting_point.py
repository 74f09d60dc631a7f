"""Runs that start from a trained model: what they take over, what they change, and what they refuse."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointConfig
from tests.stand_in_hub import StandInHub
from tests.training.cli.commands import refused
from tests.training.exporters.exported import write_random
from tests.training.importers.marian import folders
from tests.training.runs import Killed, assert_same_run, kill_at
from tests.training.small import CPU, lyricist, pairs, text, translator
from training import snapshot
from training.__main__ import main
from training.config.recipes import TRANSLATORS
from training.config.run_config import (
    LoopConfig,
    OptimizerConfig,
    TranslatorConfig,
    TranslatorTuningConfig,
    TuningConfig,
)
from training.data import corpus_loading
from training.data.sentence_pairs import Pairs
from training.errors import TrainingError
from training.evaluation.model_outputs import load_model
from training.evaluation.scores import score_translator
from training.exporters.export_checkpoint import export_checkpoint
from training.lyricist_run import train_lyricist
from training.report.card_writer import tuning_verdict
from training.report.progress_report import read_rows
from training.starting_point import StartingPoint, adapted, freeze, has_kept, read_kept, read_starting_point
from training.training_run import TrainingRun
from training.translator_run import train_translator

pytestmark = pytest.mark.usefixtures("no_curves")

ONE_EPOCH = LoopConfig(max_epochs=1)
MIRRORED = pairs(60, seed=9)
SHIFTED = Pairs(MIRRORED.sources, [target[::-1] for target in MIRRORED.targets], "shifted")  # no longer backwards


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator that was trained on pairs(40), with a licence."""
    out = tmp_path_factory.mktemp("origin") / "aa-bb"
    run = TrainingRun(out=out, device=CPU, quiet=True, licence="cc-by-4.0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("training.output_folder.draw_curves", lambda metrics, path: path.write_bytes(b""))
        train_translator(translator(), pairs(40), pairs(10, seed=1), run)
    return out


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders.write(tmp_path_factory.mktemp("marian") / "opus-mt-de-en")


def config_of(start: StartingPoint, **changes: Any) -> TranslatorConfig:
    base = TranslatorConfig(
        recipe="finetune",
        tokens_per_batch=60,
        optimizer=OptimizerConfig(learning_rate=5e-3),
        loop=LoopConfig(max_epochs=3, ema_decay=0.9),
    )
    return replace(adapted(base, start), **changes)


def tune(
    folder: Path, out: Path, *, resume: bool = False, mix: Pairs | None = None, licence: str = "", **changes: Any
) -> StartingPoint:
    start = read_kept(out, str(folder)) if resume else read_starting_point(str(folder), "translator")
    run = TrainingRun(out=out, device=CPU, resume=resume, quiet=True, licence=licence or None)
    config = config_of(start, **changes)
    general = (mix, None) if mix else None
    if folder.name == "opus-mt-de-en":
        train = Pairs(list(folders.lines("de")[:30]), list(folders.lines("en")[:30]), "phrases")
        valid = Pairs(list(folders.lines("de")[30:40]), list(folders.lines("en")[30:40]), "more phrases")
    else:
        train, valid = SHIFTED.only(range(50), "shifted"), SHIFTED.only(range(50, 60), "more shifted")
    train_translator(config, train, valid, run, start=start, mix=general)
    return start


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_equal_weights(folder: Path, expected: Any, names: list[str] | None = None) -> None:
    found = weights(folder)
    assert found.keys() == expected.keys()
    for name in names or found:
        assert torch.equal(found[name], expected[name]), name


def test_first_validation_is_the_loss_of_the_starting_weights(origin: Path, tmp_path: Path) -> None:
    tune(origin, tmp_path / "m")
    first = next(row for row in read_rows(tmp_path / "m" / "metrics.jsonl") if "valid_loss" in row)
    scores = score_translator(*load_model(origin, CPU), SHIFTED.only(range(50, 60), "more shifted"))
    assert first["update"] == 0
    assert first["valid_loss"] == pytest.approx(float(scores["nats_per_token"]), abs=2e-4)


@pytest.mark.slow
def test_tuning_on_a_shifted_domain_gains(origin: Path, tmp_path: Path) -> None:
    tune(origin, tmp_path / "m", loop=LoopConfig(max_epochs=12))
    rows = [row["valid_loss"] for row in read_rows(tmp_path / "m" / "metrics.jsonl") if "valid_loss" in row]
    assert min(rows[1:]) < rows[0] - 0.3
    before = checkpoints.read(tmp_path / "m").config.training["from"]["scores_before"]["validation (greedy)"]
    after = checkpoints.read(tmp_path / "m").config.scores["validation (greedy)"]
    assert after["nats_per_token"] < before["nats_per_token"] - 0.3


def test_run_without_updates_publishes_the_starting_weights(origin: Path, tmp_path: Path) -> None:
    tune(origin, tmp_path / "none", loop=LoopConfig(max_minutes=1e-9))
    assert_equal_weights(tmp_path / "none", weights(origin))


@pytest.mark.parametrize("optimizer", ["adamw", pytest.param("muon", marks=pytest.mark.slow)])
def test_frozen_modules_keep_their_weights_bit_for_bit(optimizer: Any, origin: Path, tmp_path: Path) -> None:
    changes = {
        "optimizer": OptimizerConfig(name=optimizer, learning_rate=1e-2, weight_decay=0.1),
        "loop": LoopConfig(max_epochs=2, ema_decay=0.9, average_best=2),
    }
    tune(origin, tmp_path / "m", tuning=TranslatorTuningConfig(freeze="embeddings, encoder.0"), **changes)
    start, tuned = weights(origin), weights(tmp_path / "m")
    frozen = [name for name in start if name.startswith(("source_embedding", "target_embedding", "encoder.0."))]
    assert len(frozen) > 8
    assert_equal_weights(tmp_path / "m", start, frozen)
    assert not torch.equal(start["decoder.0.feed_forward.widen.weight"], tuned["decoder.0.feed_forward.widen.weight"])


def test_freezing_an_unknown_module_or_everything_is_refused(origin: Path) -> None:
    network = read_starting_point(str(origin), "translator").network({})
    with pytest.raises(TrainingError, match=r"names enc, which is no module of this network: its modules are embedd"):
        freeze(network, ["enc"])
    with pytest.raises(TrainingError, match="leaves nothing to train"):
        freeze(network, ["embeddings", "encoder", "decoder", "encoder_norm", "decoder_norm"])


@pytest.mark.slow
@pytest.mark.parametrize("which", ["origin", "marian"])
def test_killed_tuning_resumes_to_the_bit_without_its_origin(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    folder: Path = request.getfixturevalue(which)
    changes: dict[str, Any] = {"tuning": TranslatorTuningConfig(freeze="encoder.0")}
    changes["mix"] = pairs(40) if which == "origin" else None
    tune(folder, tmp_path / "whole", **changes)
    with monkeypatch.context() as patch:
        kill_at(patch, 3)
        with pytest.raises(Killed):
            tune(folder, tmp_path / "killed", **changes)
    assert has_kept(tmp_path / "killed")
    tune(folder, tmp_path / "killed", resume=True, **changes)  # reads the copy alone
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_marian_folder_tunes_and_keeps_its_rules(marian: Path, tmp_path: Path) -> None:
    start = tune(marian, tmp_path / "m")
    checkpoint, network = load_model(tmp_path / "m", CPU)
    config, own = checkpoint.config, start.config
    kept = ("eos", "suppressed", "source_suffix", "source_prefix", "target_prefix", "renormalise", "forced_end")
    for name in (*kept, "max_source_tokens", "max_new_tokens"):
        assert getattr(config, name) == getattr(own, name), name
    pad = json.loads((marian / "config.json").read_text())["pad_token_id"]
    assert (config.eos, config.target_prefix, network.config.pad) == (0, (pad,), pad)
    rows = [row["valid_loss"] for row in read_rows(tmp_path / "m" / "metrics.jsonl") if "valid_loss" in row]
    assert min(rows[1:]) < rows[0] - 0.5
    assert config.training["from"]["model"] == str(marian)
    assert checkpoint.tokenizers["source"].encode("der Hund") == start.tokenizers["source"].encode("der Hund")


def test_card_names_origin_scores_and_both_licences(origin: Path, tmp_path: Path) -> None:
    tune(origin, tmp_path / "m", licence="mit", loop=ONE_EPOCH)
    card = (tmp_path / "m" / "README.md").read_text()
    digest = checkpoints.read_config(origin).files["model.safetensors"]
    assert "license:\n- cc-by-4.0\n- mit\n" in card
    assert (
        f"- Tuned from: `{origin}`, aa → bb\n- SHA-256 of its weights: `{digest}`\n- Its licence: `cc-by-4.0`" in card
    )
    assert "the origin's own: validation (greedy)" in card
    again = read_starting_point(str(tmp_path / "m"), "translator")
    assert (again.licence, again.base_model) == ("cc-by-4.0, mit", None)


def test_run_without_a_gain_keeps_the_starting_weights_and_says_so(
    origin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = read_starting_point(str(origin), "translator")
    config = config_of(start, optimizer=OptimizerConfig(learning_rate=0.5), loop=LoopConfig(max_epochs=2))
    run = TrainingRun(out=tmp_path / "m", device=CPU)
    train_translator(config, pairs(40), pairs(10, seed=1), run, start=start)
    said = capsys.readouterr().err
    assert "No validation was better than that of the starting weights, so that these are kept: tune longer" in said
    assert "Kept: the starting weights (held-out loss" in said
    assert_equal_weights(tmp_path / "m", weights(origin))


@pytest.mark.slow
def test_tuning_without_a_gain_says_to_keep_the_old_model(origin: Path, tmp_path: Path) -> None:
    tune(origin, tmp_path / "same", loop=LoopConfig(max_minutes=1e-9))
    said = f"Tuning gained nothing on validation (greedy): keep the old model, {origin}."
    assert f"**{said}**" in (tmp_path / "same" / "README.md").read_text()
    tune(origin, tmp_path / "better")
    assert "keep the old model" not in (tmp_path / "better" / "README.md").read_text()


def test_old_domain_is_scored_without_mix(here: Path, origin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On pairs of the run that made the model, which its folder names."""
    corpus(here)
    (here / "old").mkdir()
    for file in ("config.json", "config.sha256", "model.safetensors", "source.json", "target.json"):
        (here / "old" / file).write_bytes((origin / file).read_bytes())
    (here / "before.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in zip(*pairs_of_before(), strict=True)))
    (here / "old" / "run.toml").write_text('command = "translator"\n[data]\nvalid = "before.tsv"\n')
    assert main([*TUNE, "--from", "old", "--max-epochs", "1"]) == 0
    said = capsys.readouterr().err
    name = "its own valid pairs of before, before.tsv (greedy)"
    assert re.search(rf"{re.escape(name)}: BLEU [\d.]+ with the starting weights, [\d.]+ tuned; chrF", said)
    assert f"| {name} | chrf | " in (here / "m" / "README.md").read_text()


@pytest.mark.parametrize(
    "recorded",
    [
        'train = "train.tsv"\nsha256 = { "train.tsv" = "0" }',  # the new corpus has the name of the old one
        'train = "hf:name"',  # and is not downloaded to be scored
    ],
)
def test_texts_that_are_not_those_of_before_are_no_old_domain(
    here: Path, origin: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, recorded: str
) -> None:
    corpus(here)
    (here / "train.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in zip(*pairs_of_before(), strict=True)))
    shutil.copytree(origin, here / "old")
    (here / "old" / "run.toml").write_text(f'command = "translator"\n[data]\n{recorded}\n')
    rows = zip(*pairs_of_before(), strict=True)
    records = [(number, "row", {"source": s, "target": t}) for number, (s, t) in enumerate(rows, start=1)]
    monkeypatch.setattr(corpus_loading, "dataset_records", lambda *_: iter(records))
    assert main([*TUNE, "--from", "old", "--max-epochs", "1"]) == 0
    assert "What it forgets of its old domain is not measured: no pairs of it are recorded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ({"validation (greedy)": (20.0, 40.0, 2.0)}, {"validation (greedy)": (30.0, 45.0, 1.5)}, []),
        ({"validation (greedy)": (20.0, 40.0, 2.0)}, {"validation (greedy)": (20.0, 40.0, 1.9)}, []),
        ({"validation (greedy)": (20.0, 40.0, 2.0)}, {"validation (greedy)": (19.0, 45.0, 1.5)}, ["gained nothing"]),
        ({"old pairs": (90.0, 95.0, 1.0)}, {"old pairs": (60.0, 71.5, 2.0)}, ["lost 23.5 chrF on old pairs: general"]),
        ({"old pairs": (90.0, 95.0, 1.0)}, {"old pairs": (90.0, 94.5, 2.0)}, []),
    ],
)
def test_verdict_on_a_tuning(before: Any, after: Any, verdict: list[str]) -> None:
    def scores(given: dict[str, tuple[float, ...]]) -> dict[str, Any]:
        return {name: dict(zip(("bleu", "chrf", "nats_per_token"), row, strict=True)) for name, row in given.items()}

    origin = {"model": "old", "scores_before": scores(before)}
    metadata = CheckpointConfig(kind="translator", architecture={}, training={"from": origin}, scores=scores(after))
    said = tuning_verdict(metadata)
    assert len(said) == len(verdict)
    assert all(words in sentence for words, sentence in zip(verdict, said, strict=True))


def pairs_of_before() -> tuple[Any, Any]:
    before = pairs(40)
    return before.sources, before.targets


@pytest.mark.slow
def test_old_domain_is_a_models_own_translations_where_no_pairs_are_recorded(
    marian: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = zip(folders.lines("de")[:12], folders.lines("en")[12:24], strict=True)
    (here / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    (here / "valid.tsv").write_text(f"{folders.lines('de')[0]}\t{folders.lines('en')[0]}\n")
    languages = ["--source", "de", "--target", "en"]
    assert main([*TUNE, *languages, "--from", str(marian), "--max-epochs", "1", "--learning-rate", "1e-2"]) == 0
    name = "its own translations of everyday sentences before (greedy)"
    assert f"{name}: BLEU 100.00 with the starting weights, " in capsys.readouterr().err


def test_languages_without_sentences_of_ours_are_said(
    here: Path, origin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus(here)
    assert main([*TUNE, "--from", str(origin), "--max-epochs", "1"]) == 0
    assert "What it forgets of its old domain is not measured: no pairs of it are recorded" in capsys.readouterr().err


def test_name_on_the_hub_tunes_and_resumes_without_it(
    hub: StandInHub, here: Path, origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("someone/aa-bb", origin)
    corpus(here)
    arguments = [*TUNE, "--from", "someone/aa-bb", "--max-epochs", "2"]
    with monkeypatch.context() as patch:
        kill_at(patch, 3)
        with pytest.raises(Killed):
            main(arguments)
    assert {"config.json", "model.safetensors", "README.md", "source.json", "target.json"} <= set(hub.fetched())
    assert "curves.png" not in hub.fetched()
    hub.repositories.clear()
    assert main([*arguments, "--resume"]) == 0
    card = (here / "m" / "README.md").read_text()
    assert "base_model: someone/aa-bb\nbase_model_relation: finetune\n" in card
    assert "- Tuned from: `someone/aa-bb`, aa → bb\n" in card


def test_time_limit_leaves_time_for_scores_of_both_models(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences: list[int] = []

    def closing(*_: Any, greedy: int, beam: int) -> Callable[[float], float]:
        sentences.append(greedy + beam)
        return lambda validation_s: 0.0

    monkeypatch.setattr("training.translator_run.translator_closing", closing)
    start, run = read_starting_point(str(origin), "translator"), TrainingRun(out=tmp_path / "m", device=CPU, quiet=True)
    mix = pairs(40), pairs(12, seed=4)
    config = config_of(start, loop=ONE_EPOCH)
    train_translator(config, pairs(50), pairs(5), run, start=start, mix=mix, test=pairs(7))
    assert sentences == [2 * (5 + 12) + 7 + 7 + 16], "16 sentences try which stand-ins the model copies"


def test_card_says_what_a_tuned_model_has_seen(origin: Path, tmp_path: Path) -> None:
    tune(origin, tmp_path / "m", mix=pairs(40), tuning=TranslatorTuningConfig(mix_share=0.2), loop=ONE_EPOCH)
    card = (tmp_path / "m" / "README.md").read_text()
    assert (
        f"The model has seen nothing but that data and what {origin} was trained on, of which it may have forg" in card
    )
    assert "mixed in: 12 general pairs in each epoch, 0.2 of its pairs, drawn from the 40 of " in card
    assert "seen nothing but that data: it may" in (origin / "README.md").read_text()


def test_error_of_alignment_heads_is_not_carried_over(origin: Path, tmp_path: Path) -> None:
    start = read_starting_point(str(origin), "translator")
    measured = {"heads": [[0, 1]], "convention": "predicting", "error": 0.07, "sentences": 500}
    start = replace(start, config=replace(start.config, alignment=measured))
    run = TrainingRun(out=tmp_path / "m", device=CPU, quiet=True)
    train_translator(config_of(start, loop=LoopConfig(max_epochs=1)), pairs(20), None, run, start=start)
    assert checkpoints.read(tmp_path / "m").config.alignment == {**measured, "error": None, "sentences": 0}
    assert "how well they align words was not measured again" in (tmp_path / "m" / "README.md").read_text()


def test_lyricist_tunes_resumes_and_notes_unknown_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sing(out: Path, words: str, given: Path | None, resume: bool = False) -> None:
        start = None
        if given:
            start = read_kept(out, str(given)) if resume else read_starting_point(str(given), "lyrics")
        config = lyricist(tuning=TuningConfig(freeze="embedding" if given else ""))
        config = adapted(config, start) if start else config
        run = TrainingRun(out=out, device=CPU, quiet=True, resume=resume)
        train_lyricist(config, words, run, origin="made up", start=start)

    sing(tmp_path / "origin", text(300), None)
    words = text(300, seed=3).replace("a", "å")
    sing(tmp_path / "whole", words, tmp_path / "origin")
    assert "1 character that" in (said := capsys.readouterr().err)
    assert "'å'" in said
    assert f"places ({words[:270].count('å') / 270:.1%} of it): all of them" in said
    card = (tmp_path / "whole" / "README.md").read_text()
    assert f"It knows the characters of the text that {tmp_path / 'origin'} was trained on and no others" in card
    assert_equal_weights(tmp_path / "whole", weights(tmp_path / "origin"), ["embedding.weight"])
    with monkeypatch.context() as patch:
        kill_at(patch, 3)
        with pytest.raises(Killed):
            sing(tmp_path / "killed", words, tmp_path / "origin")
    sing(tmp_path / "killed", words, tmp_path / "origin", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def corpus(here: Path) -> None:
    rows = zip(SHIFTED.sources, SHIFTED.targets, strict=True)
    (here / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    (here / "valid.tsv").write_text("h g f e d c\tH G F E D C B\nb b a b a\tB A B A B\n")


TUNE = ["translator", "--train", "pairs.tsv", "--valid", "valid.tsv", "--out", "m", "--device", "cpu"]


@pytest.mark.slow
def test_time_limit_does_not_lift_the_epochs_of_tuning(
    here: Path, origin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus(here)
    recipe = TRANSLATORS["finetune"]
    short = replace(recipe, config=replace(recipe.config, loop=LoopConfig(max_epochs=2)))
    monkeypatch.setitem(TRANSLATORS, "finetune", short)
    arguments = [*TUNE, "--from", str(origin), "--max-minutes", "30"]
    with monkeypatch.context() as patch:
        kill_at(patch, 1)
        with pytest.raises(Killed):
            main(arguments)
    assert main([*arguments, "--resume"]) == 0
    assert "Ended by the limit of 2 epochs." in capsys.readouterr().err
    assert main([*arguments, "--max-epochs", "3", "--resume"]) == 0
    assert "Ended by the limit of 3 epochs." in capsys.readouterr().err


@pytest.mark.slow
def test_tuned_run_is_repeated_by_its_run_file(here: Path, origin: Path) -> None:
    corpus(here)
    assert main([*TUNE, "--from", str(origin), "--max-epochs", "2", "--freeze", "encoder"]) == 0
    assert main(["translator", "--config", "m/run.toml", "--out", "again", "--device", "cpu"]) == 0
    assert (here / "again" / "model.safetensors").read_bytes() == (here / "m" / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--source", "aa", "--target", "cc"],
            "translates aa to bb, not aa to cc: leave --source and --target out",
        ),
        (["--set", "network.d_model=32"], "network.d_model = 32 contradicts --from"),
        (["--vocab-size", "99"], "tokenizer.vocab_size = 99 contradicts --from"),
        (["--set", "tuning.mix_share=2"], "tuning.mix_share must lie in [0, 1), not 2"),
        (["--freeze", "encodr"], "tuning.freeze names encodr, which is no module of this network"),
        (["--mix", "none.tsv"], "none.tsv does not exist: give SOURCE,TARGET"),
        (["--mix", "a.txt,pairs.tsv"], "a.txt does not exist."),
        (["--test", "none.tsv"], "none.tsv does not exist: give SOURCE,TARGET"),
        (["--init-from", "x"], "--init-from is no option, did you mean --from FOLDER?"),
        (["--mix-share", "0.3"], "tuning.mix_share needs --mix, the general pairs (--mix-share)"),
        (["--set", "tuning.mix_share=0.7"], "tuning.mix_share needs --mix, the general pairs (--set)"),
    ],
)
def test_options_that_do_not_suit_the_origin_are_refused(
    arguments: list[str], sentence: str, here: Path, origin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus(here)
    (here / "pairs.tsv").write_text("no pair\n")  # it is not read before the options are known to suit
    assert sentence in refused(capsys, *TUNE, "--from", str(origin), *arguments)
    assert not (here / "m").exists()


def test_unknown_options_are_refused_before_the_origin_is_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, *TUNE, "--from", "missing", "--epochs", "3")
    assert message == "This cannot start: --epochs is no option, did you mean --max-epochs EPOCHS?"


def test_other_languages_and_other_dropout_on_request(here: Path, origin: Path) -> None:
    corpus(here)
    options = ["--source", "aa", "--target", "cc", "--other-languages", "--set", "network.residual_dropout=0.4"]
    assert main([*TUNE, "--from", str(origin), "--max-epochs", "1", *options]) == 0
    config = checkpoints.read_config(here / "m")
    assert (config.source_language, config.target_language) == ("aa", "cc")
    assert config.architecture["residual_dropout"] == 0.4


def test_folders_that_cannot_be_tuned_are_refused(
    here: Path, origin: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus(here)
    (here / "empty").mkdir()
    (here / "checkpoints" / "office").mkdir(parents=True)
    (here / "bert").mkdir()
    (here / "bert" / "config.json").write_text('{"model_type": "bert"}')
    with monkeypatch.context() as patch:
        kill_at(patch, 1)
        with pytest.raises(Killed):
            tune(origin, here / "half")
    expected = {
        "empty": "empty holds no config.json: --from takes the folder of a finished model.",
        "bert": "bert has a model of type 'bert': --from takes a checkpoint of this project, or a Marian model or an"
        " export of ours in Hugging Face's form.",
        "half": "half holds an unfinished run: finish it first, with --resume --out half.",
        "pairs.tsv": "pairs.tsv is a file: --from takes the folder of a model, or a name on the hub.",
        "hal": "There is no folder hal: did you mean half?",
        "office": "There is no folder office: did you mean checkpoints/office?",
    }
    for given, sentence in expected.items():
        assert refused(capsys, *TUNE, "--from", given) == sentence
    said = refused(capsys, "lyrics", "--from", str(origin), "--corpus", "pairs.tsv", "--out", "m", "--device", "cpu")
    assert said.endswith("is a translator, not a lyricist: tune it with `python -m training translator`.")
    assert refused(capsys, *TUNE, "--source", "aa", "--target", "bb", "--freeze", "encoder") == (
        "This cannot start: tuning.freeze needs --from, a model to start from."
    )


def test_an_exported_model_is_tuned(here: Path, tmp_path: Path) -> None:
    """Norms before the layers and one table, which Hugging Face's form calls Pegasus."""
    checkpoint = write_random(tmp_path / "ours", norm="pre", tied="all")
    export_checkpoint(checkpoint.folder, "pegasus", tmp_path / "exported")
    start = read_starting_point(str(tmp_path / "exported"), "translator")
    own = read_starting_point(str(checkpoint.folder), "translator")
    assert start.config.architecture["norm"] == "pre"
    assert (start.config.source_language, start.config.target_language) == ("de", "en")
    for name, values in own.weights.items():  # the channels of interleaved positions are reordered
        torch.testing.assert_close(start.weights[name].sort().values.sum(), values.sort().values.sum())


def test_resume_with_another_origin_is_refused(here: Path, origin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus(here)
    assert main([*TUNE, "--from", str(origin), "--max-epochs", "1"]) == 0
    capsys.readouterr()
    sentence = refused(capsys, *TUNE, "--resume", "--source", "aa", "--target", "bb")
    assert sentence == f"The run in m started with --from {origin}, which is missing here: resume it with the same."


def test_finetune_recipe_is_the_default_with_an_origin(here: Path, origin: Path) -> None:
    corpus(here)
    assert main([*TUNE, "--from", str(origin), "--max-epochs", "1"]) == 0
    training = checkpoints.read_config(here / "m").training
    assert training["recipe"] == "finetune"
    assert training["optimizer"]["learning_rate"] == TRANSLATORS["finetune"].config.optimizer.learning_rate
    assert training["network"]["d_model"] == 16


def test_a_failed_run_leaves_no_copy_of_its_origin(here: Path, origin: Path) -> None:
    start = read_starting_point(str(origin), "translator")
    config = config_of(start, loop=LoopConfig(max_epochs=1), optimizer=OptimizerConfig(learning_rate=1e9, clip_norm=0))
    run = TrainingRun(out=here / "m", device=CPU, quiet=True)
    with pytest.raises(TrainingError):
        train_translator(replace(config, max_tokens=1), SHIFTED, None, run, start=start)
    assert not (here / "m").exists()
    assert not snapshot.exists(here / "m")


def test_a_marian_folder_of_several_pairs_is_not_tuned_before_a_choice(tmp_path: Path) -> None:
    languages = [">>fra<<", ">>spa<<"]
    folder = folders.write(tmp_path / "opus-mt-de-itc", languages=languages, tokenizer={"target_lang": "itc"})
    with pytest.raises(TrainingError, match=r"has 2 language pairs: choose one with .* --source de --target fr --out"):
        read_starting_point(str(folder), "translator")
    assert read_starting_point(str(folder), "translator", target="es").config.target_language == "es"
