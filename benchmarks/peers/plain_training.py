"""A plain training loop: torch.nn.Transformer, padded batches of similar lengths, autocast, Adam."""

from __future__ import annotations

import json
import math
import random
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PAD = 0
Ids = list[list[int]]


class PlainTransformer(nn.Module):
    """drop: of embeddings and of what each sublayer adds, as in recipe `tiny`."""

    def __init__(
        self, vocabulary: int, width: int, heads: int, layers: tuple[int, int], inner: int, drop: float
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width, padding_idx=PAD)
        nn.init.normal_(self.table.weight, 0, width**-0.5)
        with warnings.catch_warnings(action="ignore"):  # that it has no fast path for inference
            self.network = nn.Transformer(width, heads, *layers, inner, drop, batch_first=True, norm_first=True)
        for part in self.network.modules():  # which drops attention weights and hidden units too, at a cost of 5 %
            if isinstance(part, nn.MultiheadAttention):
                part.dropout = 0.0
            elif isinstance(part, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                part.dropout.p = 0.0
        self.dropout, self.scale = nn.Dropout(drop), math.sqrt(width)
        position, rate = torch.arange(512)[:, None], torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        waves = torch.zeros(512, width)
        waves[:, 0::2], waves[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
        self.register_buffer("waves", waves)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.table(ids) * self.scale + self.waves[: ids.size(1)])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """source [B, S], target [B, T] -> logits [B, T, V]."""
        unread, length = source == PAD, target.size(1)
        memory = self.network.encoder(self.embed(source), src_key_padding_mask=unread)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        features = self.network.decoder(
            self.embed(target),
            memory,
            tgt_mask=future,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=unread,
        )
        return F.linear(features, self.table.weight)


def padded(rows: Ids) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def grouped(source: Ids, target: Ids, tokens: int) -> list[list[int]]:
    """Indices of pairs of like lengths, at most so many padded tokens of the longer side a batch."""
    order = sorted(range(len(source)), key=lambda i: (len(target[i]) + random.random(), len(source[i])))
    groups: list[list[int]] = [[]]
    longest = 0
    for i in order:
        longest = max(longest, len(source[i]), len(target[i]))
        if groups[-1] and longest * (len(groups[-1]) + 1) > tokens:
            groups.append([])
            longest = max(len(source[i]), len(target[i]))
        groups[-1].append(i)
    random.shuffle(groups)
    return groups


@dataclass(frozen=True, slots=True)
class PlainTraining:
    """One setting. corpus: a JSON file of the sources' and the targets' ids. shape: as PlainTransformer takes it."""

    corpus: str
    shape: tuple[Any, ...]
    smoothing: float
    rate: float
    precision: str
    threads: int
    tokens: int
    processes: int = 1

    def open(self) -> Running:
        torch.set_num_threads(self.threads)
        torch.manual_seed(1)
        random.seed(1)
        return Running(self)


class Running:
    def __init__(self, setting: PlainTraining) -> None:
        self.setting, self.model = setting, PlainTransformer(*setting.shape)
        self.source, self.target = json.loads(Path(setting.corpus).read_text(encoding="utf-8"))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=setting.rate, betas=(0.9, 0.98))
        self.groups = self._endless()

    def _endless(self) -> Iterator[Sequence[int]]:
        while True:
            yield from grouped(self.source, self.target, self.setting.tokens)

    def answer(self, updates: int) -> tuple[float, int]:
        """Seconds and target tokens of so many updates."""
        started, tokens = time.perf_counter(), 0
        for _ in range(updates):
            group = next(self.groups)
            tokens += self.update(padded([self.source[i] for i in group]), padded([self.target[i] for i in group]))
        return time.perf_counter() - started, tokens

    def update(self, source: Tensor, target: Tensor) -> int:
        self.model.train()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.setting.precision == "bf16"):
            logits = self.model(source, target[:, :-1])
        expected = target[:, 1:]
        loss = F.cross_entropy(
            logits.float().flatten(0, 1), expected.flatten(), ignore_index=PAD, label_smoothing=self.setting.smoothing
        )
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        loss.item()
        return int((expected != PAD).sum())
