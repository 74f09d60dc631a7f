"""Exported folders in the programs that they are for: transformers, CTranslate2 and onnxruntime."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.checkpoint import Checkpoint, new_token_limit
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Precision, Prompt
from models.networks.loading import load_network

Tokens = list[tuple[int, ...]]
BATCH = 16
PATIENCE = 3.0  # of CTranslate2: its own 1 ends a beam at its width of finished hypotheses, before ours ends


def decoded(
    network: Any,
    checkpoint: Checkpoint,
    sources: Sequence[tuple[int, ...]],
    beam: int,
    limit: int | None = None,
    **more: Any,
) -> Tokens:
    """Our decoder's tokens, without start and end. network: ours, or an `OnnxTranslator`. limit: None for the server's.
    more: of `models.decoding.decoder.decode`."""
    config = checkpoint.config
    prompts = [Prompt(source, config.target_prefix) for source in sources]
    options = [
        DecodingOptions(
            max_new_tokens=limit or new_token_limit(len(source), config.max_new_tokens),
            beam_size=beam,
            scores=beam > 1,
            streamed=False,
        )
        for source in sources
    ]
    rules = TokenRules(config.eos, config.suppressed, config.renormalise, config.forced_end)
    return [best[0].tokens for best in decode(network, rules, prompts, options, **more)]


def of_parlance(checkpoint: Checkpoint, sources: Sequence[tuple[int, ...]], beam: int, limit: int) -> Tokens:
    return decoded(load_network(checkpoint), checkpoint, sources, beam, limit)


def load_transformers(folder: Path) -> tuple[Any, Any]:
    """Tokenizer and model, by transformers' own choice of class."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package that it then does not use
        tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        model: Any = AutoModelForSeq2SeqLM.from_pretrained(folder)
    return tokenizer, model.eval()


def of_transformers(model: Any, sources: Sequence[tuple[int, ...]], beam: int, limit: int) -> Tokens:
    batches = [sources[start : start + BATCH] for start in range(0, len(sources), BATCH)]
    return [tokens for batch in batches for tokens in generated(model, batch, beam, limit)]


def generated(model: Any, sources: Sequence[tuple[int, ...]], beam: int, limit: int) -> Tokens:
    """The tokens of one batch, without start and end."""
    rules = model.generation_config
    longest = max(map(len, sources))
    ids = torch.tensor([[*ids, *[rules.pad_token_id] * (longest - len(ids))] for ids in sources])
    mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in sources])
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = model.generate(
            input_ids=ids, attention_mask=mask, num_beams=beam, do_sample=False, use_cache=True, max_new_tokens=limit
        )
    return [until_end(row[1:], rules.eos_token_id, rules.pad_token_id) for row in rows.tolist()]


def until_end(row: list[int], eos: int, pad: int) -> tuple[int, ...]:
    """A row that the limit cut has no end token, and padding if another row of its batch is longer."""
    if eos in row:
        return tuple(row[: row.index(eos)])
    while row and row[-1] == pad:
        row = row[:-1]
    return tuple(row)


def of_ctranslate2(
    folder: Path, checkpoint: Checkpoint, sources: Sequence[tuple[int, ...]], beam: int, limit: int
) -> Tokens:
    import ctranslate2

    config, target = checkpoint.config, checkpoint.tokenizers["target"]
    added = json.loads((folder / "config.json").read_text(encoding="utf-8"))["add_source_eos"]
    end = len(config.source_suffix) if added else 0
    piece = checkpoint.tokenizers["source"].piece
    translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
    results = translator.translate_batch(
        [[piece(token) for token in source[: len(source) - end]] for source in sources],
        beam_size=beam,
        patience=PATIENCE if beam > 1 else 1,
        max_decoding_length=limit,
        max_input_length=0,
        max_batch_size=BATCH,
    )
    ids = {target.piece(token): token for token in range(target.size)}
    return [tuple(ids[name] for name in result.hypotheses[0]) for result in results]


class OnnxTranslator:
    """The graphs of a folder as a network of our decoder, one row of a batch at a time where lengths differ."""

    def __init__(self, folder: Path) -> None:
        self.pad = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))["pad_token_id"]
        self.encoder, self.first, self.next = (
            session(folder / f"{name}.onnx") for name in ("encoder_model", "decoder_model", "decoder_with_past_model")
        )

    def decodable(self, precision: Precision = "fp32") -> OnnxTranslator:
        return self

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def allocate(self, slots: int, source_length: int, target_length: int) -> list[dict[str, Any]]:
        return [{} for _ in range(slots)]

    def prefill(self, state: list[dict[str, Any]], rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        for row, prompt in zip(rows, prompts, strict=True):
            assert len(prompt.prefix) == 1
            source = np.array([prompt.source], dtype=np.int64)
            mask = (source != self.pad).astype(np.int64)
            (memory,) = self.encoder.run(None, {"input_ids": source, "attention_mask": mask})
            state[row] = {"encoder_attention_mask": mask, "encoder_hidden_states": memory}

    def step(self, state: list[dict[str, Any]], tokens: Tensor, group: int = 1) -> Tensor:
        alike: dict[tuple[int, ...], list[int]] = {}
        for row in range(len(tokens)):
            past = state[row].get("past_key_values.0.decoder.key")
            lengths = state[row]["encoder_attention_mask"].shape[1], 0 if past is None else past.shape[2]
            alike.setdefault(lengths, []).append(row)
        logits: dict[int, npt.NDArray[np.float32]] = {}
        for (_, past_length), rows in alike.items():
            graph = self.next if past_length else self.first
            given = {name: np.concatenate([state[row][name] for row in rows]) for name in state[rows[0]]}
            answer, *present = graph.run(None, {"input_ids": tokens[rows].numpy()[:, None], **given})
            names = [each.name.replace("present", "past_key_values") for each in graph.get_outputs()[1:]]
            for place, row in enumerate(rows):
                logits[row] = answer[place, -1]
                kept = {name: value for name, value in state[row].items() if name != "encoder_hidden_states"}
                new = {name: tensor[place : place + 1] for name, tensor in zip(names, present, strict=True)}
                state[row] = kept | new
        return torch.from_numpy(np.stack([logits[row] for row in range(len(tokens))]))

    def copy(
        self, state: Any, sources: Sequence[int], destinations: Sequence[int], since: Sequence[int] | None = None
    ) -> None:
        copies = [state[row] for row in sources]
        for row, content in zip(destinations, copies, strict=True):
            state[row] = content


def session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


Program = Literal["transformers", "ctranslate2", "onnx"]


def of_program(
    program: Program, folder: Path, checkpoint: Checkpoint, sources: Sequence[tuple[int, ...]], beam: int, limit: int
) -> Tokens:
    """The tokens of each source, without start and end, by the program that the folder was exported for."""
    if program == "transformers":
        return of_transformers(load_transformers(folder)[1], sources, beam, limit)
    if program == "ctranslate2":
        return of_ctranslate2(folder, checkpoint, sources, beam, limit)
    return decoded(OnnxTranslator(folder), checkpoint, sources, beam, limit)
