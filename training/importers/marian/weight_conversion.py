"""Converts config.json and the tensors of a folder of MarianMTModel (post-norm) or PegasusForConditionalGeneration
(pre-norm, otherwise alike) into our Transformer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from models.exactness import Undrawn
from models.networks.transformer import NormPlacement, Transformer, TransformerConfig, sinusoids
from training.errors import TrainingError
from training.importers.marian.hub_folder import JsonObject

NORM_OF_TYPE: dict[str, NormPlacement] = {"marian": "post", "pegasus": "pre"}  # by model_type
RECORD = "parlance"  # in config.json: options of our network that Hugging Face's form lacks, for its import
ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
# options of older configs; transformers ignores them, so another value means another network
SUPPORTED_VALUES = {
    "normalize_embedding": False,
    "normalize_before": False,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
    "static_position_embeddings": True,
}
SIZE_FIELDS = (
    *("vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads"),
    *("decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim", "max_position_embeddings", "pad_token_id"),
)
DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")
CONFIG_DEFAULTS = {"max_position_embeddings": 1024, "activation_function": "gelu"}  # transformers' own

# The last two parts of a parameter's name -> the axis of its tensor that runs over the channels.
CHANNEL_AXES: dict[tuple[str, ...], int] = {
    **dict.fromkeys([("source_embedding", "weight"), ("target_embedding", "weight")], 1),
    **dict.fromkeys([("projection", "weight"), ("widen", "weight")], 1),
    **dict.fromkeys([(name, kind) for name in ("output", "narrow", "norm") for kind in ("weight", "bias")], 0),
    **dict.fromkeys([(name, kind) for name in ("encoder_norm", "decoder_norm") for kind in ("weight", "bias")], 0),
}
LOGITS = "output.weight"  # [V, C], unlike the output of an attention, [C, H·D]


def transformer_config(config: JsonObject, tied: str) -> TransformerConfig:
    """Our configuration of the network, with Marian's positions and all biases. tied: derived from the weights."""
    shared = config.get("share_encoder_decoder_embeddings", True)
    target_vocabulary = None if shared else config.get("decoder_vocab_size")
    try:
        return TransformerConfig(
            source_vocabulary=config["vocab_size"],
            target_vocabulary=int(target_vocabulary or config["vocab_size"]),
            pad=config["pad_token_id"],
            d_model=config["d_model"],
            encoder_layers=config["encoder_layers"],
            decoder_layers=config["decoder_layers"],
            heads=config["encoder_attention_heads"],
            head_width=config["d_model"] // config["encoder_attention_heads"],
            d_ff=config["encoder_ffn_dim"],
            activation=ACTIVATIONS[config["activation_function"]],  # type: ignore[arg-type]
            norm=NORM_OF_TYPE[config["model_type"]],
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
        raise TrainingError(f"config.json describes no network that can be built: {str(error).rstrip('.')}.") from error


def complete_config(config: JsonObject) -> JsonObject:
    """`config` with defaults. TrainingError names the first unsupported value."""
    if "format_version" in config:
        raise TrainingError(
            "config.json is of a checkpoint of Parlance, which needs no import: copy its folder into the one that the"
            " server reads (checkpoints), and serve it by the folder's name."
        )
    kind, known = config.get("model_type"), " and ".join(NORM_OF_TYPE)
    if kind is None:
        raise TrainingError(f"config.json names no model_type; only {known} models can be imported, such as OPUS-MT's.")
    if not isinstance(kind, str) or kind not in NORM_OF_TYPE:
        raise TrainingError(f"config.json is of a model of type {kind!r}; import-marian reads only {known}.")
    filled = {**CONFIG_DEFAULTS, **config}
    for problem in _config_problems(filled):
        raise TrainingError(f"config.json cannot be imported: {problem}.")
    return filled


def _config_problems(config: JsonObject) -> Iterator[str]:
    for name in SIZE_FIELDS:
        least = 0 if name == "pad_token_id" else 1
        value = config.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            yield f"{name} must be a whole number of at least {least}, not {value!r}"
    for name in DROPOUTS:
        if not isinstance(value := config.get(name, 0.0), int | float) or value != value:
            yield f"{name} must be a number, not {value!r}"
    for name, needed in SUPPORTED_VALUES.items():
        if config.get(name, needed) != needed:
            yield f"{name} is {config[name]!r}, and only {needed!r} is supported"
    if str(activation := config["activation_function"]) not in ACTIVATIONS:
        yield f"the activation {activation!r} is none of {', '.join(ACTIVATIONS)}"
    for name in ("attention_heads", "ffn_dim"):
        ours, theirs = config[f"encoder_{name}"], config[f"decoder_{name}"]
        if ours != theirs:
            yield f"encoder_{name} is {ours} and decoder_{name} {theirs}, and only equal ones are supported"
    if config["d_model"] % config["encoder_attention_heads"]:
        yield f"d_model {config['d_model']} is no multiple of {config['encoder_attention_heads']} heads"
    if config["pad_token_id"] >= config["vocab_size"]:
        yield f"pad_token_id {config['pad_token_id']} lies outside the vocabulary of {config['vocab_size']}"


SUBLAYERS = {  # ours: theirs
    "around_attention.norm": "self_attn_layer_norm",
    "feed_forward.widen": "fc1",
    "feed_forward.narrow": "fc2",
    "around_feed_forward.norm": "final_layer_norm",
}
EMBEDDINGS = SHARED, SOURCE, TARGET, OUTPUT = (
    *(f"model.{name}.weight" for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")),
    "lm_head.weight",
)
BIAS = "final_logits_bias"
ATTENTION_BIASES = ("attention.projection.bias", "attention.output.bias")
POSITIONS = tuple(f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder"))


def convert_network(config: JsonObject, tensors: Mapping[str, Tensor]) -> Transformer:
    """Builds the network without copying unchanged tensors. TrainingError names a missing or superfluous tensor."""
    source, target, output = tables = _embedding_tables(config, tensors)
    tied = ("all" if _same(source, target) else "output") if _same(target, output) else "none"
    shape = transformer_config(config, tied)
    weights = dict(zip(("source_embedding.weight", "target_embedding.weight", "output.weight"), tables, strict=True))
    used = {*EMBEDDINGS, BIAS, *POSITIONS}  # tied tables and computed positions are optional
    for name, theirs in tensor_names(config):
        parts = [_first(tensors, part) for part in theirs]
        weights[name] = torch.cat(parts) if len(parts) > 1 else parts[0]
        used.update(theirs)
    weights["output_bias"] = tensors[BIAS].reshape(-1) if BIAS in tensors else torch.zeros(shape.target_vocabulary)
    _check_positions(tensors, shape)
    for name in tensors:
        if name not in used:
            raise TrainingError(f"The weights hold a tensor {name}, which no Marian network has that can be imported.")
    shape, weights = _as_recorded(shape, weights, config.get(RECORD, {}))
    with torch.device("meta"), Undrawn():  # the weights are replaced at once: allocate none
        network = Transformer(shape)
    expected = dict(network.named_parameters())  # lists tied tables once
    for name, parameter in expected.items():
        if weights[name].shape != parameter.shape:
            there, here = (tuple(tensor.shape) for tensor in (weights[name], parameter))
            raise TrainingError(f"config.json asks for {name} of the shape {here}, and the weights have {there}.")
    network.load_state_dict({name: weights[name].float() for name in expected}, strict=False, assign=True)
    return network.eval()


def _as_recorded(
    shape: TransformerConfig, weights: dict[str, Tensor], record: JsonObject
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """Undoes what an export had to change: the order of channels, and biases of zero that our network did without."""
    if record.get("positions") == "interleaved":
        shape = replace(shape, positions="interleaved")
        weights = dict(reorder_channels(weights.items(), marian_order(shape.d_model).argsort()))
    for option, ending in (("attention_bias", ATTENTION_BIASES), ("output_bias", ("output_bias",))):
        biases = [name for name in weights if name.endswith(ending)]
        if record.get(option) is False and not any(weights[name].any() for name in biases):
            shape = replace(shape, **{option: False})  # type: ignore[arg-type]
            weights = {name: tensor for name, tensor in weights.items() if name not in biases}
    return shape, weights


def _first(tensors: Mapping[str, Tensor], *names: str) -> Tensor:
    for name in names:
        if name in tensors:
            return tensors[name]
    raise TrainingError(f"The weights hold no tensor {names[0]}.")


def _embedding_tables(config: JsonObject, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Source, target and output embeddings. A file may leave out tables that the config declares tied."""
    shared = bool(config.get("share_encoder_decoder_embeddings", True))
    tied = bool(config.get("tie_word_embeddings", True))
    source = _first(tensors, *(EMBEDDINGS if shared and tied else (SOURCE, SHARED)))
    target = source if shared and tied else _first(tensors, TARGET, SHARED)
    output = target if tied else _first(tensors, OUTPUT)
    for name, table in ((SOURCE, source), (TARGET, target), (OUTPUT, output)):
        if name in tensors and not _same(tensors[name], table):
            raise TrainingError(f"config.json ties the embeddings, and {name} differs from the table it is tied to.")
    return source, target, output


def _same(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.shape == other.shape and torch.equal(one, other))


def tensor_names(config: JsonObject) -> Iterator[tuple[str, list[str]]]:
    """Our parameter names, with the tensors that they are made of; not of embeddings and the output."""
    for side in ("encoder", "decoder"):
        yield from _layer_names(config, side)
        if NORM_OF_TYPE[config["model_type"]] == "pre":
            for name in ("weight", "bias"):
                yield f"{side}_norm.{name}", [f"model.{side}.layer_norm.{name}"]


def _layer_names(config: JsonObject, side: str) -> Iterator[tuple[str, list[str]]]:
    sublayers, attentions = dict(SUBLAYERS), {"attention": "self_attn"}
    if side == "decoder":
        sublayers["around_cross.norm"] = "encoder_attn_layer_norm"
        attentions["cross_attention"] = "encoder_attn"
    for number in range(config[f"{side}_layers"]):
        ours, theirs = f"{side}.{number}", f"model.{side}.layers.{number}"
        for name in ("weight", "bias"):
            for mine, other in sublayers.items():
                yield f"{ours}.{mine}.{name}", [f"{theirs}.{other}.{name}"]
            for mine, other in attentions.items():
                yield f"{ours}.{mine}.projection.{name}", [f"{theirs}.{other}.{part}_proj.{name}" for part in "qkv"]
                yield f"{ours}.{mine}.output.{name}", [f"{theirs}.{other}.out_proj.{name}"]


def _check_positions(tensors: Mapping[str, Tensor], config: TransformerConfig) -> None:
    """Checks that the position table of an older file equals our computed one."""
    for name in filter(tensors.__contains__, POSITIONS):
        table = tensors[name].float()
        computed = sinusoids(len(table), config.d_model, "marian")
        if table.shape != computed.shape or not torch.allclose(table, computed, atol=1e-3):
            raise TrainingError(f"{name} holds other positions than Marian's sinusoids, and only these are supported.")


def marian_order(width: int) -> Tensor:
    """[width]: of each channel in Marian's layout, its number in the interleaved layout."""
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])


def reorder_channels(tensors: Iterable[tuple[str, Tensor]], order: Tensor) -> Mapping[str, Tensor]:
    """The tensors of a Transformer, by our names, with channel order[i] at place i.

    A sum over channels does not depend on their order, and neither do the mean and variance of a layer norm. So a
    network with positions PE[2i] = sin, PE[2i + 1] = cos (as in the paper) is the same network with all sines first (as
    in Marian), if every tensor that reads or writes the residual stream is reordered alike. The inverse order gives
    back the same bits."""
    reordered = {}
    for name, tensor in tensors:
        axis = 1 if name == LOGITS else CHANNEL_AXES.get(tuple(name.split(".")[-2:]))
        reordered[name] = tensor if axis is None else tensor.index_select(axis, order)
    return reordered
