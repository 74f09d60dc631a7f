"""The diffs of docs/change-the-network.md: each applies to a copy of the tree, and the changed network is what runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.readme import ROOT

PAGE = (ROOT / "docs/change-the-network.md").read_text(encoding="utf-8")
DIFFS = {
    name: "\n".join(diffs)
    for name, diffs in re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    for diffs in [re.findall(r"^```diff\n(.*?)^```$", diffs, re.MULTILINE | re.DOTALL)]
    if diffs
}
TRANSFORMERS = ("RMSNorm", "Rotary positions", "Learnt positions", "SwiGLU")
REASONS = {
    "RMSNorm": "RMSNorm",
    "Rotary positions": "was edited",
    "Learnt positions": "was edited",
    "SwiGLU": "FeedForward.forward was edited",
    "A recurrent cell": "its cell is mgu",
}
STEPS = {
    "RMSNorm": {"norm"},
    "Rotary positions": {"query", "keys", "layer input"},
    "Learnt positions": {"layer input"},
    "SwiGLU": {"activation"},
}

# Random weights of one seed: forward pass, cached steps, attention, and which backend is chosen.
TRANSFORMER_PROBE = """
import json, torch
from models.backends.select import select
from models.inspection.forced_pass import forced_pass
from models.decoding.options import TokenRules
from models.inspection.selection import WalkthroughFocus
from models.inspection.walkthrough import walkthrough
from models.interface import Prompt
from models.networks.transformer import Transformer, TransformerConfig
from training.kernels.training_backend import TranslatorBackend

torch.manual_seed(0)
sizes = dict(d_model=32, heads=2, head_width=16, d_ff=64, encoder_layers=1, decoder_layers=2, norm="pre", tied="all")
network = Transformer(TransformerConfig(source_vocabulary=40, target_vocabulary=40, **sizes)).eval()
source, target = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[1, 9, 10, 11, 12]])
with torch.inference_mode():
    whole = network(source, target)[0]
chosen = select(network, "fp32")
state = chosen.decodable.allocate(1, 8, 8)
chosen.decodable.prefill(state, [0], [Prompt((5, 6, 7, 8), (1, 9))])  # one token is read, the others are stepped
steps = torch.stack([chosen.decodable.step(state, target[0, i : i + 1])[0, :40].clone() for i in range(1, 5)])
maps = forced_pass(network, source[0].tolist(), target[0].tolist()).maps
walk = walkthrough(network, (5, 6, 7, 8), (1, 9, 10), WalkthroughFocus(layer=0), TokenRules(None))
served, trained = select(network, "int8"), TranslatorBackend(network).choice()
print(json.dumps({
    "logits": whole.flatten()[:50].tolist(),
    "steps": float((steps - whole[1:]).abs().max()),
    "maps": {kind: weights[-1].flatten().tolist() for kind, weights in maps.items()},
    "edits": walk.edits,
    "edited": [step.name for step in walk.steps if step.edited],
    "served": [served.native, served.reason],
    "fp32": [chosen.native, chosen.reason],
    "trained": [trained.library is not None, trained.reason],
}))
"""
CELL_PROBE = """
import json, torch
from models.backends.select import select
from models.interface import Prompt
from models.networks.cells import CELLS
from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel

torch.manual_seed(0)
network = RecurrentLanguageModel(RecurrentConfig(vocabulary=30, embedding=8, hidden=16, layers=2, cell="mgu")).eval()
tokens = torch.tensor([[3, 4, 5, 6, 7]])
with torch.inference_mode():
    whole = network(tokens)[0][0]
chosen = select(network, "fp32")
state = chosen.decodable.allocate(1, 1, 8)
chosen.decodable.prefill(state, [0], [Prompt((), (3, 4))])
steps = torch.stack([chosen.decodable.step(state, tokens[0, i : i + 1])[0, :30].clone() for i in range(1, 5)])
gates, _ = network.gates(tokens[0])
f, n, h = gates["f"][0], gates["n"][0], gates["h"][0]
before = torch.cat([torch.zeros_like(h[:1]), h[:-1]])
print(json.dumps({
    "steps": float((steps - whole[1:]).abs().max()),
    "gates": list(gates),
    "state": float((h - ((1 - f) * before + f * n)).abs().max()),
    "served": [chosen.native, chosen.reason],
}))
"""


class Tree:
    """A copy of the packages, with a diff applied."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder = folder
        for package in ("models", "training"):
            shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PARLANCE_")},
            "PYTHONPATH": str(folder),
            "GIT_CEILING_DIRECTORIES": str(folder.parent),
            "OMP_NUM_THREADS": "1",
        }
        for name in names:
            applied = self.run("git", "apply", "-", given=DIFFS[name])
            assert applied.returncode == 0, f"{name}: {applied.stderr}"

    def run(self, *command: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, input=given, capture_output=True, text=True, timeout=300
        )

    def probe(self, program: str) -> Any:
        done = self.run(sys.executable, "-c", program)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def train(self, *words: str) -> tuple[Path, list[float], str]:
        """The checkpoint of a short run, its losses and what it printed."""
        german, english = (
            ("der", "hund", "katze", "mann", "sieht", "malt"),
            ("the", "dog", "cat", "man", "sees", "paints"),
        )
        pairs = [(a, b, c) for a in range(6) for b in range(6) for c in range(6)]
        lines = ["\t".join(" ".join(side[i] for i in pair) for side in (german, english)) for pair in pairs]
        (self.folder / "pairs.tsv").write_text("\n".join(lines))
        (self.folder / "songs.txt").write_text("\n".join(line.split("\t")[1] for line in lines) * 2)
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        limits = ("--max-epochs", "2", "--seed", "3", "--device", "cpu", "--threads", "1", "--out", "out")
        done = self.run(sys.executable, "-m", "training", *words, *limits)
        assert done.returncode == 0, done.stderr
        metrics = [json.loads(line) for line in (self.folder / "out/metrics.jsonl").read_text().splitlines()]
        return self.folder / "out", [line["loss"] for line in metrics if "loss" in line], done.stdout + done.stderr


