"""The encoder-decoder Transformer (Vaswani et al. 2017, arXiv 1706.03762) over whole sequences, as it is trained and
looked into; `cached_transformer` steps it."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.backends.native import build
from models.backends.native.int8_transformer import NativeTransformer
from models.backends.select import prepared
from models.backends.torch.transformer_step import EagerTransformer
from models.interface import Decodable, Precision
from models.networks.layers import Capture, DecoderLayer, EncoderLayer, TransformerConfig
from models.networks.positions import sinusoids
from training.kernels.packed_transformer import PackedPass, cross_entropy

AttentionMaps = dict[str, list[Tensor]]
"""kind ("encoder", "decoder", "cross") -> one [B, H, Q, K] a layer."""


class Transformer(nn.Module):
    """Built from a `TransformerConfig`. Ids equal to `config.pad` are never attended to."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(config.source_vocabulary, config.d_model)
        self.target_embedding = (
            self.source_embedding if config.tied == "all" else nn.Embedding(config.target_vocabulary, config.d_model)
        )
        self.embedding_dropout = nn.Dropout(config.embedding_dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        pre = config.norm == "pre"
        epsilon = config.norm_epsilon
        self.encoder_norm = nn.LayerNorm(config.d_model, eps=epsilon) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model, eps=epsilon) if pre else nn.Identity()
        self.output = nn.Linear(config.d_model, config.target_vocabulary, bias=False) if config.tied == "none" else None
        self.output_bias = nn.Parameter(torch.zeros(config.target_vocabulary)) if config.output_bias else None
        self.register_buffer("position_table", torch.empty(0, config.d_model), persistent=False)
        self.embedding_scale = config.d_model**0.5 if config.scale_embedding else 1.0
        self.compiled = False
        self._initialise()

    def compile_training(self, longest: int, backend: str = "inductor") -> None:
        """Train with `features` and the loss as torch.compile makes them, for sequences of any length up to `longest`.
        What is decoded is as before."""
        # the compiler itself looks at the gradient of what is no leaf, and PyTorch warns the user of it
        warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a leaf")
        self.positions(longest)  # grown within a compiled function, the table would have it compiled again
        self.features = torch.compile(self.features, dynamic=True, backend=backend)  # type: ignore[method-assign]
        self.plain_cross_entropy = torch.compile(  # type: ignore[method-assign]
            self.plain_cross_entropy, dynamic=True, backend=backend
        )
        self.compiled = True

    @property
    def encoder_layers(self) -> list[EncoderLayer]:
        """The encoder with its type, which ModuleList forgets."""
        return cast(list[EncoderLayer], list(self.encoder))

    @property
    def decoder_layers(self) -> list[DecoderLayer]:
        """The decoder, likewise."""
        return cast(list[DecoderLayer], list(self.decoder))

    def _initialise(self) -> None:
        """Xavier for matrices; embeddings so that their rows have unit variance once scaled."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, 0, self.config.d_model**-0.5)

    def positions(self, length: int) -> Tensor:
        """[>= length, C]: the table grows by doubling, so that no limit is built into a network."""
        table: Tensor = self.get_buffer("position_table")
        if len(table) < length:
            size = max(64, 1 << (length - 1).bit_length())
            reference = self.source_embedding.weight
            with torch.inference_mode(False):  # a table first grown while decoding must still serve training
                table = sinusoids(size, self.config.d_model, self.config.positions).to(reference)
            self.position_table = table
        return table

    def embed(self, embedding: nn.Module, ids: Tensor) -> Tensor:
        """ids [B, T] -> [B, T, C], at positions 0..T-1."""
        x = embedding(ids) * self.embedding_scale + self.positions(ids.size(1))[: ids.size(1)]
        dropped: Tensor = self.embedding_dropout(x)
        return dropped

    def encode(self, source: Tensor, capture: Capture | None = None) -> tuple[Tensor, Tensor]:
        """source [B, S] -> its representation [B, S, C] and where it is readable [B, S]."""
        readable = source != self.config.pad
        x, mask = self.embed(self.source_embedding, source), readable[:, None, None, :]
        for layer in self.encoder:
            x = layer(x, mask, capture)
        return self.encoder_norm(x), readable

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        readable: Tensor,
        captures: tuple[Capture | None, Capture | None] = (None, None),
    ) -> Tensor:
        """Teacher-forced: target [B, T] -> features [B, T, C]. Position t sees targets 0..t alone. Padding may
        only stand at the end of a target, where nothing that counts looks at it."""
        x = self.embed(self.target_embedding, target)
        source_mask = readable[:, None, None, :]
        for layer in self.decoder_layers:
            source = layer.cross_attention.key_value(memory)
            x = layer(x, lambda key, value: (key, value), None, source, source_mask, captures)
        return self.decoder_norm(x)  # type: ignore[no-any-return]

    def project(self, features: Tensor) -> Tensor:
        """[..., C] -> logits [..., V]."""
        return F.linear(features, *self.projection())

    def projection(self) -> tuple[Tensor, Tensor | None]:
        """The output matrix [V, C] and its bias [V]."""
        return self.target_embedding.weight if self.output is None else self.output.weight, self.output_bias

    def features(self, source: Tensor, target: Tensor) -> Tensor:
        """source [B, S], target [B, T] -> [B, T, C], before the output projection."""
        return self.decode(target, *self.encode(source))

    def counted_features(self, source: Tensor, target: Tensor, counted: Tensor) -> Tensor:
        """`features` where counted [B, T] is true, [N, C], in the order of the rows. Nothing behind a row's last such
        place may matter. In native kernels where they are, and then nothing is computed for padding. A `counted`
        in the host's memory keeps the host from waiting for a device to tell how many there are."""
        library = self._kernels()
        if library is None:
            places = counted.flatten().nonzero().squeeze(1).to(source.device, non_blocking=True)
            return self.features(source, target).flatten(0, 1).index_select(0, places)
        return PackedPass(self, library).features(source, target, counted)

    def cross_entropy(self, features: Tensor, targets: Tensor, smoothing: float = 0.0, pull: float = 0.0) -> Tensor:
        """features [N, C], the tokens that follow [N] -> nats, summed; label smoothing as in Szegedy et al. 2016.

        pull: where it is not 0, the second half of the features predicts the same tokens as the first, with other
        dropout, and pull/2 of KL(p, q) + KL(q, p) is added (R-Drop: Liang et al. 2021, arXiv 2106.14448).
        """
        library = self._kernels()
        if library is not None:
            return cross_entropy(self, library, features, targets, smoothing, pull)
        return self.plain_cross_entropy(features, targets, smoothing, pull)

    def plain_cross_entropy(self, features: Tensor, targets: Tensor, smoothing: float, pull: float) -> Tensor:
        """The same in PyTorch's operators."""
        logits = self.project(features).float()
        total = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
        if pull:
            first, second = logits.log_softmax(-1).chunk(2)
            total = total + pull / 2 * ((first.exp() - second.exp()) * (first - second)).sum()
        return total

    def _kernels(self) -> ctypes.CDLL | None:
        """None where PyTorch is to train: on other devices, in other precisions, with an activation that they lack, and
        where its operators are compiled."""
        weight = self.source_embedding.weight
        fit = weight.device.type == "cpu" and weight.dtype == torch.float32 and self.config.activation == "relu"
        fit = fit and not self.compiled
        return build.training_library() if fit and not torch.is_autocast_enabled("cpu") else None

    @property
    def kernels(self) -> str:
        """Those that train it, down to their version: others draw other dropout. "": PyTorch's."""
        return build.name_of(self._kernels())

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """source [B, S], target [B, T] -> logits [B, T, V] of the token after each target token."""
        return self.project(self.features(source, target))

    @torch.inference_mode()
    def attention(self, source: Tensor, target: Tensor, kinds: Sequence[str]) -> AttentionMaps:
        """Weights of one teacher-forced pass over source [B, S] and target [B, T] (decoder input)."""
        captures = {kind: Capture() for kind in kinds}
        memory, readable = self.encode(source, captures.get("encoder"))
        if captures.keys() & {"decoder", "cross"}:
            self.decode(target, memory, readable, (captures.get("decoder"), captures.get("cross")))
        return {kind: capture.weights for kind, capture in captures.items()}

    @property
    def device(self) -> torch.device:
        return self.source_embedding.weight.device

    def decodable(self, precision: Precision = "fp32") -> Decodable:
        """As `models.interface.Network` says."""
        on_cpu = self.source_embedding.weight.device.type == "cpu"
        library = build.library() if precision == "int8" and on_cpu else None
        if library is not None:
            return NativeTransformer(prepared(self, "fp32")[0], library)
        return EagerTransformer(*prepared(self, precision))
