"""Scores: the promised keys, and numbers that another computation gives as well."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch

from models import checkpoint as checkpoints
from models.backends import select
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Prompt
from models.networks.loading import load_network
from tests.training.small import CPU, lyricist, pairs, text, translator
from training import output_folder
from training.__main__ import main
from training.config.run_config import LoopConfig, TokenizerConfig
from training.data.sentence_pairs import Pairs
from training.evaluation import bleu_validator
from training.evaluation.model_outputs import load_model
from training.evaluation.scores import score_summary
from training.evaluation.text_metrics import text_scores
from training.lyricist_run import train_lyricist
from training.training_run import TrainingRun
from training.translator_run import train_translator


@pytest.fixture(autouse=True)
def _short_translations() -> None:
    """Instead of the fixture of that name: these scores are of translations within the limits that users get."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_folder, "draw_curves", lambda metrics, path: path.write_bytes(b""))
        config = translator(
            tokenizer=TokenizerConfig(vocab_size=60, joint=False), loop=LoopConfig(max_epochs=12), tokens_per_batch=200
        )
        data = Pairs([f"{s}." for s in pairs(60).sources], [f"{s}." for s in pairs(60).sources])
        train_translator(config, data, None, TrainingRun(out=folder / "translator", device=CPU, quiet=True))
        train_lyricist(lyricist(), text(400), TrainingRun(out=folder / "lyricist", device=CPU, quiet=True), origin="")
        strict = lyricist(unknown=False, valid_fraction=0.0, newline_as_space=True)
        train_lyricist(strict, text(400), TrainingRun(out=folder / "strict", device=CPU, quiet=True), origin="")
    (folder / "test.tsv").write_text("".join(f"{s}.\t{s}.\n" for s in pairs(12, seed=5).sources))
    (folder / "song.txt").write_text(text(150, seed=3) + "äöü!")
    return {path.name: path for path in folder.iterdir()}


