"""The table of memory per model and slot is that of the caches' arithmetic."""

from __future__ import annotations

import pytest

from app.engine.worker.slot_budget import LOGITS, MIB
from benchmarks.gpu_memory import row, shapes
from tests.readme import ROOT
from training.config import recipes


def test_a_slot_holds_the_longest_source_and_output_in_bf16_and_logits() -> None:
    (tiny,) = shapes({"tiny"})
    config = recipes.TRANSLATORS["tiny"].config
    width, layers = config.network["d_model"], config.network["decoder_layers"]
    positions = config.max_tokens + 1 + 2 * config.max_tokens  # of the source, and of a start token and the output
    caches = 2 * 2 * layers * width * positions
    expected = (caches + 4 * LOGITS * config.tokenizer.vocab_size) / MIB
    assert row(tiny)["slot_mib"] == pytest.approx(expected, rel=0.02)


def test_a_small_gpu_gets_fewer_slots_of_a_larger_network() -> None:
    (lyricist,) = shapes({"lyrics"})
    result = row(lyricist)
    assert result["weights_mib"] == pytest.approx(result["parameters"] * 6 / MIB, abs=1)
    assert result["slots on 8 GiB"] == 512


def test_the_documented_table_is_that_of_the_command() -> None:
    page = (ROOT / "docs/gpu.md").read_text(encoding="utf-8")
    for shape in shapes({"tiny", "small", "base"}):
        name, parameters, weights, slot, *slots = row(shape).values()
        line = f"| {name} | {parameters / 1e6:.1f} million | {weights} MiB | {slot:.2f} MiB | "
        assert line + " | ".join(map(str, slots)) + " |" in page
