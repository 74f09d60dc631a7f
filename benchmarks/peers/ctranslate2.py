"""CTranslate2 (https://github.com/OpenNMT/CTranslate2) with the weights of a Parlance checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.processes import Work

MOST_POSITIONS = 1024


@dataclass(frozen=True, slots=True)
class CTranslate2:
    """One process with `inter` translators of `intra` threads, between which it splits a batch itself."""

    folder: str
    compute_type: str
    inter: int
    intra: int
    device: str = "cpu"

    @property
    def processes(self) -> int:
        return 1

    def __str__(self) -> str:
        return f"{self.compute_type}, {self.inter} × {self.intra} threads"

    def open(self) -> Opened:
        return Opened(self)

    def tokens(self, answer: Any) -> list[list[int]]:
        return [[int(token[1:]) for token in tokens] for tokens in answer]


class Opened:
    def __init__(self, setting: CTranslate2) -> None:
        import ctranslate2

        self.inter = setting.inter
        self.translator = ctranslate2.Translator(
            setting.folder,
            device=setting.device,
            compute_type=setting.compute_type,
            inter_threads=setting.inter,
            intra_threads=setting.intra,
        )

    def translate(self, work: Work) -> list[list[str]]:
        """No minimum length and no suppression: the weights see to both, so CTranslate2 does not pay for them."""
        results = self.translator.translate_batch(
            [[f"t{token}" for token in source] for source in work.sources],
            beam_size=work.beam,
            max_decoding_length=max(work.limits),
            max_input_length=0,
            max_batch_size=max(1, -(-work.concurrent // self.inter)),
        )
        return [result.hypotheses[0] for result in results]


def compute_types(device: str) -> list[str]:
    import ctranslate2

    return sorted(ctranslate2.get_supported_compute_types(device))


def convert(checkpoint: Path, folder: Path, pieces: Sequence[str] | None = None) -> Path:
    """`folder`, now a CTranslate2 model with the checkpoint's weights. TrainingError if CTranslate2 has no such
    network. pieces: the token names of both vocabularies; with them CTranslate2 itself ends sources."""
    from safetensors.numpy import load_file

    from models.checkpoint import WEIGHTS, read_config
    from models.networks.transformer import TransformerConfig
    from training.data.tokenizer_training import UNKNOWN
    from training.exporters.ctranslate2_folder import check_ctranslate2, logit_bias, save_spec, transformer_spec

    config = read_config(checkpoint)
    shape = TransformerConfig(**{name: value for name, value in config.architecture.items() if name != "name"})
    check_ctranslate2(shape)
    tensors = load_file(checkpoint / WEIGHTS)
    bias = logit_bias(tensors, config.suppressed, shape.target_vocabulary)
    sizes = (shape.source_vocabulary, shape.target_vocabulary)
    source, target = (pieces or [f"t{i}" for i in range(size)] for size in sizes)
    assert config.eos is not None
    names = {"unk": target[UNKNOWN], "bos": target[config.target_prefix[0]], "eos": target[config.eos]}
    spec = transformer_spec(shape, tensors, bias, MOST_POSITIONS)
    given = config if pieces else replace(config, source_suffix=())  # without pieces the caller adds the end token
    save_spec(spec, given, (source, target), names, folder)
    return folder
