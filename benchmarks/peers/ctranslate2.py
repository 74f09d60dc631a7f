"""CTranslate2 (https://github.com/OpenNMT/CTranslate2) with the weights of a Parlance checkpoint.

On CUDA it loads cuBLAS of CUDA 12, and torch brings CUDA 13: it then runs in an environment of its own."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.processes import Work

MOST_POSITIONS = 1024
ROOT = Path(__file__).parents[2]
CUDA_FOLDER = ROOT / ".venv-ctranslate2"
CUBLAS = "nvidia-cublas-cu12>=12.4,<13"


@dataclass(frozen=True, slots=True)
class CTranslate2:
    """One process with `inter` translators of `intra` threads, between which it splits a batch itself."""

    folder: str
    compute_type: str
    inter: int
    intra: int
    device: str = "cpu"
    python: str = sys.executable
    index: int = 0

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
        if setting.device == "cuda":
            load_cublas()
        import ctranslate2

        self.inter = setting.inter
        self.translator = ctranslate2.Translator(
            setting.folder,
            device=setting.device,
            device_index=setting.index,
            compute_type=setting.compute_type,
            inter_threads=setting.inter,
            intra_threads=setting.intra,
        )

    def translate(self, work: Work) -> list[list[str]]:
        """No minimum length and no suppression: the weights see to both, so CTranslate2 does not pay for them."""
        sources = [[f"t{token}" for token in source] for source in work.sources]
        # it splits a batch between its translators, so one call would keep them all at work
        size = len(sources) if work.concurrent >= self.inter else work.concurrent
        results = []
        for first in range(0, len(sources), size):
            results += self.translator.translate_batch(
                sources[first : first + size],
                beam_size=work.beam,
                max_decoding_length=max(work.limits),
                max_input_length=0,
                max_batch_size=max(1, -(-work.concurrent // self.inter)),
            )
        return [result.hypotheses[0] for result in results]


def cuda_environment(timeout_s: float, folder: Path = CUDA_FOLDER) -> Path:
    """The Python of the environment for CUDA, made at its first use. RuntimeError with the reason if it cannot be made
    in time; pip's downloads are kept in its cache, so that the next call is faster."""
    python, complete = folder / "bin" / "python", folder / ".complete"
    if not complete.exists():
        venv.create(folder, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["-c", str(ROOT / "constraints.txt"), "ctranslate2", CUBLAS]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"its environment was not installed within {timeout_s:.0f} s") from None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise RuntimeError(f"its environment cannot be installed: {last}")
        complete.touch()
    return python


def load_cublas() -> None:
    """Loads cuBLAS from its package, where there is one: CTranslate2 then finds it by its name."""
    import sysconfig

    for name in ("libcublasLt.so.12", "libcublas.so.12"):
        path = Path(sysconfig.get_path("purelib"), "nvidia", "cublas", "lib", name)
        if path.exists():
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def compute_types(device: str) -> list[str]:
    """int8 first, the fastest on most CPUs: a scan gives those up early that are far behind the best so far."""
    import ctranslate2

    return sorted(ctranslate2.get_supported_compute_types(device), key=lambda kind: ("int8" not in kind, kind))


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
