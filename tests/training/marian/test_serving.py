"""An imported folder is an ordinary checkpoint: it is served, scored and quantised."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from app.engine.jobs import AttentionJob, TranslationJob
from models import checkpoint as checkpoints
from models.cached_transformer import CachedTransformer
from models.decoding import DecodingOptions, TokenRules, decode
from models.interface import Prompt
from models.native import build
from models.native.transformer import NativeTransformer
from models.networks import load_network
from tests.app.engine.running import Running, options
from tests.training.marian import folders
from training.__main__ import main
from training.evaluate import translate
from training.marian.importing import Choice, import_marian

LINES = folders.lines("de")[10:30]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """de-es out of a model with two target languages."""
    path = tmp_path_factory.mktemp("marian")
    folder = folders.write(path / "folder", languages=[">>eng<<", ">>spa<<"], eos_bias=4.0)
    import_marian(str(folder), path / "served" / "de-es", Choice(target="es"))
    return path / "served"


@pytest.fixture(scope="module")
def running(root: Path) -> Iterator[Running]:
    found = Running(options(root))
    found.ready()
    yield found
    found.close()


def test_it_is_served_as_it_decodes(running: Running, root: Path) -> None:
    checkpoint = checkpoints.read(root / "de-es")
    expected = translate(checkpoint, load_network(checkpoint), LINES, beam=4)
    jobs = [TranslationJob(text=line, source_language="de", target_language="es") for line in LINES]
    answers = running.do(running.pool.translate(jobs))
    assert [answer.text for answer in answers] == expected
    assert len(set(expected)) > 10
