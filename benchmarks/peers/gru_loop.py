"""One plain `nn.GRU` and a Python loop: every stream alone, one after another, the hidden state kept between steps."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from models import checkpoint as checkpoints
from models.networks.loading import load_network


class GruLoop:
    """The embedding, the `nn.GRU` and the output layer of a lyricist checkpoint: the same weights as served."""

    def __init__(self, folder: Path) -> None:
        checkpoint = checkpoints.read(folder)
        network = load_network(checkpoint)
        self.embedding, self.gru, self.output = network.embedding, network.recurrent, network.output
        self.suppressed = list(checkpoint.config.suppressed)
        self.encode = checkpoint.target_ids

    @torch.inference_mode()
    def stream(self, prompt: str, length: int, temperature: float) -> list[int]:
        """`length` tokens drawn at `temperature`, as one would write it: a step, a softmax, a draw."""
        tokens = torch.tensor([self.encode(prompt)])
        hidden, written = None, list[int]()
        for _ in range(length):
            features, hidden = self.gru(self.embedding(tokens), hidden)
            logits = self.output(features[0, -1])
            logits[self.suppressed] = -torch.inf
            token = torch.multinomial((logits / temperature).softmax(-1), 1)
            written.append(int(token))
            tokens = token[None]
        return written

    def tokens_per_second(self, prompt: str, streams: int, length: int, temperature: float) -> float:
        self.stream(prompt, 8, temperature)
        started = time.perf_counter()
        for _ in range(streams):
            self.stream(prompt, length, temperature)
        return streams * length / (time.perf_counter() - started)
