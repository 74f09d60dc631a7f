"""The recurrent language model stepped by PyTorch: the network's own forward over one token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from models.backends.torch.cuda_graph import StepShape
from models.backends.torch.transfers import upload
from models.backends.torch.transformer_step import FloatLogits
from models.exactness import is_known
from models.interface import Prompt
from models.networks.recurrent import RecurrentLanguageModel, RecurrentState


class EagerRecurrent:
    """A `Decodable` over a network in evaluation mode. Later changes of its weights or modules take effect at once."""

    def __init__(self, network: RecurrentLanguageModel) -> None:
        assert not network.training, "dropout would be decoded"
        self.network, self.config, self.device = network, network.config, network.device
        self.logits, self._known = FloatLogits(network), is_known(network, "forward")

    @property
    def vocabulary(self) -> int:
        return self.config.vocabulary

    def allocate(self, slots: int, source_length: int, target_length: int) -> RecurrentState:
        start = self.network.zeros(slots)
        return RecurrentState(start.hidden.clone(), start.memory.clone())  # steps write into both

    @torch.inference_mode()
    def prefill(self, state: RecurrentState, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        """Reads all prefixes in parallel, in segments that end where one of them ends."""
        reads = [p.prefix[:-1] for p in prompts]
        index = upload(np.array(rows), self.device)
        start = self.network.zeros(len(rows))
        state.hidden[:, index], state.memory[:, index] = start.hidden, start.memory
        begin = 0
        for end in sorted({len(read) for read in reads if read}):
            longer = [(row, read[begin:end]) for row, read in zip(rows, reads, strict=True) if len(read) >= end]
            index = upload(np.array([row for row, _ in longer]), self.device)
            tokens = upload(np.array([part for _, part in longer]), self.device)
            before = RecurrentState(state.hidden[:, index], state.memory[:, index])
            _, after = self.network.sequence(tokens, before)
            state.hidden[:, index], state.memory[:, index] = after.hidden, after.memory
            begin = end

    def step(self, state: RecurrentState, tokens: Tensor, group: int = 1) -> Tensor:
        return self.advance(state, tokens, StepShape(len(tokens), 1, 0, 0))

    def shape(self, state: RecurrentState, rows: int, group: int) -> StepShape:
        """The shape of the next step; a recurrent state has no length."""
        return StepShape(rows, 1, 0, 0)

    def stepped(self, state: RecurrentState, rows: int) -> None:
        """The host keeps no counts."""

    @torch.inference_mode()
    def advance(self, state: RecurrentState, tokens: Tensor, shape: StepShape) -> Tensor:
        """The device part of a step, which a CUDA graph can capture."""
        hidden, memory = state.hidden[:, : shape.rows], state.memory[:, : shape.rows]
        logits: Tensor
        before = RecurrentState(hidden, memory)
        if self._known and self.logits.unrounded:
            features, after = self.network.sequence(tokens[:, None], before)
            logits = self.logits(features[:, 0])
        else:
            predicted, after = self.network(tokens[:, None], before)
            logits = predicted[:, 0].float()
        hidden.copy_(after.hidden)
        memory.copy_(after.memory)
        return logits

    @torch.inference_mode()
    def reorder(self, state: RecurrentState, parents: Tensor, shape: StepShape) -> None:
        """See `models.backends.torch.cuda_graph.Recordable.reorder`."""
        for part in (state.hidden[:, : shape.rows], state.memory[:, : shape.rows]):
            part.copy_(part.index_select(1, parents))

    @torch.inference_mode()
    def copy(
        self,
        state: RecurrentState,
        sources: Sequence[int],
        destinations: Sequence[int],
        since: Sequence[int] | None = None,
    ) -> None:
        index, onto = upload(np.array([list(sources), list(destinations)]), self.device).unbind(0)
        for part in (state.hidden, state.memory):
            part.index_copy_(1, onto, part.index_select(1, index))
