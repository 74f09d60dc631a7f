"""Reranking: the sum by hand, what it orders, and which models may."""

from __future__ import annotations

import json
import math
import pickle
import shutil
from pathlib import Path

import pytest
import torch

from models.checkpoint import Checkpoint
from models.decoding.options import Hypothesis
from models.networks.transformer import Transformer
from tests import tiny as folders
from tests.training.small import CPU
from training.errors import TrainingError
from training.evaluation.model_outputs import hypotheses, load_model
from training.evaluation.reranking import Reranker


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator de → en, two of the other direction, and a lyricist."""
    root = tmp_path_factory.mktemp("reranking")
    folders.write_translator(root / "forth", "de", "en")
    for seed in (1, 2):
        folders.write_translator(root / f"back-{seed}", "en", "de", seed=seed, backwards=True)
    folders.write_lyricist(root / "song")
    return root


def reverse_log_probability(
    loaded: list[tuple[Checkpoint, torch.nn.Module]], hypothesis: str, source: str
) -> tuple[float, int]:
    """log p(source | hypothesis) of the mean of these networks, token by token, and the tokens of the source."""
    checkpoint = loaded[0][0]
    ids = [*checkpoint.target_ids(source), checkpoint.config.eos]
    total = 0.0
    for place in range(1, len(ids)):
        given = torch.tensor([checkpoint.source_ids(hypothesis)]), torch.tensor([ids[:place]])
        with torch.inference_mode():
            each = [float(network(*given)[0, -1].double().softmax(-1)[ids[place]]) for _, network in loaded]
        total += math.log(sum(each) / len(each))
    return total, len(ids) - 1


@pytest.mark.every_value
@pytest.mark.parametrize("back", [["back-1"], ["back-1", "back-2"]])
@pytest.mark.parametrize("weight", [3.0, 6.0])
def test_scores_are_the_sum_by_hand_and_order_the_beam(root: Path, back: list[str], weight: float) -> None:
    back_folders = [root / name for name in back]
    loaded = [load_model(folder, CPU) for folder in back_folders]
    checkpoint, network = load_model(root / "forth", CPU)
    beams: list[list[Hypothesis]] = []

    def kept(_: object, sources: object, given: object) -> list[list[Hypothesis]]:
        beams.extend(given)  # type: ignore[call-overload]
        return beams

    hypotheses(checkpoint, network, folders.GERMAN, beam=4, rerank=kept)
    reranked = Reranker(back_folders, CPU, ("de", "en"), weight)(checkpoint, folders.GERMAN, beams)
    orders = []
    for source, beam, found in zip(folders.GERMAN, beams, reranked, strict=True):
        expected = []
        for hypothesis in beam:
            nats, tokens = reverse_log_probability(loaded, checkpoint.decode(hypothesis.tokens), source)
            expected.append((hypothesis.score + weight * nats / tokens, hypothesis))
        assert len(beam) == 4
        expected.sort(key=lambda pair: -pair[0])
        assert [each.tokens for each in found] == [each.tokens for _, each in expected]
        assert [each.score for each in found] == pytest.approx([score for score, _ in expected], abs=1e-5)
        assert [each.log_probability for each in found] == [each.log_probability for _, each in expected]
        orders.append([each.tokens for each in found] == [each.tokens for each in beam])
    assert not all(orders), "where nothing changes its place, nothing is shown"


def test_the_best_of_the_whole_beam_is_taken_however_few_are_asked_for(root: Path) -> None:
    checkpoint, network = load_model(root / "forth", CPU)
    rerank = Reranker([root / "back-1"], CPU, ("de", "en"), 5.0)
    four, one = (
        hypotheses(checkpoint, network, folders.GERMAN, beam=4, n_best=count, rerank=rerank) for count in (4, 1)
    )
    assert [beam[:1] for beam in four] == one
    assert one != hypotheses(checkpoint, network, folders.GERMAN, beam=4)


def test_a_weight_of_zero_and_beams_without_hypotheses_change_nothing(root: Path) -> None:
    checkpoint, network = load_model(root / "forth", CPU)
    rerank = Reranker([root / "back-1"], CPU, weight=0.0)
    plain = hypotheses(checkpoint, network, folders.GERMAN, beam=3, n_best=3)
    assert hypotheses(checkpoint, network, folders.GERMAN, beam=3, n_best=3, rerank=rerank) == plain
    assert rerank(checkpoint, ["ein hund", "ja"], [[], []]) == [[], []]
    assert rerank(checkpoint, [], []) == []


def test_empty_hypotheses_and_unknown_words_are_ranked(root: Path) -> None:
    checkpoint, _ = load_model(root / "forth", CPU)
    beam = [Hypothesis((), -1.0, -1.0, True), Hypothesis(checkpoint.target_ids("the dog")[1:], -2.0, -0.7, True)]
    (found,) = Reranker([root / "back-1"], CPU)(checkpoint, ["quastenflosser"], [beam])
    assert {each.tokens for each in found} == {each.tokens for each in beam}
    assert all(math.isfinite(each.score) for each in found)


def test_a_source_without_tokens_leaves_the_order_of_the_search(root: Path, tmp_path: Path) -> None:
    """The model has no end token either, so that there is nothing to be likely or not."""
    folder = tmp_path / "endless"
    shutil.copytree(root / "back-1", folder)
    (folder / "config.sha256").unlink()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "eos": None}), encoding="utf-8")
    checkpoint, _ = load_model(root / "forth", CPU)
    beam = [Hypothesis(checkpoint.target_ids("the dog")[1:], -2.0, -0.7, True), Hypothesis((), -1.0, -1.0, True)]
    assert Reranker([folder], CPU)(checkpoint, [""], [beam]) == [beam]


def test_logits_of_a_wide_beam_are_never_all_in_memory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a batch would take gigabytes with a vocabulary of 60,000 pieces."""
    sizes, project = list[int](), Transformer.project
    checkpoint, _ = load_model(root / "forth", CPU)
    words = checkpoint.target_ids("i want a beer the dog sleeps")[1:]
    beams = [[Hypothesis(words[: 1 + n % 7], -1.0, -1.0, True) for n in range(64)] for _ in range(100)]
    sources = [f"{folders.GERMAN[n % 4]} {n}" for n in range(100)]
    rerank = Reranker([root / "back-1"], CPU)
    alone = [rerank(checkpoint, [source], [beam])[0] for source, beam in zip(sources, beams, strict=True)]

    def measured(self: Transformer, features: torch.Tensor) -> torch.Tensor:
        logits = project(self, features)
        sizes.append(logits.numel() // logits.size(-1))
        return logits

    monkeypatch.setattr(Transformer, "project", measured)
    together = rerank(checkpoint, sources, beams)
    assert sum(sizes) > 3000
    assert max(sizes) <= 512
    for one, other in zip(alone, together, strict=True):
        assert [each.score for each in other] == pytest.approx([each.score for each in one], abs=1e-5)


def test_a_process_that_is_not_forked_loads_the_same(root: Path) -> None:
    checkpoint, network = load_model(root / "forth", CPU)
    rerank = Reranker([root / "back-1", root / "back-2"], CPU, ("de", "en"), 3.0)
    again = pickle.loads(pickle.dumps(rerank))
    outputs = [
        hypotheses(checkpoint, network, folders.GERMAN, beam=4, n_best=4, rerank=each) for each in (rerank, again)
    ]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["forth"], "forth translates de → en, and not en → de"),
        (["back-1", "forth"], "forth translates de → en, and not en → de"),
        (["song"], "song is a lyricist, not a translator."),
        (["nowhere"], "nowhere is not a checkpoint"),
    ],
)
def test_models_that_cannot_rerank_are_named(root: Path, names: list[str], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        Reranker([root / name for name in names], CPU, ("de", "en"))
