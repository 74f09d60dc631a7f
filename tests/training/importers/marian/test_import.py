"""The command as a whole: what it prints, and what lies in the folder that it writes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import torch

from models import checkpoint as checkpoints
from models.model_card import card_licence, licence
from models.networks.loading import load_network
from tests.stand_in_hub import StandInHub
from tests.training.importers.marian import folders
from training.__main__ import main
from training.importers.marian import convert_checkpoint

CARD = """---
language:
- de
license: cc-by-4.0
tags:
- translation
---

# opus-mt-de-en

* source languages: de

## Benchmarks

| testset               | BLEU  | chr-F |
|-----------------------|-------|-------|
| newstest2014-deen.de.en \t| 34.2 \t| 0.576 |
| Tatoeba.de.en \t| 55.4 \t| 0.707 |

| langpair | testset | chr-F | BLEU | #sent |
|----------|---------|-------|------|-------|
| deu-eng | flores101-devtest | 0.68 | 40.8 | 1012 |
| deu-eng | unmeasured | - | - | 3 |

| size | rows |
|------|------|
| 7 | 8 |
"""


def test_import_writes_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = folders.write(tmp_path / "opus-mt-de-en"), tmp_path / "checkpoints" / "de-en"
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    assert main(["import-marian", str(folder), "--out", str(out)]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (report["model"], report["source"], report["target"], report["prefix"]) == (
        "opus-mt-de-en",
        "de",
        "en",
        None,
    )
    names = {path.name for path in out.iterdir()}
    tokenizers = {"source.json", "target.json"}
    assert names == {
        "config.json",
        "config.sha256",
        "model.safetensors",
        "README.md",
        "README.original.md",
        *tokenizers,
    }
    checkpoint = checkpoints.read(out)
    config = checkpoint.config
    network = load_network(checkpoint)
    assert report["parameters"] == config.parameters == sum(p.numel() for p in network.parameters())
    pad = network.config.pad
    assert (config.target_prefix, config.suppressed, config.eos, config.source_suffix) == ((pad,), (pad,), 0, (0,))
    assert (config.renormalise, config.forced_end) == (True, True)
    assert (config.max_source_tokens, config.max_new_tokens) == (128, 127)
    assert config.training["imported_from"] == "opus-mt-de-en"
    assert config.training["licence"] == "cc-by-4.0"
    generation = config.training["generation"]
    assert (generation["num_beams"], generation["max_length"], generation["forced_eos_token_id"]) == (4, 128, 0)
    assert config.scores["published: Tatoeba.de.en"] == {"bleu": 55.4, "chrf": 0.707}
    text = (out / "README.md").read_text(encoding="utf-8")
    assert "Licence: cc-by-4.0" in text
    assert "| newstest2014-deen.de.en | bleu 34.2, chrf 0.576 |" in text
    assert (out / "README.original.md").read_text(encoding="utf-8") == CARD


def test_scores_are_read_from_tables_of_the_original_card() -> None:
    assert dict(convert_checkpoint.card_scores(CARD)) == {
        "newstest2014-deen.de.en": {"bleu": 34.2, "chrf": 0.576},
        "Tatoeba.de.en": {"bleu": 55.4, "chrf": 0.707},
        "deu-eng flores101-devtest": {"bleu": 40.8, "chrf": 0.68},
    }
    text = "# A model\nlicense: of the text, not of the head"
    assert (card_licence(text), dict(convert_checkpoint.card_scores(text))) == (None, {})


def test_unapplied_generation_settings_are_on_the_card(tmp_path: Path) -> None:
    folder = folders.write(tmp_path / "folder", generation={"no_repeat_ngram_size": 3, "early_stopping": True})
    assert main(["import-marian", str(folder), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "Not applied: early_stopping, no_repeat_ngram_size." in text
    assert "names none; ask its makers" in text


def test_an_older_folder_has_its_settings_in_its_config(tmp_path: Path) -> None:
    folder = folders.write(tmp_path / "folder")
    (folder / "generation_config.json").unlink()
    pad = json.loads((folder / "config.json").read_text(encoding="utf-8"))["pad_token_id"]
    folders.edit(folder / "config.json", bad_words_ids=[[pad], [5]], max_length=64, num_beams=6)
    assert main(["import-marian", str(folder), "--out", str(tmp_path / "out")]) == 0
    config = checkpoints.read(tmp_path / "out").config
    assert (config.suppressed, config.max_new_tokens) == ((5, pad), 63)
    assert (config.renormalise, config.forced_end) == (False, True)
    assert config.training["generation"]["num_beams"] == 6


def test_existing_checkpoint_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folders.write(tmp_path / "folder")
    assert main(["import-marian", str(folder), "--out", str(tmp_path / "out")]) == 0
    before = (tmp_path / "out" / "config.json").read_bytes()
    assert main(["import-marian", str(folder), "--out", str(tmp_path / "out")]) == 2
    assert "already holds a model" in capsys.readouterr().err
    assert (tmp_path / "out" / "config.json").read_bytes() == before


def test_nothing_of_transformers_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("transformers", "huggingface_hub", "sacremoses", "yaml"):
        monkeypatch.setitem(sys.modules, name, None)
    folder = folders.write(tmp_path / "folder", pickled=True)
    assert main(["import-marian", str(folder), "--out", str(tmp_path / "out")]) == 0
    assert torch.is_tensor(load_network(checkpoints.read(tmp_path / "out")).output_bias)


# The hub ------------------------------------------------------------------------------------------------


def test_a_name_on_the_hub(hub: StandInHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folders.write(tmp_path / "folder")
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    hub.add("Helsinki-NLP/opus-mt-de-en", folder)
    assert main(["import-marian", "Helsinki-NLP/opus-mt-de-en", "--out", str(tmp_path / "out")]) == 0
    commit = hub.repositories["Helsinki-NLP/opus-mt-de-en"].commit
    training = checkpoints.read(tmp_path / "out").config.training
    origin = (training["imported_from"], training["revision"], training["licence"])
    assert origin == ("Helsinki-NLP/opus-mt-de-en", commit, "cc-by-4.0")
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlicense: cc-by-4.0\nlanguage:\n- de\n- en\npipeline_tag: translation\n")
    assert licence(tmp_path / "out") == "cc-by-4.0"
    assert f"- Imported from: Helsinki-NLP/opus-mt-de-en at commit {commit}\n- Licence: cc-by-4.0\n" in card
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["revision"] == commit


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        ("Helsinki-NLP/other", 2, "error: The hub has no model Helsinki-NLP/other"),
        ("nowhere", 2, "error: nowhere is no folder, and no name on the hub such as Helsinki-NLP/opus-mt-de-en"),
        ("de-en", os.EX_TEMPFAIL, "error: The hub (http://127.0.0.1"),
    ],
)
def test_failed_download_is_reported(
    name: str, code: int, sentence: str, hub: StandInHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.faults.busy = 503 if code == os.EX_TEMPFAIL else 0
    assert main(["import-marian", name, "--out", str(tmp_path / "out")]) == code
    answer = capsys.readouterr().err
    assert answer.startswith(sentence)
    assert answer.count("\n") == 1
    assert not (tmp_path / "out").exists()
