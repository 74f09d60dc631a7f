"""Hugging Face's MarianMTModel with the weights of a Parlance checkpoint, in fp32, bf16 or dynamic int8."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.processes import Work

if TYPE_CHECKING:
    from models.checkpoint import CheckpointConfig

NEVER = -1e4
MOST_POSITIONS = 1024
PRECISIONS = ("fp32", "int8", "bf16")


@dataclass(frozen=True, slots=True)
class Marian:
    """threads: of each process, 0 for all cores."""

    folder: str  # of the Parlance checkpoint
    processes: int
    threads: int
    precision: str

    def __str__(self) -> str:
        return f"{self.precision}, {self.processes} × {self.threads or 'all'} threads"

    def open(self) -> Opened:
        return Opened(self)

    def tokens(self, answer: Any) -> list[list[int]]:
        return list(answer)


class Opened:
    def __init__(self, setting: Marian) -> None:
        import torch

        if setting.threads:
            torch.set_num_threads(setting.threads)
        self.model = build(Path(setting.folder))
        if setting.precision == "bf16":
            self.model = self.model.bfloat16()
        elif setting.precision == "int8":
            with warnings.catch_warnings():  # of a later removal, shown once and not by every process
                warnings.simplefilter("ignore")
                self.model = torch.ao.quantization.quantize_dynamic(self.model, {torch.nn.Linear}, torch.qint8)

    def translate(self, work: Work) -> list[list[int]]:
        """Batches of `concurrent`, run to completion, in order of length so that little is padded."""
        order = sorted(range(len(work.sources)), key=lambda i: len(work.sources[i]), reverse=True)
        results: dict[int, list[int]] = {}
        for start in range(0, len(order), work.concurrent):
            batch = order[start : start + work.concurrent]
            limit = max(work.limits[i] for i in batch)
            results.update(zip(batch, self._batch([work.sources[i] for i in batch], limit, work.beam), strict=True))
        return [results[i] for i in range(len(results))]

    def _batch(self, sources: list[tuple[int, ...]], limit: int, beam: int) -> list[list[int]]:
        import torch

        config = self.model.generation_config
        longest = max(map(len, sources))
        ids = torch.tensor([[*s, *[config.pad_token_id] * (longest - len(s))] for s in sources])
        mask = torch.tensor([[1] * len(s) + [0] * (longest - len(s)) for s in sources])
        with torch.inference_mode():
            answer = self.model.generate(
                input_ids=ids,
                attention_mask=mask,
                num_beams=beam,
                do_sample=False,
                use_cache=True,
                max_new_tokens=limit,
            )
        rows = [row[1:] for row in answer.tolist()]  # without the start token
        return [row[: row.index(config.eos_token_id)] if config.eos_token_id in row else row for row in rows]


def build(checkpoint: Path) -> Any:
    """ValueError if MarianMTModel is no such network."""
    from safetensors.torch import load_file
    from transformers import MarianConfig, MarianMTModel

    from models.checkpoint import WEIGHTS, read_config
    from models.networks.transformer import sinusoids

    described = read_config(checkpoint)
    shape = described.architecture
    if (
        shape["norm"] != "post"
        or not shape["attention_bias"]
        or shape["norm_epsilon"] != 1e-5
        or shape["tied"] == "none"
        or shape["heads"] * shape["head_width"] != shape["d_model"]
        or shape["attention_scale"] is not None
    ):
        raise ValueError("MarianMTModel has post-norm layers, biases, a tied output, and heads that divide the width.")
    model = MarianMTModel(MarianConfig(**marian_options(described))).eval()
    tensors = translated(load_file(checkpoint / WEIGHTS), described)
    positions = sinusoids(MOST_POSITIONS, shape["d_model"], shape["positions"])
    tensors |= {f"model.{side}.embed_positions.weight": positions for side in ("encoder", "decoder")}
    unfitting = model.load_state_dict(tensors, strict=False)
    if unfitting.unexpected_keys or set(unfitting.missing_keys) - set(model.state_dict()) or wrong(model, tensors):
        raise ValueError(f"MarianMTModel did not take all weights: {unfitting}; {wrong(model, tensors)}.")
    return model


def marian_options(described: CheckpointConfig) -> dict[str, Any]:
    shape = described.architecture
    (start,) = described.target_prefix
    return {
        "vocab_size": shape["source_vocabulary"],
        "decoder_vocab_size": shape["target_vocabulary"],
        "share_encoder_decoder_embeddings": shape["tied"] == "all",
        "max_position_embeddings": MOST_POSITIONS,
        "d_model": shape["d_model"],
        "encoder_layers": shape["encoder_layers"],
        "decoder_layers": shape["decoder_layers"],
        "encoder_attention_heads": shape["heads"],
        "decoder_attention_heads": shape["heads"],
        "encoder_ffn_dim": shape["d_ff"],
        "decoder_ffn_dim": shape["d_ff"],
        "activation_function": shape["activation"],
        "scale_embedding": shape["scale_embedding"],
        "pad_token_id": shape["pad"],
        "eos_token_id": described.eos,
        "decoder_start_token_id": start,
        "forced_eos_token_id": None,
    }


def translated(tensors: Mapping[str, Any], described: CheckpointConfig) -> dict[str, Any]:
    """Our names to theirs; the suppressed tokens get a bias that keeps them out of reach."""
    import torch

    result: dict[str, Any] = {}
    source = tensors["source_embedding.weight"]
    target = tensors.get("target_embedding.weight", source)
    result |= {"model.encoder.embed_tokens.weight": source, "model.decoder.embed_tokens.weight": target}
    result["lm_head.weight"] = target
    if described.architecture["tied"] == "all":
        result["model.shared.weight"] = source
    bias = tensors.get("output_bias", torch.zeros(len(target))).clone()
    bias[list(described.suppressed)] = NEVER
    result["final_logits_bias"] = bias[None]
    for name, tensor in tensors.items():
        if name.startswith(("encoder.", "decoder.")):
            side, number, block, rest = name.split(".", 3)
            result |= block_weights(f"model.{side}.layers.{number}", block, rest, tensor)
    return result


def block_weights(base: str, block: str, rest: str, tensor: Any) -> dict[str, Any]:
    attentions = {"attention": "self_attn", "cross_attention": "encoder_attn"}
    norms = {
        "around_attention": "self_attn_layer_norm",
        "around_cross": "encoder_attn_layer_norm",
        "around_feed_forward": "final_layer_norm",
    }
    part, _, kind = rest.rpartition(".")
    if block in norms:
        return {f"{base}.{norms[block]}.{kind}": tensor}
    if block == "feed_forward":
        return {f"{base}.{ {'widen': 'fc1', 'narrow': 'fc2'}[part] }.{kind}": tensor}
    if part == "output":
        return {f"{base}.{attentions[block]}.out_proj.{kind}": tensor}
    return {
        f"{base}.{attentions[block]}.{letter}_proj.{kind}": rows
        for letter, rows in zip("qkv", tensor.chunk(3), strict=True)
    }


def wrong(model: Any, tensors: Mapping[str, Any]) -> list[str]:
    """Names that the model holds otherwise than given: a forgotten tie or a name that was skipped."""
    held = model.state_dict()
    return [name for name in held if name not in tensors or not held[name].equal(tensors[name])]
