"""A plain PyTorch decoding loop over a static cache, as somebody who knows PyTorch would write it for one shape.

Whole batch, one length, all sequences start and end together, and the tokens stay on the device until the end. It runs
eager, as one captured CUDA graph for each step, or compiled (torch.compile, mode="reduce-overhead").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.processes import Work
from models.checkpoint import read
from models.networks.loading import load_network
from models.networks.transformer import Transformer

Mode = Literal["eager", "graph", "compiled"]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True)
class Loop:
    """backend: of torch.compile; "inductor" is its own."""

    folder: str
    mode: Mode
    device: str
    precision: str = "bf16"
    backend: str = "inductor"

    @property
    def processes(self) -> int:
        return 1

    def __str__(self) -> str:
        return f"{self.mode} loop, {self.precision}"

    def open(self) -> Opened:
        return Opened(self)

    def tokens(self, answer: Any) -> list[list[int]]:
        return list(answer)


class Opened:
    def __init__(self, setting: Loop) -> None:
        checkpoint = read(Path(setting.folder))
        self.setting, self.start = setting, checkpoint.config.target_prefix[0]
        self.network: Transformer = load_network(checkpoint, setting.device).to(DTYPES[setting.precision])
        self.batches: dict[tuple[int, ...], Batch] = {}

    def translate(self, work: Work) -> list[list[int]]:
        """Sources and limits of one length each: these loops pad nothing."""
        shape = (len(work.sources), work.beam, len(work.sources[0]), work.limits[0])
        if shape not in self.batches:
            self.batches.clear()  # one at a time: the caches of a large batch are large
            self.batches[shape] = Batch(self.network, self.setting, *shape)
        return self.batches[shape].run(work.sources, self.start)


class Batch(nn.Module):
    """The caches of one batch, and its step. R = batch × beam rows."""

    def __init__(
        self, network: Transformer, setting: Loop, batch: int, beam: int, source_length: int, length: int
    ) -> None:
        super().__init__()
        config, reference = network.config, network.source_embedding.weight
        if config.norm != "post" or config.activation != "relu":
            raise ValueError("This loop is written for post-norm layers with ReLU.")
        self.network, self.batch, self.beam, self.length = network, batch, beam, length
        self.mode = setting.mode
        rows, device = batch * beam, reference.device

        def cache(size: int) -> Tensor:
            shape = (config.decoder_layers, 2, rows, config.heads, size, config.head_width)
            return torch.zeros(shape, dtype=reference.dtype, device=device)

        self.register_buffer("own", cache(length))
        self.register_buffer("source", cache(source_length))
        self.register_buffer("table", network.position_vectors(length)[:length].to(reference).clone())
        self.register_buffer("places", torch.arange(length, device=device))
        self.register_buffer("first_rows", torch.arange(0, rows, beam, device=device)[:, None])
        self.tokens = torch.zeros(rows, dtype=torch.long, device=device)
        self.scores = torch.zeros(rows, device=device)
        self.advance = self._prepared(setting)

    def _prepared(self, setting: Loop) -> Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
        if setting.mode == "compiled":
            for buffer in (self.own, self.source, self.table, self.places, self.first_rows):
                torch._dynamo.mark_static_address(buffer)
            options = {"mode": "reduce-overhead"} if setting.backend == "inductor" else {"backend": setting.backend}
            return torch.compile(self.step, fullgraph=True, dynamic=False, **options)
        return captured(self) if setting.mode == "graph" else self.step

    def step(self, tokens: Tensor, scores: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """tokens [R], scores [R], position [1] -> the next tokens, their scores, and the row each came from."""
        network, config = self.network, self.network.config
        x = F.embedding(tokens, network.target_embedding.weight) * network.embedding_scale + self.table[position]
        mask = (self.places <= position)[None, None, None]
        for number, layer in enumerate(network.decoder):
            query, key, value = (
                part.view(len(tokens), config.heads, 1, config.head_width)
                for part in layer.attention.projection(x).chunk(3, dim=-1)
            )
            own = self.own[number]
            own[0].index_copy_(2, position, key)
            own[1].index_copy_(2, position, value)
            context = F.scaled_dot_product_attention(query, own[0], own[1], attn_mask=mask)
            x = layer.around_attention.norm(x + layer.attention.output(context.flatten(1)))
            source = self.source[number]
            attention = layer.cross_attention
            query = attention.split(attention.projection(x[:, None], slice(attention.inner)))
            context = F.scaled_dot_product_attention(query, source[0], source[1])
            x = layer.around_cross.norm(x + attention.output(context.flatten(1)))
            x = layer.around_feed_forward.norm(x + layer.feed_forward(x))
        return self.choose(network.project(x), scores)

    def choose(self, logits: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.beam == 1:
            chosen = logits.argmax(dim=-1)
            return chosen, scores, chosen
        total = (scores[:, None] + logits.float().log_softmax(dim=-1)).view(self.batch, -1)
        values, where = total.topk(self.beam, dim=-1)
        parents = (where // logits.size(1) + self.first_rows).flatten()
        self.own.copy_(self.own.index_select(2, parents))
        return (where % logits.size(1)).flatten(), values.flatten(), parents

    @torch.inference_mode()
    def run(self, sources: tuple[tuple[int, ...], ...], start: int) -> list[list[int]]:
        self._encode(torch.tensor(sources, device=self.own.device))
        self.tokens.fill_(start)
        self.scores.fill_(0.0)
        if self.beam > 1:  # all hypotheses are equal at first: only one may branch
            self.scores.view(self.batch, self.beam)[:, 1:] = float("-inf")
        tokens, scores, history = self.tokens, self.scores, []
        for place in range(self.length):
            if self.mode == "compiled":
                torch.compiler.cudagraph_mark_step_begin()
            tokens, scores, parents = self.advance(tokens, scores, self.places[place : place + 1])
            tokens, scores = tokens.clone(), scores.clone()  # a graph writes its next output over its last
            history.append(torch.stack((tokens, parents)))
        return self._read(torch.stack(history).tolist())

    def _encode(self, source: Tensor) -> None:
        memory, _ = self.network.encode(source)
        for number, layer in enumerate(self.network.decoder):
            for which, part in enumerate(layer.cross_attention.key_value(memory)):
                self.source[number, which].copy_(part.repeat_interleave(self.beam, dim=0))

    def _read(self, history: list[list[list[int]]]) -> list[list[int]]:
        """The best hypothesis of each sentence, followed back from its last token."""
        results = []
        for row in range(0, self.batch * self.beam, self.beam):
            tokens: list[int] = []
            for chosen, parents in reversed(history):
                tokens.append(chosen[row])
                row = row if self.beam == 1 else parents[row]
            results.append(tokens[::-1])
        return results


def captured(batch: Batch) -> Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """The step as one CUDA graph with inputs at fixed places."""
    inputs = (batch.tokens.clone(), batch.scores.clone(), batch.places[:1].clone())
    with torch.inference_mode():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                batch.step(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = batch.step(*inputs)

    def advance(*given: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        for place, tensor in zip(inputs, given, strict=True):
            place.copy_(tensor)
        graph.replay()
        return outputs

    return advance
