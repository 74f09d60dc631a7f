"""onnxruntime gives our tokens from what is exported to it, of an edited network too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmarks.peers.exported import session
from models import checkpoint as checkpoints
from models.networks import transformer
from models.networks.loading import load_network
from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel
from models.networks.transformer import FeedForward
from tests.models.tiny import lively
from tests.tiny import write_lyricist
from tests.training.exporters.exported import answers, write_random
from training.errors import TrainingError
from training.exporters.export_checkpoint import export_checkpoint
from training.exporters.exportable import Exportable
from training.exporters.onnx_graphs import write_graphs

for library in ("onnxscript", "onnxruntime"):
    pytest.importorskip(library, reason=f"extra export brings {library}")
pytestmark = pytest.mark.filterwarnings("default")  # of the other libraries
NETWORKS: dict[str, dict[str, Any]] = {
    "the default recipe": {"norm": "pre", "tied": "all"},
    "OPUS-MT": {"tied": "all", "positions": "marian", "output_bias": True, "activation": "silu"},
    "two vocabularies, no biases": {"tied": "output", "attention_bias": False, "scale_embedding": False, "seed": 13},
    "untied, narrow heads": {"tied": "none", "heads": 3, "head_width": 8, "attention_scale": 0.3, "decoder_layers": 1},
}


@pytest.mark.slow
def test_onnxruntime_writes_our_tokens(tmp_path: Path) -> None:
    checkpoint = write_random(tmp_path / "ours", norm="pre", tied="all", encoder_layers=1, decoder_layers=1)
    ours, theirs = answers(checkpoint, "onnx", "onnx", tmp_path / "out")
    assert theirs == ours
    decoder = session(tmp_path / "out/decoder_with_past_model.onnx")  # names as Optimum has them
    assert [each.name for each in decoder.get_inputs()] == [
        *("encoder_attention_mask", "input_ids"),
        *(f"past_key_values.0.{side}.{kind}" for side in ("decoder", "encoder") for kind in ("key", "value")),
    ]
    assert [each.name for each in decoder.get_outputs()] == [
        *("logits", "present.0.decoder.key", "present.0.decoder.value")
    ]
    assert (tmp_path / "out/config.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_onnxruntime_writes_our_tokens_for_every_option(tmp_path: Path, name: str) -> None:
    ours, theirs = answers(write_random(tmp_path / "ours", **NETWORKS[name]), "onnx", "onnx", tmp_path / "out")
    assert theirs == ours


class GatedFeedForward(FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        wide: Tensor = self.widen(x)
        return self.narrow(wide.sigmoid() * wide)  # type: ignore[no-any-return]


@pytest.mark.slow
def test_an_edited_network_is_exported_with_its_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer, "norm", lambda config: nn.RMSNorm(config.d_model))
    monkeypatch.setattr(transformer, "FeedForward", GatedFeedForward)
    checkpoint = write_random(tmp_path / "ours", norm="pre", tied="all")
    with pytest.raises(TrainingError, match="The network was edited"):
        export_checkpoint(checkpoint.folder, "transformers", tmp_path / "refused")
    ours, theirs = answers(checkpoint, "onnx", "onnx", tmp_path / "out")
    assert theirs == ours
    assert not (tmp_path / "out/config.json").exists()  # transformers has no such network


@pytest.mark.slow
def test_a_branch_that_a_graph_would_not_keep_is_refused(tmp_path: Path) -> None:
    class Branching(FeedForward):
        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = super().forward(x)
            return y if x.shape[1] == 5 else -y  # of the traced length

    checkpoint = write_random(tmp_path / "ours", norm="pre", tied="all")
    network = load_network(checkpoint)
    network.encoder[0].feed_forward.__class__ = Branching
    (tmp_path / "out").mkdir()
    with pytest.raises(TrainingError, match=r"encoder_model.onnx|cannot trace"):
        write_graphs(Exportable(checkpoint, network), tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_lyricist_steps_with_its_state(tmp_path: Path, cell: str) -> None:
    torch.manual_seed(0)
    config = RecurrentConfig(vocabulary=11, embedding=6, hidden=10, layers=2, cell=cell)  # type: ignore[arg-type]
    network = lively(RecurrentLanguageModel(config).eval())
    checkpoint = checkpoints.read(write_lyricist(tmp_path / "song"))
    write_graphs(Exportable(checkpoint, network), tmp_path)
    graph = session(tmp_path / "model.onnx")
    tokens = torch.randint(11, (3, 9), generator=torch.Generator().manual_seed(1))
    hidden = memory = np.zeros((2, 3, 10), np.float32)
    with torch.inference_mode():
        expected, _ = network(tokens)
    for place in range(9):
        given = {"input_ids": tokens[:, place : place + 1].numpy(), "past_hidden": hidden, "past_memory": memory}
        logits, hidden, memory = graph.run(None, given)
        assert np.abs(logits[:, 0] - expected[:, place].numpy()).max() < 1e-5


@pytest.mark.slow
def test_padding_at_the_end_of_a_source_is_not_attended_to(tmp_path: Path) -> None:
    """As the tutorial's translator has it: no other form has such sources."""
    rules = {"source_suffix": (0,)}
    checkpoint = write_random(tmp_path / "ours", norm="pre", tied="output", decoder_layers=1, rules=rules)
    ours, theirs = answers(checkpoint, "onnx", "onnx", tmp_path / "out")
    assert theirs == ours
    assert not (tmp_path / "out/config.json").exists()