TRANSLATOR = (
    *("translator", "--source", "de", "--target", "en", "--train", "pairs.tsv", "--recipe", "tiny"),
    *("--set", "loop.precision=fp32"),  # "auto" is bf16 on CPUs that have it
    *("--set", "network.d_model=32", "--set", "network.heads=2", "--set", "network.head_width=16"),
    *("--set", "network.d_ff=64", "--set", "network.encoder_layers=1", "--set", "network.decoder_layers=1"),
    *("--set", "tokenizer.kind=word", "--set", "tokens_per_batch=300", "--set", "network.tied=none"),
)
LYRICIST = (
    *("lyrics", "--corpus", "songs.txt", "--recipe", "small", "--set", "loop.precision=fp32"),
    *("--set", "network.hidden=32", "--set", "network.embedding=16"),
)
# The best translation of a text, by the network that the training has left: PyTorch's steps against a full pass.
DECODE = """
import json, sys, torch
from pathlib import Path
from models import checkpoint
from models.backends.select import select
from models.interface import Prompt
from models.networks.loading import load_network

network = load_network(checkpoint.read(Path("out")))
weights = {name: tensor.abs().sum().item() for name, tensor in network.named_parameters()}
chosen = select(network, "fp32")
source = (4, 5, 6)
state = chosen.decodable.allocate(1, 8, 16)
chosen.decodable.prefill(state, [0], [Prompt(source, (2,))])
tokens = [2]
for _ in range(8):
    tokens.append(int(chosen.decodable.step(state, torch.tensor(tokens[-1:]))[0].argmax()))
with torch.inference_mode():
    features = network.features(torch.tensor([source]), torch.tensor([tokens[:-1]]))
    expected = network.project(features)[0].argmax(-1).tolist()
print(json.dumps({"tokens": tokens[1:], "expected": expected, "weights": weights, "reason": chosen.reason}))
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    yield Tree(tmp_path_factory.mktemp("plain"))


@pytest.mark.slow
def test_all_changes_apply_together_and_change_the_steps(tmp_path: Path) -> None:
    assert list(DIFFS) == [*TRANSFORMERS, "A recurrent cell", "An optimizer"]
    assert max(diff.count("\n") for diff in DIFFS.values()) <= 40
    tree = Tree(tmp_path, *(name for name in DIFFS if name != "Learnt positions"))  # instead of rotary ones
    transformer, cell = tree.probe(TRANSFORMER_PROBE), tree.probe(CELL_PROBE)
    assert transformer["steps"] < 1e-4
    assert not transformer["served"][0]
    assert not transformer["trained"][0]
    assert cell["steps"] < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_changed_transformer_is_the_one_that_runs(plain: Tree, tmp_path: Path, name: str) -> None:
    tree = Tree(tmp_path, name)
    before, after = plain.probe(TRANSFORMER_PROBE), tree.probe(TRANSFORMER_PROBE)
    assert after["logits"] != pytest.approx(before["logits"], abs=1e-3)
    assert after["steps"] < 1e-4, "decoding runs another network than the forward pass"
    for kind in ("encoder", "decoder", "cross"):
        assert after["maps"][kind] != pytest.approx(before["maps"][kind], abs=1e-5), kind
    assert (before["edits"], before["edited"]) == ([], [])
    assert any(REASONS[name] in edit for edit in after["edits"])
    assert STEPS[name] <= set(after["edited"])
    assert REASONS[name] in after["fp32"][1]
    for way in ("served", "trained"):
        native, reason = after[way]
        assert not native
        assert REASONS[name] in reason or not before[way][0]
    _, losses, _ = plain.train(*TRANSLATOR)
    _, changed, printed = tree.train(*TRANSLATOR)
    assert changed != losses
    assert "Trains with PyTorch in fp32, because " in " ".join(printed.split())
    assert REASONS[name] in printed or not before["trained"][0]
    decoded = tree.probe(DECODE)
    assert decoded["tokens"] == decoded["expected"]
    if name == "SwiGLU":
        assert decoded["weights"]["decoder.0.feed_forward.gate.bias"] > 0, "the gate was never trained"


@pytest.mark.slow
def test_a_new_cell_is_trained_decoded_and_shown(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "A recurrent cell")
    result = tree.probe(CELL_PROBE)
    assert result["steps"] < 1e-5
    assert result["gates"] == ["f", "n", "h"]
    assert result["state"] < 1e-6
    assert result["served"] == [False, REASONS["A recurrent cell"]]
    _, losses, printed = tree.train(*LYRICIST, "--cell", "mgu")
    assert "Trains with PyTorch" in printed
    assert losses[-1] < losses[0]
    decoded = tree.probe(DECODE.replace("source = (4, 5, 6)", "source = ()"))
    assert decoded["tokens"] == decoded["expected"]


@pytest.mark.slow
def test_a_new_optimizer_trains(plain: Tree, tmp_path: Path) -> None:
    tree = Tree(tmp_path, "An optimizer")
    adam = ("--set", "optimizer.name=adam", "--set", "optimizer.learning_rate=1e-3")
    lion = ("--set", "optimizer.name=lion", "--set", "optimizer.learning_rate=1e-3")
    _, before, _ = plain.train(*TRANSLATOR, *adam)
    out, after, _ = tree.train(*TRANSLATOR, *lion)
    assert after != before
    assert after[-1] < after[0]
    assert 'name = "lion"' in (out / "run.toml").read_text()
