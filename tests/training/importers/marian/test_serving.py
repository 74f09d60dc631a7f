"""An imported folder is an ordinary checkpoint: it is served, scored and quantised."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from models import checkpoint as checkpoints
from models.backends import select
from models.backends.native.int8_transformer import NativeTransformer
from models.backends.select import prepared
from models.backends.torch.transformer_step import EagerTransformer
from models.interface import Prompt
from models.networks.loading import load_network
from tests.app.engine.engine_thread import Running, options, read_stream
from tests.models.backends.native.test_int8_transformer import logits_of
from tests.models.kernels import needs_exact_int8
from tests.request_builders import attention_query, translation_request
from tests.training.importers.marian import folders
from training.__main__ import main
from training.evaluation.model_outputs import translate
from training.importers.marian.convert_checkpoint import import_marian

Lines = tuple[str, ...]


@pytest.fixture(scope="module")
def lines() -> Lines:
    return folders.lines("de")[10:30]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """de-es out of a model with two target languages."""
    path = tmp_path_factory.mktemp("marian")
    folder = folders.write(path / "folder", languages=[">>eng<<", ">>spa<<"], eos_bias=4.0)
    import_marian(str(folder), path / "served" / "de-es", target="es")
    return path / "served"


@pytest.fixture(scope="module")
def running(root: Path) -> Iterator[Running]:
    result = Running(options(root))
    result.ready()
    yield result
    result.close()


@pytest.mark.slow
def test_served_translation_equals_offline_decoding(running: Running, root: Path, lines: Lines) -> None:
    checkpoint = checkpoints.read(root / "de-es")
    expected = translate(checkpoint, load_network(checkpoint), lines, beam=4)
    answers = running.do(running.pool.translate([translation_request(line, "de", "es") for line in lines]))
    assert [answer.text for answer in answers] == expected
    assert len(set(expected)) > 10


@pytest.mark.slow
def test_a_stream_joins_to_the_answer(running: Running, lines: Lines) -> None:
    for line in lines[:6]:
        request = translation_request(line, "de", "es")
        texts, result = running.do(read_stream(running.pool.stream_translation(request)))
        (whole,) = running.do(running.pool.translate([request]))
        assert texts.get(0, "") == whole.text
        assert replace(result, usage=whole.usage) == whole


@pytest.mark.slow
def test_a_text_may_name_its_target_language(running: Running, root: Path, lines: Lines) -> None:
    named = [f">>eng<< {line}" for line in lines]
    checkpoint = checkpoints.read(root / "de-es")
    answers = running.do(running.pool.translate([translation_request(text, "de", "es") for text in [*named, *lines]]))
    english, spanish = answers[: len(lines)], answers[len(lines) :]
    assert [answer.text for answer in english] == translate(checkpoint, load_network(checkpoint), named, beam=4)
    assert [answer.text for answer in english] != [answer.text for answer in spanish]


@pytest.mark.slow
def test_attention_shows_the_language_token_before_the_text(running: Running) -> None:
    for text, language, special in (("der hund", ">>spa<<", True), (">>eng<< der hund", ">>eng<<", False)):
        result = running.do(running.pool.attention(attention_query(text)))
        first, *words, end = result.source_tokens
        assert (first.piece, first.special, end.piece) == (language, special, "</s>")
        assert "".join(word.text for word in words).replace(" ", "") == "derhund"
        assert result.maps["cross"].values.shape[-1] == len(result.source_tokens)


@pytest.mark.slow
def test_a_text_without_words_is_not_translated(running: Running) -> None:
    (answer,) = running.do(running.pool.translate([translation_request(" ", "de", "es")]))
    assert (answer.text, answer.usage.new_tokens) == (" ", 0)


def test_evaluate_scores_an_imported_model(
    root: Path, tmp_path: Path, lines: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = checkpoints.read(root / "de-es")
    answers = translate(checkpoint, load_network(checkpoint), lines)
    pairs = [pair for pair in zip(lines, answers, strict=True) if pair[1]]  # a line without words is left out
    assert len(pairs) > 10
    for name, texts in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (tmp_path / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    test = f"{tmp_path / 'source'},{tmp_path / 'target'}"
    assert main(["evaluate", str(root / "de-es"), "--test", test, "--device", "cpu"]) == 0
    scores = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (scores["exact_match"], scores["sentences"]) == (1.0, len(pairs))


@needs_exact_int8
@pytest.mark.slow  # a network of its own, measured and packed
def test_imported_model_runs_in_int8(root: Path, lines: Lines) -> None:
    checkpoint = checkpoints.read(root / "de-es")
    network = load_network(checkpoint)
    prompts = [Prompt(checkpoint.source_ids(line)[:9], checkpoint.config.target_prefix) for line in lines]
    native = select.decodable(network, "int8")
    assert isinstance(native, NativeTransformer)
    in_pytorch = logits_of(EagerTransformer(prepared(network, "int8")), prompts)
    in_c, padding = logits_of(native, prompts).tensor_split([in_pytorch.shape[-1]], dim=-1)
    assert padding.isneginf().all()  # the kernels fill a vocabulary up to whole blocks
    used = in_c.isfinite()
    difference = (in_c - in_pytorch).masked_fill(~used, 0).abs().amax(dim=(0, 2))
    assert difference.median() < 1e-3, difference
    assert in_c[used].std() > 1
