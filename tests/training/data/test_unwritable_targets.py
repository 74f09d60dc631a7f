"""Targets that a vocabulary cannot write: counted, named, not trained on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from models.checkpoint import Checkpoint
from tests.training.cli.commands import refused
from tests.training.small import CPU, translator
from training.__main__ import main
from training.config.run_config import TokenizerConfig
from training.data.segmentation import Segmentation, untaught
from training.data.sentence_pairs import Pairs
from training.data.tokenizer_training import UNKNOWN, fit_translator_tokenizers
from training.errors import TrainingError
from training.loop.tasks import TranslationTask
from training.translator_run import build_translator, translator_metadata

GENERAL = Pairs(["guten morgen", "gute nacht", "bis morgen"] * 20, ["good morning", "good night", "see you"] * 20)
CHAT = Pairs(
    ["guten morgen", "gute nacht", "bis morgen", "nacht"],
    ["good morning 😀", "good night → 😀", "see you", "你好你好 see"],
    "chat.tsv",
)


def tuned(pairs: Pairs) -> tuple[Segmentation, TranslationTask]:
    """A network with the vocabulary of GENERAL, and its task on other pairs."""
    tokenizer = TokenizerConfig(vocab_size=60)
    config = translator(tokenizer=tokenizer)
    tokenizers = fit_translator_tokenizers(tokenizer, GENERAL.sources, GENERAL.targets)
    torch.manual_seed(0)
    network = build_translator(config, tokenizers, CPU)
    checkpoint = Checkpoint(Path("nowhere"), translator_metadata(config, network, tokenizers), tokenizers)
    segmentation = Segmentation(checkpoint, pairs, config)
    return segmentation, TranslationTask(network, segmentation.best, segmentation.best, config, untaught(checkpoint))


def test_unwritable_characters_are_counted_and_named() -> None:
    segmentation, _ = tuned(CHAT)
    assert segmentation.report.notes == [
        "chat.tsv has 3 targets with 4 characters that the vocabulary cannot write (😀 2, → 1, 你 1, 好 1): they are"
        " not trained on, and translations lack them (left out: 1 pair of mostly such characters); leave them out of"
        " the corpus, or train a new network with a vocabulary of its own, where --set tokenizer.byte_fallback=true"
        " writes any character"
    ]
    assert (
        segmentation.report.dropped["target that the vocabulary mostly cannot write"].examples[0].place == "chat.tsv:4"
    )
    assert len(segmentation.best[0]) == 3


def test_corpus_that_the_vocabulary_can_write_has_no_note() -> None:
    segmentation, _ = tuned(GENERAL)
    assert (segmentation.report.notes, segmentation.report.left_out) == ([], 0)


def test_corpus_of_another_script_is_refused() -> None:
    with pytest.raises(TrainingError, match="or has a target that the vocabulary mostly cannot write: nothing is left"):
        tuned(Pairs(["guten morgen"], ["早上好"]))


def test_unknown_tokens_give_no_gradient_to_their_own_probability() -> None:
    _, task = tuned(CHAT)
    (batch,) = [b for b in task.batches(0) if (b.outputs == UNKNOWN).any()][:1]
    _, tokens = task.loss(batch)
    assert tokens == int(((batch.outputs != task.pad) & (batch.outputs != UNKNOWN)).sum())
    outputs = batch.outputs.masked_fill(batch.outputs == UNKNOWN, task.pad)
    task.network.eval()
    masked, _ = task.loss(batch)
    padded, _ = task.loss(batch._replace(outputs=outputs))
    torch.testing.assert_close(masked, padded)


@pytest.mark.usefixtures("no_curves")
def test_a_tuning_run_says_what_its_vocabulary_cannot_write(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["translator", "--source", "aa", "--target", "bb", "--device", "cpu", "--max-epochs", "1"]
    options = ["--set", "tokenizer.kind=sentencepiece", "tokenizer.vocab_size=40"]
    assert main([*common, "--train", "pairs.tsv", "--out", "m", *options]) == 0
    lines = Path("pairs.tsv").read_text().splitlines()
    Path("chat.tsv").write_text("".join(f"{line} 😀\n" for line in lines))
    capsys.readouterr()
    assert main([*common, "--train", "chat.tsv", "--from", "m", "--out", "tuned"]) == 0
    said = capsys.readouterr().err
    assert "note: chat.tsv has 40 targets with 1 character that the vocabulary cannot write (😀 40)" in said
    assert "cannot write" in Path("tuned/corpus.json").read_text()
    Path("chinese.tsv").write_text("".join(f"{line.split(chr(9))[0]}\t你好\n" for line in lines))
    sentence = refused(capsys, *common, "--train", "chinese.tsv", "--from", "m", "--out", "c", "--clean", "off")
    assert sentence.endswith("nothing is left to train on.")


def test_byte_fallback_writes_any_character() -> None:
    tokenizer = TokenizerConfig(vocab_size=320, byte_fallback=True)
    fitted = fit_translator_tokenizers(tokenizer, GENERAL.sources, GENERAL.targets)["target"]
    text = "good 😀 你好"
    ids = fitted.encode(text)
    assert UNKNOWN not in ids
    assert fitted.decode(ids) == text
    assert fitted.unknown(text) == []
