"""The licence of a model card, in every notation in use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.engine.registry.model_card import licence
from training.report.card_writer import front_matter


def card(folder: Path, text: str | bytes) -> str | None:
    (folder / "README.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    return licence(folder)


@pytest.mark.parametrize(
    ("front", "found"),
    [
        ("license: cc-by-4.0", "cc-by-4.0"),
        ("language:\n- de\nlicense:  'apache-2.0'  # as its data\ntags: x", "apache-2.0"),
        ('license: "mit"', "mit"),
        ("license: [mit, 'apache-2.0']", "mit, apache-2.0"),
        ("license:\n- mit\n  - gpl-3.0\nlanguage:\n- de", "mit, gpl-3.0"),
        ('license: other\nlicense_name: "For friends: \\"only\\" #1"', 'For friends: "only" #1'),
        ('license: "a\\ud800b"', "a?b"),  # half a character, which no answer could be written with
        ("license: other", "other"),
        ("license_name: house rules", "house rules"),
        ("license: ''", None),
        ("license: null", None),
        ("license:", None),
        ("license: # later", None),
        ("licensed: mit", None),
        ("language: de", None),
        ("card:\n  license: mit", None),
        (f"license: {'x' * 1000}", "x" * 200),
    ],
)
def test_the_head_of_a_card(tmp_path: Path, front: str, found: str | None) -> None:
    text = f"---\n{front}\n---\n# A model\nlicense: none of its business\n"
    assert card(tmp_path, text) == found
    assert card(tmp_path, text.replace("\n", "\r\n")) == found
    assert card(tmp_path, "\ufeff" + text) == found


@pytest.mark.parametrize(
    "text", ["", "license: mit", "# A model\n---\nlicense: mit\n---\n", "---\nlicense: mit\n", b"---\n\xff\xfe\n---\n"]
)
def test_a_card_without_a_head(tmp_path: Path, text: str | bytes) -> None:
    assert card(tmp_path, text) is None


@pytest.mark.parametrize("stated", ["mit", "CC-BY-4.0", "Für Freunde: alles", None])
def test_card_of_a_training_run_is_read(tmp_path: Path, stated: str | None) -> None:
    assert card(tmp_path, front_matter([stated] if stated else [], ["de"], "translation")) == (
        "cc-by-4.0" if stated == "CC-BY-4.0" else stated
    )


def test_card_that_is_no_file_is_ignored(tmp_path: Path) -> None:
    assert licence(tmp_path) is None
    os.mkfifo(tmp_path / "README.md")  # reading a FIFO would block until a writer comes
    assert licence(tmp_path) is None
    (tmp_path / "README.md").unlink()
    (tmp_path / "README.md").mkdir()
    assert licence(tmp_path) is None


def test_of_a_large_file_only_its_beginning_counts(tmp_path: Path) -> None:
    assert card(tmp_path, "---\nlicense: mit\n---\n" + "x" * 1_000_000) == "mit"
    assert card(tmp_path, "---\n" + "# x\n" * 100_000 + "license: mit\n---\n") is None
