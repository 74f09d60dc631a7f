"""LibreTranslate (https://github.com/LibreTranslate/LibreTranslate) with the weights of a Parlance checkpoint: an Argos
package around a CTranslate2 model, and the setting under which it is started."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.ctranslate2 import convert
from models.checkpoint import read_config

LANGUAGES = {"de": "German", "en": "English"}


@dataclass(frozen=True, slots=True)
class Setting:
    """inter: sentences that are computed at once, each with `intra` threads. threads: of its web server."""

    compute_type: str
    inter: int
    intra: int
    threads: int = 4  # its own default

    def __str__(self) -> str:
        return f"{self.compute_type}, {self.inter} × {self.intra} threads, {self.threads} requests at once"

    def environment(self, beam: int) -> dict[str, str]:
        return {
            "ARGOS_COMPUTE_TYPE": self.compute_type,
            "ARGOS_INTER_THREADS": str(self.inter),
            "ARGOS_INTRA_THREADS": str(self.intra),
            "ARGOS_BEAM_SIZE": str(beam),
            "LT_THREADS": str(self.threads),
            "OMP_NUM_THREADS": str(self.intra),
        }


def packages_of(checkpoint: Path, packages: Path, source: str, target: str) -> None:
    """The checkpoint as an Argos package in the folder `packages`, and a second one that is never used: with fewer than
    two LibreTranslate downloads its own before it starts. ValueError where the checkpoint has no single SentencePiece
    model for both sides, which Argos requires."""
    folder = package(checkpoint, packages, source, target)
    other = packages / f"translate-{target}_{source}-1_0"
    shutil.copytree(folder, other)
    (other / "metadata.json").write_text(metadata(target, source), encoding="utf-8")


def metadata(source: str, target: str) -> str:
    names = {"from_code": source, "from_name": LANGUAGES[source], "to_code": target, "to_name": LANGUAGES[target]}
    return json.dumps({"package_version": "1.0", "argos_version": "1.9", "type": "translate", **names})


def package(checkpoint: Path, packages: Path, source: str, target: str) -> Path:
    import sentencepiece

    config = read_config(checkpoint)
    files = {path.read_bytes(): path for path in checkpoint.glob("*.model")}
    if len(files) != 1:
        raise ValueError(f"{checkpoint} has no single SentencePiece model of both languages.")
    (file,) = files.values()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(file))
    folder = packages / f"translate-{source}_{target}-1_0"
    folder.mkdir(parents=True)
    convert(checkpoint, folder / "model", [processor.id_to_piece(i) for i in range(processor.get_piece_size())])
    assert config.source_prefix == (), "Argos begins a source with its first word"
    shutil.copy(file, folder / "sentencepiece.model")
    (folder / "metadata.json").write_text(metadata(source, target), encoding="utf-8")
    return folder
