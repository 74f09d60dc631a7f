"""The checkpoint folder: write and read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointConfig, CheckpointError, DemoCard, LanguagePair, NoticeRecord
from tests.models.folders import CONFIG, SOURCE, TARGET, stage, written


def test_written_checkpoint_is_read_back(tmp_path: Path) -> None:
    folder = written(tmp_path)
    result = checkpoints.read(folder)
    assert replace(result.config, tokenizers={}, files={}) == CONFIG
    assert result.config.tokenizers == {"source": "word", "target": "character"}
    assert set(result.config.files) == {"model.safetensors", "source.json", "target.json"}
    assert (result.name, result.weights) == ("tiny", folder / "model.safetensors")
    assert result.source_ids("hello moon world") == (2, 1, 3, 0)
    assert result.target_ids("ab") == (1, 3, 4)
    assert result.decode([3, 4, 2]) == "ab"
    assert sorted(path.name for path in folder.iterdir()) == [
        *("README.md", "config.json", "config.sha256", "model.safetensors", "source.json", "target.json")
    ]
    assert list((tmp_path / "staging").iterdir()) == []


def test_the_card_may_be_edited(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "README.md").write_text("Another card.", encoding="utf-8")
    (folder / "notes.txt").write_text("New.", encoding="utf-8")
    edited = checkpoints.read(folder)
    (folder / "README.md").unlink()
    for result in (edited, checkpoints.read(folder)):
        assert replace(result.config, tokenizers={}, files={}) == CONFIG
        assert result.decode([3, 4, 2]) == "ab"


def test_demo_card_is_read_and_goes_with_its_model(tmp_path: Path) -> None:
    card = DemoCard("It has read songs.", 7, ("hallo",), "make serve MODEL=de-en", 2)
    folder = written(tmp_path)
    assert checkpoints.read(folder).demo is None
    (folder / "demo.json").write_text(json.dumps(asdict(card)), encoding="utf-8")
    assert checkpoints.read(folder).demo == card
    (folder / "demo.json").write_text('{"summary": "It has read songs."}', encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"demo\.json does not say what the model knows"):
        checkpoints.read(folder)
    checkpoints.write(stage(tmp_path / "third"), folder, CONFIG, {"source": SOURCE, "target": TARGET})
    assert checkpoints.read(folder).demo is None


def test_record_for_notices_is_read_and_goes_with_its_model(tmp_path: Path) -> None:
    record = NoticeRecord(-0.04, frozenset({"hallo", "welt"}), frozenset({"hello", "world"}))
    tokenizers, folder = {"source": SOURCE, "target": TARGET}, written(tmp_path)
    assert checkpoints.read(folder).notices == NoticeRecord()
    checkpoints.write(stage(tmp_path / "again"), folder, CONFIG, tokenizers, notices=record)
    assert checkpoints.read(folder).notices == record
    checkpoints.write(stage(tmp_path / "third"), folder, CONFIG, tokenizers)
    assert checkpoints.read(folder).notices == NoticeRecord()
    assert not (folder / "notices.json").exists()


SOUND_RECORD = {"unsure_below": -0.04, "source_words": ["hallo"], "target_words": None}


@pytest.mark.parametrize(
    "content",
    [
        *({**SOUND_RECORD, "unsure_below": value} for value in ("-0.04", 0.5, -101.0, True, [], {})),
        *({**SOUND_RECORD, "source_words": value} for value in (5, 0.5, [1], ["a", None], [["a"]], True)),
        *({**SOUND_RECORD, "target_words": value} for value in (5, 0.5, [1], ["a", None], [["a"]], True)),
        [],
        "notices",
        None,
        17,
        ["unsure_below", "source_words", "target_words"],
    ],
)
def test_a_record_for_notices_of_another_form_is_refused(tmp_path: Path, content: object) -> None:
    (tmp_path / "notices.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"notices\.json is no record for notices"):
        checkpoints.read_notice_record(tmp_path)


DE_EN = {("de", "en"): ("numbers", "codes")}


def test_recorded_stand_ins_belong_to_weights_and_tokenizers(tmp_path: Path) -> None:
    tokenizers, folder = {"source": SOURCE, "target": TARGET}, written(tmp_path)
    assert checkpoints.read(folder).stand_ins == {}
    checkpoints.write(stage(tmp_path / "again"), folder, CONFIG, tokenizers, stand_ins=DE_EN)
    assert checkpoints.read(folder).stand_ins == DE_EN
    checkpoints.record_stand_ins(folder, checkpoints.read_config(folder), {("en", "de"): ()})
    assert checkpoints.read(folder).stand_ins == DE_EN | {("en", "de"): ()}
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    kept = (folder / "stand_ins.json").read_bytes()
    checkpoints.write(stage(tmp_path / "third"), folder, CONFIG, tokenizers)
    assert not (folder / "stand_ins.json").exists(), "another model has replaced the recorded one"
    (folder / "stand_ins.json").write_bytes(kept)
    assert checkpoints.read(folder).stand_ins == DE_EN | {("en", "de"): ()}
    other = stage(tmp_path / "fourth")
    (other / "model.safetensors").write_bytes(b"other weights")
    checkpoints.write(other, folder, CONFIG, tokenizers)
    (folder / "stand_ins.json").write_bytes(kept)  # as rsync may leave it beside new weights
    assert checkpoints.read(folder).stand_ins == {}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: [],
        lambda content: None,
        lambda content: {**content, "fingerprint": "0"},
        lambda content: {**content, "pairs": {"de": "en"}},
        lambda content: {**content, "pairs": [{"source": "de", "target": "en", "kinds": ["words"]}]},
        lambda content: {**content, "pairs": [{"source": "de", "target": "en", "kinds": ["codes"] * 5}]},
        lambda content: {**content, "pairs": [{"source": ["de"], "target": "en", "kinds": []}]},
        lambda content: {**content, "pairs": [{"source": "de", "kinds": [["codes"]]}]},
    ],
)
def test_stand_ins_of_another_form_are_none(tmp_path: Path, spoil: Callable[[Any], object]) -> None:
    """They are tried again, and the record is written anew."""
    folder = written(tmp_path)
    config = checkpoints.read_config(folder)
    checkpoints.record_stand_ins(folder, config, DE_EN)
    content = json.loads((folder / "stand_ins.json").read_text(encoding="utf-8"))
    (folder / "stand_ins.json").write_text(json.dumps(spoil(content)), encoding="utf-8")
    assert checkpoints.read(folder).stand_ins == {}
    checkpoints.record_stand_ins(folder, config, DE_EN)
    assert checkpoints.read(folder).stand_ins == DE_EN


def test_a_lyricist_has_one_tokenizer(tmp_path: Path) -> None:
    folder = tmp_path / "lyrics"
    config = CheckpointConfig(kind="lyrics", architecture={"name": "recurrent"})
    checkpoints.write(stage(tmp_path / "staging"), folder, config, {"target": TARGET})
    result = checkpoints.read(folder)
    assert set(result.tokenizers) == {"target"}
    assert result.target_ids("ba") == (4, 3)


@pytest.mark.parametrize(("source", "most", "expected"), [(0, 100, 20), (5, 100, 30), (60, 100, 100), (40, 100, 100)])
def test_translation_length_limit(source: int, most: int, expected: int) -> None:
    assert checkpoints.new_token_limit(source, most) == expected


def test_the_front_end_loads_no_torch() -> None:
    code = "import sys, models.tokenizer, models.checkpoint; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    root = Path(__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_folder_of_one_pair_has_the_format_that_earlier_versions_read(tmp_path: Path) -> None:
    content = json.loads((written(tmp_path) / "config.json").read_text(encoding="utf-8"))
    assert content["format_version"] == 1
    assert "language_pairs" not in content
    assert checkpoints.read(tmp_path / "checkpoints/tiny").single_pairs()[0].config.target_language == "de"


def test_each_pair_of_a_multilingual_folder_is_a_checkpoint_with_its_own_prefix(tmp_path: Path) -> None:
    pairs = tuple(LanguagePair(source="en", target=t, source_prefix=(p,)) for t, p in (("de", 2), ("fr", 3)))
    config = replace(CONFIG, source_language=None, target_language=None, language_pairs=pairs)
    folder = written(tmp_path, config)
    # an earlier version says "upgrade": it would read every source without a target token
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["format_version"] == 2
    result = checkpoints.read(folder)
    assert result.config.language_pairs == pairs
    french = result.for_pair("en", "fr")
    assert (french.config.source_language, french.config.target_language) == ("en", "fr")
    assert french.source_ids("hello world") == (3, 2, 3, 0)
    assert result.for_pair(None, "de").source_ids("world") == (2, 3, 0)
    assert french.for_pair("en", None).config == french.config
    assert [each.config.target_language for each in result.single_pairs()] == ["de", "fr"]
    with pytest.raises(CheckpointError, match="tiny translates en → de, en → fr: say which"):
        result.for_pair("en", None)
    with pytest.raises(CheckpointError, match="tiny translates en → de, en → fr, and not fr → de"):
        result.for_pair("fr", "de")
