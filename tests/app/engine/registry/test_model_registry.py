from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from app.engine.registry.model_registry import ModelRegistry
from app.errors import InvalidRequest, UnknownModel, UnknownPair
from models import checkpoint as checkpoints
from models.checkpoint import CONFIG, WEIGHTS
from tests.app.engine.registries import read_registry


def test_broken_checkpoints_are_skipped(tiny_checkpoints: Path, tmp_path: Path) -> None:
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    (root / "no-checkpoint").mkdir()
    (root / "file").write_text("x")
    weights = root / "tiny-en-es" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    shutil.copytree(root / "tiny-lyrics", root / "newer")
    config = json.loads((root / "newer" / CONFIG).read_text())
    (root / "newer" / CONFIG).write_text(json.dumps({**config, "format_version": 99}))

    registry = read_registry(root)

    assert list(registry.versions) == ["tiny-de-en", "tiny-lyrics"]
    assert registry.problems == {
        "newer": f"{root}/newer/config.json has format 99 and this version reads up to 2: upgrade Parlance to load it.",
        "tiny-en-es": f"{weights} does not match its checksum; the model was not loaded.",
    }


def test_an_empty_or_missing_folder_says_how_to_fill_it(tmp_path: Path) -> None:
    assert "parlance import everyday" in read_registry(tmp_path).problems[str(tmp_path)]
    missing = tmp_path / "none"
    assert "cannot be read" in read_registry(missing).problems[str(missing)]


def test_named_models_are_read_alone_and_answer_in_their_order(tiny_checkpoints: Path, tmp_path: Path) -> None:
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    shutil.copytree(root / "tiny-de-en", root / "opus-mt-de-en")
    registry = ModelRegistry(root, ["tiny-lyrics", "someone/tiny-de-en", "de-en", "en-fr"])
    registry.read()
    assert list(registry.versions) == ["tiny-lyrics", "tiny-de-en", "opus-mt-de-en"]
    assert registry.for_pair("de", "en", None).name == "tiny-de-en"
    assert registry.problems == {
        "en-fr": f"en-fr is not in {root}: fetch it with `parlance import en-fr --into {root}`."
    }
    typo = ModelRegistry(root, ["tiny-de-em"])
    typo.read()
    assert typo.problems == {"tiny-de-em": f"tiny-de-em is not in {root}, and no name on the hub."}
    registry.offer(registry.read_version(root / "tiny-en-es"))
    assert list(registry.versions)[-1] == "tiny-en-es"
    assert [registry.order_of(version) for version in registry.versions.values()] == [*["named"] * 3, "name"]
    none_of_them = ModelRegistry(root, ["en-fr"])
    none_of_them.read()
    assert len(none_of_them.versions) == 4  # as where the hub could not be reached


def test_named_model_is_lacking_until_it_is_loaded(tiny_checkpoints: Path, tmp_path: Path) -> None:
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    registry = ModelRegistry(root, ["tiny-lyrics", "de-en"])
    registry.read()
    assert registry.lacks_named and list(registry.problems) == ["de-en"]
    registry.offer(registry.read_version(root / "tiny-en-es"))
    assert registry.lacks_named
    (root / "tiny-de-en").rename(root / "opus-mt-de-en")
    registry.offer(registry.read_version(root / "opus-mt-de-en"))
    assert not registry.lacks_named and registry.problems == {}
    registry.withdraw("opus-mt-de-en")  # as people unload a model
    assert not registry.lacks_named
    registry.withdraw("tiny-lyrics", "tiny-lyrics does not fit into the memory of any device.")
    assert registry.lacks_named
    (root / "tiny-lyrics" / WEIGHTS).write_bytes(b"damaged")
    damaged = ModelRegistry(root, ["tiny-lyrics"])
    damaged.read()
    assert damaged.lacks_named
    all_of_them = read_registry(root)
    assert list(all_of_them.problems) == ["tiny-lyrics"] and not all_of_them.lacks_named


