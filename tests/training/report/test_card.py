"""The model card: its head for the Hub, its tables, and what it says of memorisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from models.checkpoint import CheckpointConfig
from tests.training.cli.commands import SHORT, SING, TRANSLATE
from tests.training.runs import sing
from training.__main__ import main
from training.config.run_config import LoopConfig, LyricsConfig
from training.evaluation.memorisation import Overlap, corpus_overlap
from training.progress import Outcome, Progress
from training.report.card_writer import model_card

pytestmark = pytest.mark.usefixtures("no_curves")


BARE = CheckpointConfig(kind="lyrics", architecture={}, parameters=3)


def card_of(metadata: CheckpointConfig = BARE, *, licence: str | None = None, backend: str = "", **facts: Any) -> str:
    config = LyricsConfig(recipe="r", loop=LoopConfig(seed=7))
    outcome = Outcome({}, Progress(), "the limit of 1 epoch", backend=backend)
    texts = {"title": "T", "summary": "S.", "limits": "L.", "data": "D"}
    return model_card(config, metadata, outcome, "a machine", licence, **{**texts, **facts})


def head(card: str) -> Any:
    assert card.startswith("---\n")
    return yaml.safe_load(card.split("---\n")[1])


@pytest.mark.parametrize(
    ("licence", "wanted"),
    [
        ("cc-by-4.0", {"license": "cc-by-4.0"}),
        ("Apache-2.0", {"license": "apache-2.0"}),
        ('ours: "no" # really', {"license": "other", "license_name": 'ours: "no" # really'}),
        (None, {}),
    ],
)
def test_the_head_is_what_the_hub_reads(licence: str | None, wanted: dict[str, str]) -> None:
    translator = replace(BARE, kind="translator", source_language="no", target_language="pt-BR")
    card = card_of(translator, licence=licence)
    languages = {"language": ["no", "pt"], "pipeline_tag": "translation", "library_name": "parlance"}
    assert head(card) == {**wanted, **languages}


def test_a_bare_card_has_no_empty_sections() -> None:
    card = card_of()
    assert head(card) == {"pipeline_tag": "text-generation", "library_name": "parlance"}
    assert "Not scored: no held-out data was given." in card
    assert "parameters, seed 7\n" in card
    assert [line for line in card.splitlines() if line.startswith("## ")] == [
        "## Use and limits",
        "## Scores",
        "## How it was made",
        "## Configuration",
    ]


def test_the_backend_is_named_with_its_reason() -> None:
    sentence = "PyTorch: a module's forward is changed"
    assert f"\n- Backend: {sentence}\n- Source revision: " in card_of(backend=sentence)
    assert "Backend" not in card_of()


def test_table_cells_are_escaped() -> None:
    generated = Overlap("a|b\n", {20: 0.25, 50: None}, 1234)
    card = card_of(
        replace(BARE, scores={"x|y": {"bleu": 1.5, "signature": "a|b"}, "z": {"chrf": 2.0}}),
        left_out="| left out | pairs |\n|---|---|\n| empty | 3 |",
        memorised=(generated, None),
        samples=[("one|two", "", "three\nfour")],
    )
    assert "| x\\|y | 1.5 |  |\n| z |  | 2.0 |\n" in card
    assert "- bleu: `a|b`\n" in card
    assert "| empty | 3 |\n" in card
    assert '| generated text, 1,234 characters | 4 characters: "a\\|b\\\\n" | 25.00% | – |\n' in card
    assert "| opening | model |\n| --- | --- |\n| one\\|two | three<br>four |\n" in card


def test_a_licence_and_the_languages_come_from_the_command(here: Path) -> None:
    assert main([*TRANSLATE, *SHORT, "--licence", "CC-BY-SA-4.0"]) == 0
    assert head((here / "m/README.md").read_text()) == {
        "license": "cc-by-sa-4.0",
        "language": ["aa", "bb"],
        "pipeline_tag": "translation",
        "library_name": "parlance",
    }
    assert main([*SING, *SHORT, "--out", "s", "--licence", "mine"]) == 0
    result = head((here / "s/README.md").read_text())
    assert (result["license"], result["license_name"]) == ("other", "mine")


def test_lyricist_card_reports_memorisation(whole: Callable[..., Path]) -> None:
    card = (whole(sing) / "README.md").read_text()
    section = card.split("## Memorisation\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert [row.split(",")[0] for row in rows] == ["| generated text", "| held-out text"]
    assert "260 characters" in rows[0]  # 20 texts of a twentieth of the corpus, which has 270 characters


def by_hand(texts: list[str], corpus: str, length: int) -> float:
    spans = [text[i : i + length] for text in texts for i in range(len(text) - length + 1)]
    return sum(span in corpus for span in spans) / len(spans)


def test_corpus_overlap_equals_brute_force_search() -> None:
    corpus = "".join(chr(97 + (i * i * 7 + i // 3) % 23) for i in range(3000)) + "模型🎵" * 9
    texts = [corpus[100:163] + "#" + corpus[2000:2030], "#" * 60, corpus[-30:] + "#", "short"]
    result = corpus_overlap(texts, corpus)
    longest = max(
        (text[i:j] for text in texts for i in range(len(text)) for j in range(i, len(text) + 1) if text[i:j] in corpus),
        key=len,
    )
    assert result.longest == longest == corpus[100:163]
    assert result.shares[20] == pytest.approx(by_hand(texts, corpus, 20))
    assert result.shares[50] == pytest.approx(by_hand(texts, corpus, 50))
    assert 0 < result.shares[50] < result.shares[20] < 1  # type: ignore[operator]
    assert result.characters == sum(map(len, texts))


def test_corpus_overlap_of_short_and_unrelated_texts() -> None:
    assert corpus_overlap(["xyz"], "abc") == Overlap("", {20: None, 50: None}, 3)
    assert corpus_overlap(["abc" * 30], "") == Overlap("", {20: 0.0, 50: 0.0}, 90)
    assert corpus_overlap(["b"], "abc").longest == "b"


def test_card_says_whether_a_run_repeats_exactly(here: Path) -> None:
    assert main([*SING, *SHORT]) == 0
    assert "- Again, exactly: `run.toml` beside" in (here / "m/README.md").read_text()
    assert main([*SING, *SHORT, "--out", "timed", "--max-minutes", "5"]) == 0
    card = (here / "timed/README.md").read_text()
    assert "- Again, but for what a clock decided (`loop.max_minutes`): `run.toml` beside" in card
