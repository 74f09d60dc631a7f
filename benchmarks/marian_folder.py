"""A Marian folder in Hugging Face's form with the shapes of opus-mt-de-en and random weights, as `--from` takes it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from safetensors.torch import save_file
from torch import Tensor

VOCABULARY = 58_101
WIDTH, LAYERS, HEADS, INNER, POSITIONS = 512, 6, 8, 2048, 512


def _segmentation(texts: Sequence[str], size: int) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def _pieces(models: Sequence[bytes]) -> dict[str, int]:
    """Marian's numbering: the end first, padding last. Pieces that no text contains make up the real size."""
    pieces: dict[str, None] = {}
    for model in models:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces |= {processor.id_to_piece(i): None for i in range(3, processor.get_piece_size())}
    names = ["</s>", "<unk>", *pieces]
    names += [f"▁unused{i}" for i in range(VOCABULARY - 1 - len(names))]
    return {name: i for i, name in enumerate([*names, "<pad>"])}


def _shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "model.shared.weight", (VOCABULARY, WIDTH)
    yield "final_logits_bias", (1, VOCABULARY)
    for side, attentions in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        for number in range(LAYERS):
            layer = f"model.{side}.layers.{number}"
            matrices = [f"{name}.{part}" for name in attentions for part in ("q_proj", "k_proj", "v_proj", "out_proj")]
            for name, out, into in (
                *((name, WIDTH, WIDTH) for name in matrices),
                ("fc1", INNER, WIDTH),
                ("fc2", WIDTH, INNER),
            ):
                yield f"{layer}.{name}.weight", (out, into)
                yield f"{layer}.{name}.bias", (out,)
            for name in (*attentions, "final"):
                yield f"{layer}.{name}_layer_norm.weight", (WIDTH,)
                yield f"{layer}.{name}_layer_norm.bias", (WIDTH,)


def random_tensors(seed: int = 0) -> dict[str, Tensor]:
    """Every tensor under transformers' names: matrices by Glorot, the table with the deviation WIDTH ** -0.5."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in _shapes():
        if name.endswith("bias"):
            tensors[name] = torch.zeros(shape)
        elif "layer_norm" in name:
            tensors[name] = torch.ones(shape)
        else:
            deviation = WIDTH**-0.5 if name == "model.shared.weight" else (2 / sum(shape)) ** 0.5
            tensors[name] = torch.randn(shape, generator=generator) * deviation
    return tensors


def write_marian_folder(folder: Path, sources: Sequence[str], targets: Sequence[str], size: int = 4000) -> None:
    """size: of the vocabulary of each side that is trained on these texts; the rest of the 58,101 pieces is unused."""
    folder.mkdir(parents=True, exist_ok=True)
    models = [_segmentation(texts, size) for texts in (sources, targets)]
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    pad = VOCABULARY - 1
    tokens = {"eos_token_id": 0, "pad_token_id": pad, "decoder_start_token_id": pad, "forced_eos_token_id": 0}
    config = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "activation_function": "swish",
        "d_model": WIDTH,
        "vocab_size": VOCABULARY,
        "decoder_vocab_size": VOCABULARY,
        **{f"{side}_layers": LAYERS for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": HEADS for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": INNER for side in ("encoder", "decoder")},
        "max_position_embeddings": POSITIONS,
        "static_position_embeddings": True,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "normalize_embedding": False,
        **tokens,
    }
    generation = {
        **tokens,
        "bad_words_ids": [[pad]],
        "max_length": POSITIONS,
        "num_beams": 4,
        "renormalize_logits": True,
    }
    files: dict[str, Any] = {
        "vocab.json": _pieces(models),
        "tokenizer_config.json": {"source_lang": "de", "target_lang": "en"},
        "config.json": config,
        "generation_config.json": generation,
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    save_file(random_tensors(), folder / "model.safetensors", metadata={"format": "pt"})