def test_folder_that_answers_for_a_name_on_the_hub_says_what_it_is(tiny_checkpoints: Path, tmp_path: Path) -> None:
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    for name, training in {
        "opus-mt-de-en": {"imported_from": "Helsinki-NLP/opus-mt-de-en"},
        "opus-mt-en-es": {"imported_from": "someone/opus-mt-en-es"},
        "tuned": {"from": {"given": "de-en"}},
    }.items():
        shutil.copytree(root / "tiny-de-en", root / name)
        config = json.loads((root / name / CONFIG).read_text())
        (root / name / CONFIG).write_text(json.dumps({**config, "training": training}))
        (root / name / checkpoints.CONFIG_CHECKSUM).unlink()
    names = ["de-en", "Helsinki-NLP/opus-mt-de-en@v2", "en-es", "tiny-de-en", str(root / "tiny-en-es"), "a/tuned"]
    registry = ModelRegistry(root, [*names, "someone/tiny-lyrics"])
    registry.read()
    way = "to have the model of the hub, give this folder another name."
    other = "it was imported from someone/opus-mt-en-es"
    assert registry.stand_ins == {
        "opus-mt-en-es": f"{root}/opus-mt-en-es is served for en-es, and {other}: {way}",
        "tuned": f"{root}/tuned is served for a/tuned, and it was tuned from de-en: {way}",
        "tiny-lyrics": f"{root}/tiny-lyrics is served for someone/tiny-lyrics, and it was trained, not imported: {way}",
    }
    assert not registry.lacks_named and registry.problems == {}


def test_models_of_ones_own_answer_before_those_that_come_with_parlance(tiny_checkpoints: Path, tmp_path: Path) -> None:
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    shutil.copytree(root / "tiny-de-en", root / "a-demo")
    card = {"summary": "It has read a word.", "patterns": 1, "examples": ["hallo"], "way_out": "", "words": 1}
    (root / "a-demo" / checkpoints.DEMO).write_text(json.dumps(card), encoding="utf-8")
    registry = read_registry(root)
    assert list(registry.versions) == ["tiny-de-en", "tiny-en-es", "tiny-lyrics", "a-demo"]
    assert [registry.order_of(version) for version in registry.versions.values()] == [*["name"] * 3, "demo"]
    assert registry.for_pair("de", "en", None).name == "tiny-de-en"


def test_models_are_selected_by_name_kind_and_pair(tiny_checkpoints: Path) -> None:
    registry = read_registry(tiny_checkpoints)
    assert registry.for_pair("de", "en", None).name == "tiny-de-en"
    assert registry.for_pair("de", "en", "tiny-de-en").name == "tiny-de-en"
    assert registry.named(None, "lyrics").name == "tiny-lyrics"
    with pytest.raises(UnknownPair, match=r"no model for de → fr here\. Loaded pairs: de → en, en → es"):
        registry.for_pair("de", "fr", None)
    with pytest.raises(UnknownModel, match="no translator 'other' for de → en"):
        registry.for_pair("de", "en", "other")
    with pytest.raises(UnknownModel, match=r"no lyricist called 'tiny-de-en' here\. Loaded: tiny-lyrics"):
        registry.named("tiny-de-en", "lyrics")
    with pytest.raises(InvalidRequest, match="name one of tiny-de-en, tiny-en-es"):
        registry.named(None, "translator")


def test_a_folder_that_may_not_be_entered_spoils_no_other(
    tiny_checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "c"
    shutil.copytree(tiny_checkpoints / "tiny-lyrics", root / "tiny-lyrics")
    (root / "lost+found").mkdir()
    is_checkpoint = checkpoints.is_checkpoint

    def forbidden(folder: Path) -> bool:  # what stat says to everyone but root
        if folder.name == "lost+found":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return is_checkpoint(folder)

    monkeypatch.setattr(checkpoints, "is_checkpoint", forbidden)
    registry = read_registry(root)
    assert list(registry.versions) == ["tiny-lyrics"]
    assert registry.problems["lost+found"].endswith("cannot be read (Permission denied); the model was not loaded.")


def test_a_name_that_no_message_can_carry_is_a_problem_of_its_own(tiny_checkpoints: Path, tmp_path: Path) -> None:
    root = tmp_path / "mit Leerzeichen"
    shutil.copytree(tiny_checkpoints / "tiny-lyrics", root / "歌詞 1")
    try:
        shutil.copytree(tiny_checkpoints / "tiny-lyrics", root / os.fsdecode(b"caf\xe9"))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only: on it there can be no such folder")
    registry = read_registry(root)
    assert list(registry.versions) == ["歌詞 1"]
    ((name, problem),) = registry.problems.items()
    assert name.endswith("caf\\xe9")
    assert "is not UTF-8" in problem
    assert (name + problem).encode()
