"""The model to export: checkpoint and network, and the checks that all forms share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import nn

from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, CheckpointConfig, CheckpointError
from models.exactness import as_written, difference
from models.networks.loading import load_network
from models.networks.recurrent import RecurrentLanguageModel
from models.networks.transformer import Transformer, TransformerConfig
from training.errors import TrainingError

Form = Literal["transformers", "marian", "pegasus", "ctranslate2", "onnx"]
TITLES: dict[Form, str] = {
    "transformers": "transformers",
    "marian": "Hugging Face's Marian",
    "pegasus": "Hugging Face's Pegasus",
    "ctranslate2": "CTranslate2",
    "onnx": "ONNX",
}


@dataclass(frozen=True, slots=True)
class Exportable:
    """A checkpoint and its network, on the CPU, in evaluation mode."""

    checkpoint: Checkpoint
    network: nn.Module

    @property
    def config(self) -> CheckpointConfig:
        return self.checkpoint.config

    def transformer(self, form: Form) -> tuple[Transformer, TransformerConfig]:
        """The network, if it is a Transformer without edits; otherwise a TrainingError: forms that rebuild a network
        from its weights would compute something else."""
        if not isinstance(self.network, Transformer):
            kind = "is a lyricist" if isinstance(self.network, RecurrentLanguageModel) else "is no Transformer of ours"
            raise TrainingError(
                f"{self.checkpoint.folder} {kind}, and {TITLES[form]} has no such network: use --to onnx."
            )
        if edit := difference(self.network, as_written(self.network, Transformer)):
            raise TrainingError(
                f"The network was edited ({edit}), and {TITLES[form]} would compute it without the edit: use --to onnx,"
                " which exports the network's own modules."
            )
        return self.network, self.network.config

    @property
    def start(self) -> int:
        """The decoder's start token."""
        if len(self.config.target_prefix) != 1:
            count = len(self.config.target_prefix)
            raise TrainingError(f"{self.checkpoint.folder} starts its targets with {count} tokens, and forms have one.")
        return self.config.target_prefix[0]

    @property
    def longest(self) -> int:
        """Positions that sources and targets may have."""
        config = self.config
        return max(config.max_source_tokens, config.max_new_tokens + len(config.target_prefix))


def read_exportable(folder: Path) -> Exportable:
    """TrainingError for a folder that is no sound checkpoint."""
    try:
        checkpoint = checkpoints.read(folder)
        network = load_network(checkpoint)
    except CheckpointError as error:
        raise TrainingError(str(error)) from error
    return Exportable(checkpoint, network)
