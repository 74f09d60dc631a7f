"""config.json of a Marian folder -> our network's config. What our network does not do is refused by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from models.transformer_config import TransformerConfig
from training.errors import TrainingError

ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
# options of older configs; transformers computes with none of them, so another value means another network
ONLY = {
    "normalize_embedding": False,
    "normalize_before": False,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
    "static_position_embeddings": True,
}
SIZES = (
    *("vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads"),
    *("decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim", "max_position_embeddings", "pad_token_id"),
)
DEFAULTS = {"max_position_embeddings": 1024, "activation_function": "gelu"}  # transformers' own


def transformer_config(config: Mapping[str, Any], tied: str) -> TransformerConfig:
    """tied: as the weights turn out to be."""
    try:
        return TransformerConfig(
            source_vocabulary=config["vocab_size"],
            target_vocabulary=target_vocabulary(config),
            pad=config["pad_token_id"],
            d_model=config["d_model"],
            encoder_layers=config["encoder_layers"],
            decoder_layers=config["decoder_layers"],
            heads=config["encoder_attention_heads"],
            head_width=config["d_model"] // config["encoder_attention_heads"],
            d_ff=config["encoder_ffn_dim"],
            activation=ACTIVATIONS[config["activation_function"]],  # type: ignore[arg-type]
            positions="marian",
            scale_embedding=bool(config.get("scale_embedding", False)),
            tied=tied,  # type: ignore[arg-type]
            output_bias=True,
            embedding_dropout=config.get("dropout", 0.1),
            residual_dropout=config.get("dropout", 0.1),
            attention_dropout=config.get("attention_dropout", 0.0),
            activation_dropout=config.get("activation_dropout", 0.0),
        )
    except (TypeError, ValueError) as error:
        raise TrainingError(f"config.json describes no network that can be built: {error}") from error


def target_vocabulary(config: Mapping[str, Any]) -> int:
    if config.get("share_encoder_decoder_embeddings", True):
        return int(config["vocab_size"])
    return int(config.get("decoder_vocab_size") or config["vocab_size"])


def whole(config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` with defaults. TrainingError names the first thing that cannot be imported."""
    kind = config.get("model_type")
    if kind != "marian":
        raise TrainingError(f"config.json is of a model of type {kind!r}; import-marian reads only marian.")
    filled = {**DEFAULTS, **config}
    for problem in _problems(filled):
        raise TrainingError(f"config.json cannot be imported: {problem}.")
    return filled


def _problems(config: Mapping[str, Any]) -> Iterator[str]:
    for name in SIZES:
        least = 0 if name == "pad_token_id" else 1
        value = config.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            yield f"{name} must be a whole number of at least {least}, not {value!r}"
    for name, needed in ONLY.items():
        if config.get(name, needed) != needed:
            yield f"{name} is {config[name]!r}, and only {needed!r} is supported"
    activation = config["activation_function"]
    if activation not in ACTIVATIONS:
        yield f"the activation {activation!r} is none of {', '.join(ACTIVATIONS)}"
    for name in ("attention_heads", "ffn_dim"):
        ours, theirs = config[f"encoder_{name}"], config[f"decoder_{name}"]
        if ours != theirs:
            yield f"encoder_{name} is {ours} and decoder_{name} {theirs}, and only equal ones are supported"
    if config["d_model"] % config["encoder_attention_heads"]:
        yield f"d_model {config['d_model']} is no multiple of {config['encoder_attention_heads']} heads"
    if config["pad_token_id"] >= config["vocab_size"]:
        yield f"pad_token_id {config['pad_token_id']} lies outside the vocabulary of {config['vocab_size']}"
