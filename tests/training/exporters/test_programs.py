"""The programs in the READMEs of exported folders run as they stand there, and print our output."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.peers.exported import of_parlance
from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Prompt
from models.networks.loading import load_network
from tests.tiny import write_lyricist
from tests.training.exporters.exported import write_random
from tests.training.importers.marian import folders
from training.exporters.export_checkpoint import export_checkpoint
from training.exporters.exportable import Form
from training.exporters.usage import EXAMPLE
from training.importers.marian.convert_checkpoint import import_marian

for library in ("ctranslate2", "onnxscript", "onnxruntime", "transformers"):
    pytest.importorskip(library, reason=f"extras export and dev bring {library}")
pytestmark = pytest.mark.filterwarnings("default")
SLOW_TRANSFORMERS = pytest.param("transformers", 4, marks=pytest.mark.slow)
SLOW_ONNX = pytest.param("onnx", 1, marks=pytest.mark.slow)
TEXT = "Ich möchte bitte ein Bier."
DEFAULT: dict[str, Any] = {"norm": "pre", "tied": "all", "encoder_layers": 1, "decoder_layers": 1}
ENDS: dict[str, Any] = {"output_bias": True, "eos_bias": 4.0}  # a beam that the limit cuts is scored otherwise there


def printed(
    checkpoint: Checkpoint,
    form: Form,
    out: Path,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    export_checkpoint(checkpoint.folder, form, out)
    (program,) = re.findall(r"```python\n(.*?)```", (out / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(program.splitlines()) <= 30
    monkeypatch.chdir(out)
    capsys.readouterr()
    exec(compile(program.replace(EXAMPLE, text), "README.md", "exec"), {})
    return capsys.readouterr().out.removesuffix("\n")


def ours(checkpoint: Checkpoint, text: str, beam: int) -> str:
    limit = checkpoint.config.max_new_tokens
    (tokens,) = of_parlance(checkpoint, [checkpoint.source_ids(text)], beam, limit)
    return checkpoint.decode(tokens)


@pytest.mark.parametrize(("form", "beam"), [SLOW_TRANSFORMERS, ("ctranslate2", 4), SLOW_ONNX])
def test_the_program_of_a_translator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: Form, beam: int
) -> None:
    checkpoint = write_random(tmp_path / "ours", **DEFAULT, **ENDS)
    (checkpoint.folder / "README.md").write_text("# Ours\n\n- Again: `run.toml` beside this file holds it\n- Seed 1\n")
    assert printed(checkpoint, form, tmp_path / "out", TEXT, monkeypatch, capsys) == ours(checkpoint, TEXT, beam)
    card = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    assert "- Seed 1\n" in card
    assert "run.toml" not in card  # an exported folder has none


@pytest.mark.parametrize(
    ("form", "beam"), [pytest.param("marian", 4, marks=pytest.mark.slow), ("ctranslate2", 4), SLOW_ONNX]
)
def test_the_program_of_an_imported_model_with_a_language_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: Form, beam: int
) -> None:
    unforced = {"forced_eos_token_id": None}
    languages = (">>deu<<", ">>nld<<")
    folders.write(tmp_path / "opus", languages=languages, pair=("en", "de"), generation=unforced, eos_bias=6.0)
    (tmp_path / "opus/README.md").write_text("---\nlicense: cc-by-4.0\nlanguage: [en, de]\n---\n# Its own card\n")
    import_marian(str(tmp_path / "opus"), tmp_path / "ours")
    checkpoint, text = checkpoints.read(tmp_path / "ours"), "good morning Peter"
    assert checkpoint.config.source_prefix
    assert printed(checkpoint, form, tmp_path / "out", text, monkeypatch, capsys) == ours(checkpoint, text, beam)
    front = yaml.safe_load((tmp_path / "out/README.md").read_text(encoding="utf-8").split("---")[1])
    assert front["license"] == "cc-by-4.0"
    assert front["pipeline_tag"] == "translation"
    assert front["library_name"] == {"marian": "transformers", "onnx": "onnxruntime"}.get(form, form)


@pytest.mark.slow
def test_the_program_of_two_vocabularies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = write_random(tmp_path / "ours", **{**DEFAULT, "tied": "output"})
    assert printed(checkpoint, "onnx", tmp_path / "out", TEXT, monkeypatch, capsys) == ours(checkpoint, TEXT, 1)


@pytest.mark.slow
def test_the_program_of_a_lyricist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = checkpoints.read(write_lyricist(tmp_path / "song"))
    text = printed(checkpoint, "onnx", tmp_path / "out", "", monkeypatch, capsys)
    rules = TokenRules(checkpoint.config.eos, checkpoint.config.suppressed, checkpoint.config.renormalise)
    prompt = Prompt((), tuple(checkpoint.tokenizers["target"].encode(text[0])))
    options = DecodingOptions(max_new_tokens=100)
    ((best,),) = decode(load_network(checkpoint), rules, [prompt], options)
    assert text[1:] == checkpoint.decode(best.tokens)
