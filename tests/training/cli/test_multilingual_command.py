"""A run of several language pairs in one command, its scores by pair, and its refusals."""

from __future__ import annotations

import json
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from models import checkpoint as checkpoints
from tests.serving import serving
from tests.training import small
from tests.training.cli.commands import refused
from training.__main__ import main
from training.config.run_config import MultilingualConfig, TokenizerConfig
from training.data.tokenizer_training import fit_tokenizer
from training.errors import TrainingError
from training.evaluation.model_outputs import load_translator, translate
from training.translator_run import translator_metadata

pytestmark = pytest.mark.usefixtures("no_curves")
NETWORK = """
recipe = "classic"
tokens_per_batch = 100
[network]
tied = "output"
d_model = 48
encoder_layers = 1
decoder_layers = 1
heads = 2
head_width = 24
d_ff = 96
norm = "pre"
[optimizer]
name = "muon"
learning_rate = 0.01
schedule = "cosine"
warmup_updates = 10
[loop]
validate_every_epochs = 40
[tokenizer]
kind = "sentencepiece"
joint = true
vocab_size = 40
source_end = "eos"
"""
OPTIONS = ["--multilingual", "--config", "network.toml", "--device", "cpu", "--clean", "off"]


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Twelve sentences in two made-up target languages: backwards, and in capitals."""
    monkeypatch.chdir(tmp_path)
    generator = random.Random(0)
    sources = sorted({" ".join(generator.sample("abcdefgh", k=3)) for _ in range(14)})[:12]
    Path("backwards.tsv").write_text("".join(f"{source}\t{source[::-1]}\n" for source in sources))
    Path("capitals.tsv").write_text("".join(f"{source}\t{source.upper()}\n" for source in sources))
    Path("network.toml").write_text(NETWORK)
    return ["aa-bw:backwards.tsv", "aa-cap:capitals.tsv"]


def train(*arguments: str) -> None:
    assert main(["translator", *OPTIONS, *arguments]) == 0


@pytest.mark.slow
def test_one_network_learns_both_targets(corpora: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    train("--train", *corpora, "--valid", *corpora, "--max-epochs", "80", "--out", "m")
    captured = capsys.readouterr()
    scores = json.loads(captured.out)
    assert {name: row["exact_match"] for name, row in scores.items()} == {
        "validation aa-bw (greedy)": 1.0,
        "validation aa-cap (greedy)": 1.0,
    }
    checkpoint = checkpoints.read(Path("m"))
    assert [(pair.source, pair.target) for pair in checkpoint.config.language_pairs] == [("aa", "bw"), ("aa", "cap")]
    assert checkpoint.notices.source_words == {*"abcdefgh"}, "without the tokens of languages"
    assert checkpoint.notices.unsure_below is not None
    assert sorted(checkpoint.stand_ins) == [("aa", "bw"), ("aa", "cap")]
    source = Path("capitals.tsv").read_text().partition("\t")[0]
    outputs = {}
    for target in ("bw", "cap"):
        own, network = load_translator(Path("m"), torch.device("cpu"), ("aa", target))
        (outputs[target],) = translate(own, network, [source])
    assert outputs == {"bw": source[::-1], "cap": source.upper()}
    for target, file in (("bw", "backwards.tsv"), ("cap", "capitals.tsv")):
        assert main(["evaluate", "m", "--source", "aa", "--target", target, "--test", file, "--device", "cpu"]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["exact_match"] == 1.0
    with serving(Path.cwd(), Path.cwd()) as server:
        for target, output in outputs.items():
            body = {"q": source, "source": "aa", "target": target}
            assert server.ask("/translate", body)["translatedText"] == output
    rows = [json.loads(line) for line in Path("m/metrics.jsonl").read_text().splitlines()]
    last = [row for row in rows if "valid_loss" in row][-1]
    assert sorted(last["valid_by_pair"]) == ["aa-bw", "aa-cap"]
    losses = [values["loss"] for values in last["valid_by_pair"].values()]
    assert last["valid_loss"] == pytest.approx(sum(losses) / 2)
    assert sorted(json.loads(Path("m/corpus.json").read_text())["language_pairs"]) == ["aa-bw", "aa-cap"]
    card = Path("m/README.md").read_text()
    assert "# aa → bw, aa → cap" in card
    assert "aa-bw 12 pairs, aa-cap 12 pairs, sampled with temperature 5" in card
    run = tomllib.loads(Path("m/run.toml").read_text())
    assert run["data"]["train"] == corpora
    assert sorted(run["data"]["sha256"]) == ["backwards.tsv", "capitals.tsv"]


def weights(folder: str) -> str:
    return checkpoints.sha256(Path(folder) / "model.safetensors")


def test_a_run_file_repeats_the_run_and_a_snapshot_goes_on_with_it(corpora: list[str]) -> None:
    Path("capitals.tsv").write_text("".join(Path("capitals.tsv").read_text().splitlines(keepends=True)[:3]))
    more = ["--train", *corpora]
    more += ["--set", "optimizer.schedule=constant", "--set", "optimizer.warmup_updates=0"]
    train(*more, "--max-epochs", "3", "--out", "whole")
    assert main(["translator", "--config", "whole/run.toml", "--out", "again"]) == 0
    train(*more, "--max-epochs", "1", "--out", "parts")
    train(*more, "--max-epochs", "3", "--out", "parts", "--resume")
    assert weights("whole") == weights("again") == weights("parts")


def test_both_directions_of_a_corpus(corpora: list[str]) -> None:
    train("--train", corpora[0], "--both-directions", "--max-epochs", "1", "--out", "m")
    pairs = checkpoints.read(Path("m")).config.language_pairs
    assert [(pair.source, pair.target) for pair in pairs] == [("aa", "bw"), ("bw", "aa")]
    assert tomllib.loads(Path("m/run.toml").read_text())["data"]["train"] == ["aa<>bw:backwards.tsv"]


SPELLING = "write SOURCE-TARGET:PAIRS, such as de-en:pairs.tsv (a region with an underscore: pt_BR-en:pairs.tsv)"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--train", "a.tsv"], f"--train a.tsv does not begin with its languages: {SPELLING}"),
        (["--train", "pt-BR-en:a.tsv"], f"--train pt-BR-en:a.tsv does not begin with its languages: {SPELLING}"),
        (["--train", "a-b:a.tsv"], "--train a-b:a.tsv does not begin with its languages"),
        (["--train", "aa-bb:a.tsv", "--source", "aa"], "--source contradicts --multilingual, whose --train names"),
        (["--train", "aa-aa:a.tsv"], "--train names aa twice in aa-aa: a pair has two languages"),
        (["--train", "aa-bb:a.tsv", "--test", "bb-aa:a.tsv"], "--test has bb-aa, which no --train has"),
        (["--train", "aa-bb:a.tsv", "--valid", "a.tsv"], "--valid a.tsv does not begin with its languages"),
        ([], "--train is missing"),
        (
            ["--train", "aa-bb:a.tsv", "--sampling-temperature", "0.5"],
            "sampling_temperature must be at least 1, not 0.5",
        ),
        (
            ["--train", "aa-bb:a.tsv", "--set", "tokenizer.kind=word"],
            "--multilingual needs tokenizer.kind = sentencepiece",
        ),
    ],
)
def test_corpora_without_clear_languages_are_refused(
    corpora: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert sentence in refused(capsys, "translator", *OPTIONS, "--out", "m", *arguments)
    assert not Path("m").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--train", "aa-bb:a.tsv"], "--train aa-bb:a.tsv names languages: add --multilingual"),
        (["--train", "a.tsv", "--both-directions"], "--both-directions needs --multilingual"),
        (["--train", "a.tsv", "--test", "b.tsv", "c.tsv"], "--test takes one corpus, not 2: only --multilingual takes"),
    ],
)
def test_a_run_of_one_pair_takes_no_languages_in_its_corpora(
    corpora: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    command = ["translator", "--source", "aa", "--target", "bb", "--out", "m", "--device", "cpu"]
    assert sentence in refused(capsys, *command, *arguments)


def test_a_model_of_several_pairs_is_used_for_one(corpora: list[str]) -> None:
    train("--train", corpora[0], "--both-directions", "--max-epochs", "1", "--out", "m")
    cpu, folder = torch.device("cpu"), Path("m")

    def chosen(*pair: Any) -> tuple[str | None, str | None, tuple[int, ...]]:
        config = load_translator(folder, cpu, pair)[0].config
        return config.source_language, config.target_language, config.source_prefix

    assert chosen(None, "aa")[:2] == chosen("bw", None)[:2] == ("bw", "aa")
    assert chosen("aa", "bw")[2] != chosen("bw", "aa")[2]
    meant = r"m translates aa → bw, bw → aa: say which source and target language are meant \(--source, --target\)\."
    with pytest.raises(TrainingError, match=meant):
        chosen(None, None)
    with pytest.raises(TrainingError, match="m translates aa → bw, bw → aa, and not cc → aa"):
        chosen("cc", "aa")
    with pytest.raises(TrainingError, match="m translates aa → bw, bw → aa, and not aa → cc"):
        chosen("aa", "cc")


def test_a_model_of_several_pairs_is_tuned_for_all_and_for_one(corpora: list[str], capsys: Any) -> None:
    train("--train", corpora[0], "--both-directions", "--max-epochs", "1", "--out", "m")
    short = ["--device", "cpu", "--clean", "off", "--max-epochs", "1", "--from", "m"]
    both = ["translator", "--multilingual", *short, "--train", "aa<>bw:backwards.tsv"]
    assert main([*both, "--out", "tuned"]) == 0
    before, tuned = (checkpoints.read_config(Path(name)) for name in ("m", "tuned"))
    assert tuned.language_pairs == before.language_pairs
    assert tuned.training["from"]["model"] == "m"
    assert main(["translator", "--config", "tuned/run.toml", "--out", "again"]) == 0
    assert weights("again") == weights("tuned") != weights("m")
    one = ["translator", *short, "--source", "aa", "--target", "bw", "--train", "backwards.tsv", "--out", "one"]
    assert main(one) == 0
    config = checkpoints.read_config(Path("one"))
    assert (config.language_pairs, config.source_prefix) == ((), before.language_pairs[0].source_prefix)
    other = [*both[:-1], "aa-cap:capitals.tsv", "--out", "other"]
    told = "The tokenizer has no token >>cap<<, which --multilingual puts before sources: leave --from m out."
    capsys.readouterr()
    assert told in refused(capsys, *other)


def test_a_tokenizer_without_the_language_tokens_is_refused() -> None:
    tokenizer = fit_tokenizer(TokenizerConfig(vocab_size=30), ["a b c d e f g h"] * 9, languages=["bw"])
    config = small.translator(
        multilingual=MultilingualConfig(language_pairs="aa-bw,aa-cap"), tokenizer=TokenizerConfig()
    )
    network: Any = None
    with pytest.raises(TrainingError, match="The tokenizer has no token >>cap<<, which --multilingual puts before"):
        translator_metadata(config, network, {"source": tokenizer, "target": tokenizer})