def scored(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """What the command prints: its last line is one JSON object."""
    assert main(["evaluate", *map(str, arguments), "--device", "cpu"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert isinstance(result, dict)
    return result


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["evaluate", *map(str, arguments), "--device", "cpu"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize(("beam", "penalty"), [(1, None), pytest.param(3, None, marks=pytest.mark.slow), (3, -3.0)])
def test_translator_scores_equal_sacrebleu(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str], beam: int, penalty: float | None
) -> None:
    penalised = [] if penalty is None else ["--length-penalty", penalty]
    results = scored(capsys, folders["translator"], "--test", folders["test.tsv"], "--beam", beam, *penalised)
    signatures = ["signature", "signature_lowercased", "signature_chrf"]
    search = ["beam", "length_penalty"] if beam > 1 else ["beam"]
    scores = [
        "bleu_interval",
        "exact_match",
        "nats_per_token",
        "perplexity",
        "longer_than_served",
        *search,
        "sentences",
        "seconds",
    ]
    assert list(results) == ["bleu", "bleu_lowercased", "chrf", *signatures, *scores]
    penalty = 1.0 if penalty is None else penalty
    assert results.get("length_penalty", 1.0) == penalty
    checkpoint = checkpoints.read(folders["translator"])
    network = load_network(checkpoint)
    sources = [f"{s}." for s in pairs(12, seed=5).sources]
    outputs = []
    for source in sources:  # one by one, through the loop that serves
        prompt = Prompt(checkpoint.source_ids(source), checkpoint.config.target_prefix)
        rules = TokenRules(checkpoint.config.eos, checkpoint.config.suppressed)
        options = DecodingOptions(max_new_tokens=2 * len(prompt.source) + 20, beam_size=beam, length_penalty=penalty)
        outputs.append(checkpoint.decode(decode(network, rules, [prompt], [options])[0][0].tokens))
    assert results["bleu"] == round(sacrebleu.corpus_bleu(outputs, [sources]).score, 2) > 0
    assert results["chrf"] == round(sacrebleu.corpus_chrf(outputs, [sources]).score, 2) > 0
    exact = sum(output == source for output, source in zip(outputs, sources, strict=True)) / 12
    assert results["exact_match"] == round(exact, 4)
    assert (results["beam"], results["sentences"]) == (beam, 12)
    assert results["signature"] == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    small = [[text.lower() for text in texts] for texts in (outputs, sources)]
    assert results["bleu_lowercased"] == round(sacrebleu.corpus_bleu(small[0], [small[1]]).score, 2)
    assert "|case:lc|" in results["signature_lowercased"]
    assert results["signature_chrf"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|")
    assert results["longer_than_served"] == 0
    nats, tokens = 0.0, 0
    for source in sources:  # pair by pair, so that there is no padding
        ids = [*checkpoint.target_ids(source), 3]
        logits = network(torch.tensor([checkpoint.source_ids(source)]), torch.tensor([ids[:-1]]))[0]
        nats -= sum(float(torch.log_softmax(logits[t].detach().double(), -1)[token]) for t, token in enumerate(ids[1:]))
        tokens += len(ids) - 1
    assert results["nats_per_token"] == pytest.approx(nats / tokens, abs=6e-5)
    assert results["perplexity"] == pytest.approx(math.exp(nats / tokens), rel=1e-4)
    assert all("▁" not in output for output in outputs)


def test_lyricist_scores_equal_the_text(folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    results = scored(capsys, folders["lyricist"], "--corpus", folders["song.txt"])
    names = ["nats_per_character", "bits_per_character", "perplexity", "characters", "unknown_characters"]
    assert list(results) == names
    checkpoint = checkpoints.read(folders["lyricist"])
    network = load_network(checkpoint)
    ids = torch.tensor(checkpoint.tokenizers["target"].encode(folders["song.txt"].read_text()))
    decodable, nats = select.decodable(network), 0.0
    state = decodable.allocate(1, 0, len(ids))
    for token, following in itertools.pairwise(ids):  # step by step, as in serving
        log_p = torch.log_softmax(decodable.step(state, token[None])[0].double(), -1)
        nats -= float(log_p[following])
    mean = nats / 153
    assert (results["characters"], results["unknown_characters"]) == (153, 4)
    assert results["nats_per_character"] == pytest.approx(mean, abs=6e-5)
    assert results["bits_per_character"] == pytest.approx(mean / math.log(2), abs=6e-5)
    assert results["perplexity"] == pytest.approx(math.exp(mean), abs=2e-3)
    assert results["bits_per_character"] == pytest.approx(results["nats_per_character"] / math.log(2), abs=2e-4)


def test_newlines_are_read_as_in_training(folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    song = folders["song.txt"].with_name("lines.txt")
    song.write_bytes(b"ab\ncd\r\nef")
    result = scored(capsys, folders["strict"], "--corpus", song)
    song.write_bytes(b"ab cd ef")
    assert scored(capsys, folders["strict"], "--corpus", song) == result


def test_options_of_the_other_kind_of_model_are_refused(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model, song, table = folders["translator"], folders["lyricist"], folders["test.tsv"]
    expected = f"{model} is a translator: give --test SOURCE,TARGET"
    assert refused(capsys, model, "--corpus", table) == f"{expected} and no --corpus."
    assert refused(capsys, model) == f"{expected}."
    assert refused(capsys, song, "--test", table) == f"{song} is a lyricist: give --corpus FILE and no --test."
    result = refused(capsys, song, "--corpus", table, "--beam", "5", "--columns", "1,2")
    assert result == f"{song} is a lyricist: give --corpus FILE and no --columns and no --beam."
    assert refused(capsys, song) == f"{song} is a lyricist: give --corpus FILE."


def test_unscorable_texts_are_refused(folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = folders["song.txt"].with_name("odd.txt")
    path.write_text("abcx")
    assert refused(capsys, folders["strict"], "--corpus", path).startswith("The model has no character 'x'")
    path.write_text("a")
    assert "fewer than two characters" in refused(capsys, folders["lyricist"], "--corpus", path)
    path.write_text("")
    assert "fewer than two characters" in refused(capsys, folders["lyricist"], "--corpus", path)
    missing = path.with_name("missing")
    assert refused(capsys, folders["lyricist"], "--corpus", missing) == f"{missing} does not exist."


def test_folders_without_a_model_are_named(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "config.json is missing" in refused(capsys, tmp_path, "--corpus", folders["song.txt"])
    for path in folders["lyricist"].iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"{}")
    message = refused(capsys, tmp_path, "--corpus", folders["song.txt"])
    assert message == f"{tmp_path / 'model.safetensors'} does not match its checksum; the model was not loaded."


@pytest.mark.parametrize("beam", [0, -1, 65])
def test_beam_out_of_bounds_is_refused(folders: dict[str, Path], capsys: pytest.CaptureFixture[str], beam: int) -> None:
    assert f"--beam must be at least 1 and at most 64, not {beam}" in refused(
        capsys, folders["translator"], "--beam", beam
    )


def test_a_penalty_without_a_beam_or_out_of_bounds(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    result = refused(capsys, folders["translator"], "--test", folders["test.tsv"], "--length-penalty", 11)
    expected = "--length-penalty must lie in -10..10, not 11.0; --length-penalty needs a --beam of at least 2"
    assert result == f"This cannot start: {expected}."
    assert "must lie in -10..10, not nan" in refused(
        capsys, folders["translator"], "--beam", 2, "--length-penalty", "nan"
    )


def test_sources_longer_than_any_in_training(folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = folders["test.tsv"].with_name("long.tsv")
    path.write_text("a b c d " * 80 + ".\ta.\nzzz Ω\tz.\n")
    assert main(["evaluate", str(folders["translator"]), "--test", str(path), "--device", "cpu"]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert (result["sentences"], result["longer_than_served"]) == (2, 1)
    assert captured.err == (
        "note: 1 of 2 sources is longer than the 256 tokens that this model is served with. A server refuses what is"
        " translated and counted here.\n"
        f"note: BLEU {result['bleu']:.2f} ± {result['bleu_interval']:.1f} (95 %) on 2 sentences, fewer than 500.\n"
    )


def test_card_scores_equal_evaluate(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], no_curves: None
) -> None:
    config = translator(loop=replace(translator().loop, max_epochs=2))
    test = Pairs(pairs(9, seed=4).sources, pairs(9, seed=4).targets, "nine")
    scores = train_translator(
        config, pairs(40), None, TrainingRun(out=tmp_path / "m", device=CPU, quiet=True), test=test
    )
    path = tmp_path / "t.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in zip(test.sources, test.targets, strict=True)))
    result = scored(capsys, tmp_path / "m", "--test", path)
    assert {**result, "seconds": 0} == {**scores["nine (greedy)"], "seconds": 0}


def test_only_evaluate_mentions_tokenised_texts(
    folders: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = Pairs(["a b a b ."] * 100, ["A B A B ."] * 100, "tokenised")
    monkeypatch.setattr(bleu_validator, "translate", lambda checkpoint, network, sources: ["A B A B ."] * len(sources))
    checkpoint, network = load_model(folders["translator"], CPU)
    validator = bleu_validator.BleuValidator(checkpoint, network, texts, LoopConfig(choose_by="bleu"))
    assert validator(1.0).bleu == pytest.approx(100.0)
    assert text_scores(["A B A B ."] * 100, [texts.targets])["bleu"] == pytest.approx(100.0)
    (tmp_path / "t.tsv").write_text("a b a b .\tA B A B .\n" * 100)
    assert main(["evaluate", "--test", str(tmp_path / "t.tsv"), str(folders["translator"])]) == 0
    assert capsys.readouterr().err.count("The references look tokenised (' .'), which changes BLEU") == 1
    assert "detokenize" not in caplog.text


def test_interval_that_the_bootstrap_does_not_know_is_left_out() -> None:
    """All of 15 sentences are right in every resample, and nobody knows how often the sixteenth would be."""
    right = [f"sentence number {n} of the test set" for n in range(15)]
    assert "bleu_interval" not in text_scores(right, [right])
    summary = score_summary({**text_scores(right, [right]), "sentences": 15})
    assert summary == "BLEU 100.00 on 15 sentences"
    wrong = [*right[:-1], "something else entirely stands here now"]
    assert text_scores(wrong, [right])["bleu_interval"] > 1
