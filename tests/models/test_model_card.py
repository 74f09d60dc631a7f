"""The licence of a model card, in every notation in use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from models.model_card import MOST_CARD_BYTES, front_values, licence, read_card, split_card
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


def test_card_is_split_into_its_values_and_its_text() -> None:
    front, text = split_card("---\nlicense: mit\ntags: [a, b]\nsize: {x: 1}\n---\n# A model\n")
    assert front_values(front) == {"license": "mit", "tags": ["a", "b"], "size": {"x": 1}}
    assert text.strip() == "# A model"
    assert split_card("# A model\n---\n") == ("", "# A model\n---\n")
    assert front_values("") is None


BILLION = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))


@pytest.mark.parametrize(
    "front",
    [
        BILLION,
        "a: &a b\nc: *a\n",
        "a: &a {b: c}\nd:\n  <<: *a\n",
        "a: " + "[" * 10_000,
        "".join(f"{'  ' * i}a:\n" for i in range(100)),
        "".join(f"key{i}: x\n" for i in range(5000)),
        "- a\n- list\n",
        "a text",
        "a: [",
        "a: 2026-99-99",
        f"a: {'9' * 5000}",
        "? [a]\n: b\n",
        "a: !!python/object/apply:os.system [true]\n",
        "a: \x00",
        "a: !!binary x\n",
        "a: !!float x\n",
    ],
)
def test_front_matter_that_no_card_has_is_none(front: str) -> None:
    assert front_values(front) is None


def test_whole_card_is_read_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(b"x" * 3_000_000)
    assert len(read_card(tmp_path / "README.md")) == MOST_CARD_BYTES
    assert read_card(tmp_path / "none.md") == "" == read_card(tmp_path)
    front, text = split_card("---" + " \n" * 500_000)  # a pattern that goes back at each line would take minutes
    assert (front, text[:3]) == ("", "---")
