"""Our layers and stacks against PyTorch's own, with the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.networks.transformer import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    Residual,
    Scope,
    Transformer,
)
from tests.models import tiny


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    theirs.in_proj_weight.copy_(ours.projection.weight)
    theirs.in_proj_bias.copy_(ours.projection.bias)
    copy_linear(theirs.out_proj, ours.output)


def copy_linear(theirs: nn.Module, ours: nn.Module) -> None:
    theirs.load_state_dict(ours.state_dict())


def copy_feed_forward(theirs: Any, ours: FeedForward) -> None:
    copy_linear(theirs.linear1, ours.widen)
    copy_linear(theirs.linear2, ours.narrow)


@torch.no_grad()
def their_encoder_layer(ours: EncoderLayer, norm: str, activation: str) -> nn.TransformerEncoderLayer:
    theirs = nn.TransformerEncoderLayer(
        16, 4, 24, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
    )
    copy_attention(theirs.self_attn, ours.attention)
    copy_feed_forward(theirs, ours.feed_forward)
    copy_linear(theirs.norm1, ours.around_attention.norm)
    copy_linear(theirs.norm2, ours.around_feed_forward.norm)
    return theirs


@torch.no_grad()
def their_decoder_layer(ours: DecoderLayer, norm: str, activation: str) -> nn.TransformerDecoderLayer:
    theirs = nn.TransformerDecoderLayer(
        16, 4, 24, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
    )
    copy_attention(theirs.self_attn, ours.attention)
    copy_attention(theirs.multihead_attn, ours.cross_attention)
    copy_feed_forward(theirs, ours.feed_forward)
    copy_linear(theirs.norm1, ours.around_attention.norm)
    copy_linear(theirs.norm2, ours.around_cross.norm)
    copy_linear(theirs.norm3, ours.around_feed_forward.norm)
    return theirs


CASES = [("post", "relu"), ("pre", "relu"), ("post", "gelu"), ("pre", "gelu")]
READABLE = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [True] + [False] * 5])


@pytest.mark.parametrize(("norm", "activation"), CASES)
@torch.no_grad()
def test_encoder_layer_equals_pytorch(norm: str, activation: str) -> None:
    ours = tiny.transformer(norm=norm, activation=activation).encoder[0]
    theirs = their_encoder_layer(ours, norm, activation)
    x = torch.randn(3, 6, 16)
    for mask in (None, READABLE):
        expected = theirs(x, src_key_padding_mask=None if mask is None else ~mask)
        result = ours(x, Scope(torch.arange(6), None if mask is None else mask[:, None, None, :]))
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("norm", "activation"), CASES)
@torch.no_grad()
def test_decoder_layer_equals_pytorch(norm: str, activation: str) -> None:
    ours = tiny.transformer(norm=norm, activation=activation).decoder[0]
    theirs = their_decoder_layer(ours, norm, activation)
    x, memory = torch.randn(3, 5, 16), torch.randn(3, 6, 16)
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = theirs(x, memory, tgt_mask=later, memory_key_padding_mask=~READABLE)
    source = ours.cross_attention.key_value(memory)
    places = torch.arange(5)
    result = ours(x, Scope(places, ~later), source, Scope(places, READABLE[:, None, None, :]))
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)


def their_logits(ours: Transformer, source: Tensor, target: Tensor) -> Tensor:
    """The whole network written with PyTorch's stacks and the paper's formula of positions."""
    config = ours.config
    layers = [their_encoder_layer(layer, config.norm, config.activation) for layer in ours.encoder]
    decoders = [their_decoder_layer(layer, config.norm, config.activation) for layer in ours.decoder]

    def embedded(table: Tensor, ids: Tensor) -> Tensor:
        angle = torch.arange(ids.size(1))[:, None] / 10_000 ** (torch.arange(0, 16, 2) / 16)
        return table[ids] * 4.0 + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)

    padding, later = source == 0, torch.ones(target.size(1), target.size(1), dtype=torch.bool).triu(1)
    memory = embedded(ours.source_embedding.weight, source)
    for layer in layers:
        memory = layer(memory, src_key_padding_mask=padding)
    memory = ours.encoder_norm(memory)
    x = embedded(ours.target_embedding.weight, target)
    for decoder in decoders:
        x = decoder(x, memory, tgt_mask=later, memory_key_padding_mask=padding)
    assert ours.output is not None
    logits: Tensor = ours.decoder_norm(x) @ ours.output.weight.T
    return logits


@pytest.mark.parametrize(("norm", "activation"), CASES)
@torch.no_grad()
def test_transformer_equals_pytorch(norm: str, activation: str) -> None:
    ours = tiny.transformer(norm=norm, activation=activation)
    assert isinstance(ours.encoder_norm, nn.LayerNorm if norm == "pre" else nn.Identity)
    source, target = tiny.ids((4, 6), 1), tiny.ids((4, 5), 2)
    source[1, 3:] = 0
    source[2, 1:] = 0
    expected = their_logits(ours, source, target)
    assert expected.std() > 0.5, "logits that say something"
    torch.testing.assert_close(ours(source, target), expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_residuals() -> None:
    x = torch.randn(2, 16)
    post, pre = (Residual(tiny.transformer_config(norm=norm)).eval() for norm in ("post", "pre"))
    for around in (post, pre):
        around.norm.weight.normal_()
        around.norm.bias.normal_()
    torch.testing.assert_close(post(x, torch.sin), post.norm(x + x.sin()), rtol=0, atol=0)
    torch.testing.assert_close(pre(x, torch.sin), x + pre.norm(x).sin(), rtol=0, atol=0)


def test_silu() -> None:
    feed_forward = tiny.transformer(activation="silu").encoder[0].feed_forward
    x = torch.randn(3, 16)
    wide = feed_forward.widen(x)
    torch.testing.assert_close(feed_forward(x), feed_forward.narrow(wide * wide.sigmoid()), rtol=0, atol=1e-6)
