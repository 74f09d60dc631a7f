"""Sinusoids against the paper's formula, and Marian's layout of the same numbers."""

from __future__ import annotations

import math

import pytest
import torch

from models.networks.transformer import sinusoids
from tests.models import tiny


@pytest.mark.parametrize("width", [2, 6, 7, 512])
def test_positions_equal_the_paper_formula(width: int) -> None:
    table = sinusoids(40, width, "interleaved")
    assert table.shape == (40, width)
    assert table.dtype == torch.float32
    for position in (0, 1, 7, 39):
        for i in range(width):
            angle = position / 10_000 ** (2 * (i // 2) / width)
            expected = math.sin(angle) if i % 2 == 0 else math.cos(angle)
            assert table[position, i].item() == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("width", [2, 6, 512])
def test_marian_layout_puts_sines_first(width: int) -> None:
    interleaved, marian = sinusoids(40, width, "interleaved"), sinusoids(40, width, "marian")
    assert torch.equal(marian[:, : width // 2], interleaved[:, 0::2])
    assert torch.equal(marian[:, width // 2 :], interleaved[:, 1::2])


def test_far_positions_are_exact() -> None:
    """float32 angles would be wrong by 1e-3 here."""
    assert sinusoids(30_001, 4, "interleaved")[30_000, 0].item() == pytest.approx(math.sin(30_000), abs=1e-7)


def test_position_table_grows_and_keeps_its_rows() -> None:
    network = tiny.transformer()
    short = network.position_vectors(3).clone()
    long = network.position_vectors(1000)
    assert len(long) >= 1000
    assert torch.equal(long[:3], short[:3])
    assert network.position_vectors(5) is long, "made once"
    assert "position_table" not in network.state_dict()


def test_a_table_first_grown_while_decoding_serves_training() -> None:
    network = tiny.transformer()
    with torch.inference_mode():
        network(tiny.ids((1, 3), 0), tiny.ids((1, 2), 0))
    network(tiny.ids((1, 3), 0), tiny.ids((1, 2), 0)).sum().backward()
    assert network.source_embedding.weight.grad is not None
