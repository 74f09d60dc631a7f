"""Greedy search and beams of four write what transformers' generate writes with the folder's own settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from models.checkpoint import CheckpointConfig
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Prompt
from tests.training.importers.marian import folders
from tests.training.importers.marian.imported import Imported, ours, their_network

SENTENCES = 200
NEW = 24  # tokens at most, the end among them: few enough that some sentences come to the limit
FOLDERS: dict[str, dict[str, Any]] = {
    "renormalised": {"eos_bias": 4.0},
    "as older folders": {"eos_bias": 4.0, "generation": {"renormalize_logits": False}},
    "without settings of its own": {"eos_bias": 4.0, "generation": {}},
    "two vocabularies": {"eos_bias": 3.0, "separate": True, "encoder_layers": 1},
}


def their_answers(path: Path, sources: Sequence[tuple[int, ...]], pad: int, eos: int, **settings: Any) -> list[Any]:
    network, answers = their_network(path), []
    longest = max(map(len, sources))
    ids = torch.tensor([[*source, *[pad] * (longest - len(source))] for source in sources])
    mask = torch.tensor([[1] * len(source) + [0] * (longest - len(source)) for source in sources])
    network.generation_config.max_length = None
    for row in network.generate(ids, attention_mask=mask, max_new_tokens=NEW, **settings).tolist():
        written = row[1:]
        end = written.index(eos) if eos in written else NEW
        answers.append(tuple(written[:end]))
    return answers


def our_answers(found: Imported, sources: Sequence[tuple[int, ...]], **options: Any) -> list[tuple[int, ...]]:
    config = found.checkpoint.config
    prompts = [Prompt(source, config.target_prefix) for source in sources]
    results = decode(found.network, rules(config), prompts, DecodingOptions(max_new_tokens=NEW, **options))
    return [hypotheses[0].tokens for hypotheses in results]


def rules(config: CheckpointConfig) -> TokenRules:
    return TokenRules(config.eos, config.suppressed, config.renormalise, config.forced_end)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_search_equals_transformers_on_two_hundred_sentences(name: str, tmp_path: Path) -> None:
    path = folders.write(tmp_path / "folder", **FOLDERS[name])
    if FOLDERS[name].get("generation") == {}:
        (path / "generation_config.json").unlink()
        pad = json.loads((path / "vocab.json").read_text(encoding="utf-8"))["<pad>"]
        folders.edit(path / "config.json", bad_words_ids=[[pad]])
    result = ours(path)
    sources = [result.checkpoint.source_ids(line) for line in folders.lines("de")[:: len(folders.lines("de")) // 250]]
    sources = sources[:SENTENCES]
    assert len(sources) == SENTENCES
    pad, eos = result.network.config.pad, result.checkpoint.config.eos
    assert eos is not None
    greedy = our_answers(result, sources)
    assert greedy == their_answers(path, sources, pad, eos, num_beams=1)
    for penalty in (1.0, 0.6):
        answers = our_answers(result, sources, beam_size=4, length_penalty=penalty)
        assert answers == their_answers(path, sources, pad, eos, num_beams=4, length_penalty=penalty)
        assert 20 < sum(len(answer) < NEW - 1 for answer in answers) < SENTENCES  # some end, some are cut
        assert len(set(answers)) > 20
    assert answers != greedy
