"""Marian folders in Hugging Face's form, with random weights and vocabularies of the phrasebook's own text."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from safetensors.torch import save_file
from torch import Tensor

SHAPE = {
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}


@cache
def lines(language: str) -> tuple[str, ...]:
    """Every twelfth phrase of the phrasebook, which takes four seconds to make."""
    languages, *rows = Path(__file__).with_name("phrases.tsv").read_text(encoding="utf-8").splitlines()
    place = languages.split("\t").index(language)
    return tuple(row.split("\t")[place] for row in rows)


@cache
def spm(language: str, **options: Any) -> bytes:
    """A SentencePiece model as OPUS-MT has them: unigrams, without a token for padding."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*lines(language), *lines(language)[:300]]),
        model_writer=model,
        **{"vocab_size": 300, "hard_vocab_limit": False, "num_threads": 1, "minloglevel": 2, **options},
    )
    return model.getvalue()


def pieces(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def vocabulary(models: Iterable[bytes], languages: Sequence[str] = ()) -> dict[str, int]:
    """As Marian numbers them: the end first, padding last; the start token of SentencePiece is none of them."""
    result = dict.fromkeys(
        piece for model in models for piece in pieces(model) if piece not in ("<s>", "</s>", "<unk>")
    )
    return {piece: i for i, piece in enumerate(["</s>", "<unk>", *languages, *result, "<pad>"])}


def random_tensors(config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Every tensor of such a network under transformers' names, none of them zero or one throughout."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float = 0.3, mean: float = 0.0) -> Tensor:
        return torch.randn(*shape, generator=generator) * scale + mean

    width, inner = config["d_model"], config["encoder_ffn_dim"]
    tensors = {}
    for side in ("encoder", "decoder"):
        for number in range(config[f"{side}_layers"]):
            layer = f"model.{side}.layers.{number}"
            norms = ["self_attn_layer_norm", "final_layer_norm"]
            attentions = ["self_attn"]
            if side == "decoder":
                norms.append("encoder_attn_layer_norm")
                attentions.append("encoder_attn")
            for norm in norms:
                tensors[f"{layer}.{norm}.weight"] = normal(width, mean=1.0)
                tensors[f"{layer}.{norm}.bias"] = normal(width)
            for attention in attentions:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    tensors[f"{layer}.{attention}.{part}.weight"] = normal(width, width)
                    tensors[f"{layer}.{attention}.{part}.bias"] = normal(width)
            for name, shape in (("fc1", (inner, width)), ("fc2", (width, inner))):
                tensors[f"{layer}.{name}.weight"] = normal(*shape)
                tensors[f"{layer}.{name}.bias"] = normal(shape[0])
    return tensors | _tables(config, normal)


def _tables(config: dict[str, Any], normal: Any) -> dict[str, Tensor]:
    source, target, width = config["vocab_size"], config["decoder_vocab_size"], config["d_model"]
    shared, tied = config["share_encoder_decoder_embeddings"], config["tie_word_embeddings"]
    tables = {}
    if shared and tied:
        tables["model.shared.weight"] = normal(source, width)
    else:
        tables["model.encoder.embed_tokens.weight"] = normal(source, width)
        tables["model.decoder.embed_tokens.weight"] = normal(target, width)
    if not tied:
        tables["lm_head.weight"] = normal(target, width)
    tables["final_logits_bias"] = normal(1, target, scale=1.0)
    return tables


def write(
    folder: Path,
    *,
    separate: bool = False,
    languages: Sequence[str] = (),
    seed: int = 0,
    pickled: bool = False,
    half: bool = False,
    generation: dict[str, Any] | None = None,
    tokenizer: dict[str, Any] | None = None,
    eos_bias: float = 0.0,
    pair: tuple[str, str] = ("de", "en"),
    cutting: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A folder. changes: of config.json; generation, tokenizer: of the files of these names; cutting: of the training
    of the SentencePiece models."""
    folder.mkdir(parents=True)
    models = [spm(language, **(cutting or {})) for language in pair]
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    options: dict[str, Any] = {"source_lang": pair[0], "target_lang": pair[1]}
    if separate:
        size = min(len(pieces(model)) for model in models) - 10  # padding has one id for both
        sides = [dict.fromkeys(list(vocabulary([model], languages))[:size]) for model in models]
        ids = [{piece: i for i, piece in enumerate([*side, "<pad>"])} for side in sides]
        dump(folder / "target_vocab.json", ids[1])
        options["separate_vocabs"] = True
    else:
        ids = [vocabulary(models, languages)] * 2
    dump(folder / "vocab.json", ids[0])
    dump(folder / "tokenizer_config.json", options | (tokenizer or {}))
    pad = ids[0]["<pad>"]
    config = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 128,
        "vocab_size": len(ids[0]),
        "decoder_vocab_size": len(ids[1]),
        "pad_token_id": pad,
        "eos_token_id": 0,
        "decoder_start_token_id": pad,
        "forced_eos_token_id": 0,
        "share_encoder_decoder_embeddings": not separate,
        "tie_word_embeddings": True,
        "normalize_embedding": False,
        "static_position_embeddings": True,
        **SHAPE,
        **changes,
    }
    dump(folder / "config.json", config)
    body = {
        "bad_words_ids": [[pad]],
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "pad_token_id": pad,
        "forced_eos_token_id": 0,
        "max_length": 128,
        "num_beams": 4,
        "renormalize_logits": True,
        **(generation or {}),
    }
    dump(folder / "generation_config.json", body)
    tensors = random_tensors(config, seed)
    tensors["final_logits_bias"][0, 0] += eos_bias
    if half:
        tensors = {name: tensor.half() for name, tensor in tensors.items()}
    if pickled:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def dump(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def edit(path: Path, **changes: Any) -> None:
    """Of a JSON object in a file; None leaves an entry out."""
    content = json.loads(path.read_text(encoding="utf-8")) | changes
    dump(path, {name: value for name, value in content.items() if value is not None})
