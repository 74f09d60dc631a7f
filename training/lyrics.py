"""The task of a lyricist: windows of one long text, cross-entropy per character."""

from __future__ import annotations

import random

import torch
from torch import Tensor
from torch.nn import functional as F

from models.cached_recurrent import RecurrentState
from models.recurrent import RecurrentLanguageModel
from training.batches import TextBatch, consecutive_windows, random_windows
from training.configuration.lyrics import LyricsConfig
from training.errors import TrainingError
from training.wording import counted

LEAD = 512  # characters that a strand reads before those that it counts
VALIDATION_STRANDS = 32
IGNORED = -100  # a target that cross-entropy leaves out


class LyricsTask:
    """train and valid: character ids [N]."""

    def __init__(
        self, network: RecurrentLanguageModel, train: Tensor, valid: Tensor | None, config: LyricsConfig
    ) -> None:
        self.network, self.train, self.valid, self.config = network, train, valid, config
        self.state: RecurrentState | None = None

    def batches(self, epoch: int) -> list[TextBatch]:
        config = self.config
        generator = random.Random(config.loop.seed * 1_000_003 + epoch)
        if config.sampling == "random":
            return list(random_windows(self.train, config.rows, config.steps, generator))
        spare = len(self.train) - config.rows * (config.steps + 1)  # beyond one window of every strand
        offset = generator.randrange(max(1, min(config.steps, spare + 1))) if config.offset else 0
        return list(consecutive_windows(self.train, config.rows, config.steps, offset))

    def loss(self, batch: TextBatch) -> tuple[Tensor, int]:
        device = self.network.device
        state = self.state if batch.carry else None
        logits, after = self.network(batch.inputs.to(device), state)
        self.state = RecurrentState(after.hidden.detach(), after.memory.detach())
        outputs = batch.outputs.to(device)
        return F.cross_entropy(logits.flatten(0, 1).float(), outputs.flatten()), outputs.numel()

    def validate(self) -> float | None:
        if self.valid is None or len(self.valid) < 2:
            return None
        strands = min(VALIDATION_STRANDS, len(self.valid) // (4 * LEAD))
        if strands > 1:
            total, characters = likelihood_in_strands(self.network, self.valid, strands, LEAD)
        else:
            total, characters = negative_log_likelihood(self.network, self.valid)
        return total / characters

    def part(self, batch: TextBatch, rank: int, count: int) -> TextBatch:
        rows = len(batch.inputs)
        if rows < count:
            strands = counted(rows, "strand")
            raise TrainingError(f"{count} processes cannot share {strands} of text; start at most {rows}.")
        return TextBatch(batch.inputs[rank::count], batch.outputs[rank::count], batch.carry)

    def carried(self) -> dict[str, Tensor]:
        return {"hidden": self.state.hidden, "memory": self.state.memory} if self.state else {}

    def restore(self, carried: dict[str, Tensor]) -> None:
        if carried:
            device = self.network.device
            self.state = RecurrentState(carried["hidden"].to(device), carried["memory"].to(device))


@torch.inference_mode()
def negative_log_likelihood(network: RecurrentLanguageModel, text: Tensor, window: int = 1024) -> tuple[float, int]:
    """Nats of a text [N] read from its start to its end in one strand, and the characters counted: all but the
    first, which nothing predicts."""
    state, total = None, 0.0
    text = text.to(network.device)
    for i in range(0, len(text) - 1, window):
        inputs, outputs = text[i : i + window], text[i + 1 : i + 1 + window]
        logits, state = network(inputs[None, : len(outputs)], state)
        total += F.cross_entropy(logits[0].double(), outputs, reduction="sum").item()
    return total, len(text) - 1


@torch.inference_mode()
def likelihood_in_strands(
    network: RecurrentLanguageModel, text: Tensor, strands: int, lead: int, window: int = 128
) -> tuple[float, int]:
    """As `negative_log_likelihood`, many times as fast: the text is cut into `strands` that are read side by side.
    Each but the first begins `lead` characters earlier, from a zero state, and counts from where the one before ends:
    what a state remembers from further back is lost."""
    text = text.to(network.device)
    counted = -(-(len(text) - 1 - lead) // strands)
    missing = lead + counted * strands + 1 - len(text)
    cut = F.pad(text, (0, missing), value=IGNORED).unfold(0, lead + counted + 1, counted)
    inputs, outputs = cut[:, :-1].clamp(min=0), cut[:, 1:].clone()
    outputs[1:, :lead] = IGNORED
    state, total = None, 0.0
    for i in range(0, inputs.size(1), window):
        logits, state = network(inputs[:, i : i + window], state)
        nats = F.cross_entropy(logits.flatten(0, 1), outputs[:, i : i + window].flatten(), reduction="none")
        total += nats.double().sum().item()
    return total, len(text) - 1
