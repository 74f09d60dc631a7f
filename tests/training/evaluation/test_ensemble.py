"""Ensembles: the mean of distributions by hand, in every search, and the folders that cannot be members."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from models.backends import select
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.interface import Precision, Prompt
from models.networks.transformer import Transformer
from models.scoring import score
from tests import tiny as folders
from tests.models import tiny
from tests.models.scripted import History, Scripted
from tests.models.stepping import CONTINUATIONS, RAGGED, full, stepped
from tests.training.small import CPU
from training.data.sentence_pairs import Pairs
from training.errors import TrainingError
from training.evaluation.ensemble import Ensemble, EnsembleDecodable, load_ensemble
from training.evaluation.model_outputs import hypotheses, load_model
from training.evaluation.scores import reference_nats

RULES = TokenRules(2, (0,))
SEARCHES = [
    DecodingOptions(max_new_tokens=7),
    DecodingOptions(max_new_tokens=7, beam_size=4, n_best=4),
    DecodingOptions(max_new_tokens=7, temperature=1.0, seed=11),
    DecodingOptions(max_new_tokens=5, beam_size=3, n_best=2, length_penalty=0.0),
]


class MeanOfScripted(Scripted):
    """The ensemble as one network without members: its logits are the log of the mean, by hand."""

    def __init__(self, members: Sequence[Scripted]) -> None:
        super().__init__(members[0].vocabulary)
        self.members = members

    def logits(self, history: History) -> list[float]:
        mean = [0.0] * self.vocabulary
        for member in self.members:
            exponentials = [math.exp(logit) for logit in member.logits(history)]
            for token, exponential in enumerate(exponentials):
                mean[token] += exponential / sum(exponentials) / len(self.members)
        return [math.log(probability) for probability in mean]


class Decoded:
    """Hands a `Decodable` to `decode`."""

    def __init__(self, decodable: Any) -> None:
        self._decodable = decodable

    def decodable(self, precision: Precision = "fp32") -> Any:
        return self._decodable


def same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.tokens for h in beam] for beam in found] == [[h.tokens for h in beam] for beam in expected]
    for ours, theirs in zip(chain.from_iterable(found), chain.from_iterable(expected), strict=True):
        assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-5)
        assert ours.score == pytest.approx(theirs.score, abs=1e-5)


def test_every_search_decodes_the_mean_by_hand() -> None:
    """Rows of greedy, sampled and beam requests join, leave and are reordered in one batch of a few slots."""
    members = [Scripted(9, seed=1), Scripted(9, seed=2)]
    prompts = [Prompt((3 + n % 4,) * (1 + n % 3), (1,)) for n in range(12)]
    options = [SEARCHES[n % len(SEARCHES)] for n in range(12)]
    mixed = Decoded(EnsembleDecodable(members))
    found = decode(mixed, RULES, prompts, options, slots=6)
    expected = decode(MeanOfScripted(members), RULES, prompts, options, slots=6)
    same(found, expected)
    alone = decode(members[1], RULES, prompts, options, slots=6)
    assert [h.tokens for beam in found for h in beam] != [h.tokens for beam in alone for h in beam]


def test_steps_of_networks_of_different_shapes_give_the_log_of_the_mean() -> None:
    members = [tiny.transformer(1), tiny.transformer(2, norm="pre", d_model=24, decoder_layers=1)]
    given = [full(member, RAGGED, CONTINUATIONS).double().softmax(-1) for member in members]
    mean = (given[0] + given[1]) / 2
    found = stepped(Ensemble(members).decodable(), RAGGED, CONTINUATIONS)
    torch.testing.assert_close(found.double(), mean.log(), rtol=0, atol=2e-5)


@pytest.mark.every_value
@pytest.mark.parametrize("options", SEARCHES, ids=["greedy", "beam", "sampling", "narrow beam"])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_network_with_itself_decodes_as_alone(options: DecodingOptions, precision: Precision) -> None:
    network = tiny.transformer(3, norm="pre")
    expected = decode(network, RULES, RAGGED, options, precision=precision)
    same(decode(Ensemble([network, network]), RULES, RAGGED, options, precision=precision), expected)
    one = decode(Ensemble([network]), RULES, RAGGED, options, precision=precision)
    assert repr(one) == repr(expected), "to the bit"


def test_members_are_stepped_by_their_own_backend_and_precision() -> None:
    members = [tiny.transformer(1), tiny.transformer(2)]
    alone = [stepped(select.decodable(member, "int8"), RAGGED, CONTINUATIONS) for member in members]
    mean = torch.stack([logits[..., : tiny.TARGET].double().softmax(-1) for logits in alone]).mean(0)
    found = stepped(Ensemble(members).decodable("int8"), RAGGED, CONTINUATIONS)
    torch.testing.assert_close(found[..., : tiny.TARGET].double(), mean.log(), rtol=0, atol=1e-5)
    wide = stepped(Ensemble(members).decodable(), RAGGED, CONTINUATIONS)
    assert not torch.allclose(found[..., : tiny.TARGET], wide, atol=1e-5)


def test_decoded_scores_are_those_of_the_teacher_forced_pass() -> None:
    ensemble = Ensemble([tiny.transformer(1), tiny.transformer(2), tiny.transformer(3)])
    for options in SEARCHES:
        (beam,) = decode(ensemble, RULES, [RAGGED[0]], options)
        for hypothesis in beam:
            target = (*RAGGED[0].prefix, *hypothesis.tokens, *((2,) if hypothesis.finished else ()))
            scores = score(ensemble, RAGGED[0].source, target, RULES)
            assert hypothesis.log_probability == pytest.approx(scores.log_probabilities.sum().item(), abs=1e-4)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("ensemble")
    return [folders.write_translator(root / f"seed-{seed}", "de", "en", seed=seed) for seed in (1, 2, 3)]


def test_nats_of_references_are_of_the_mean_probability(seeds: list[Path]) -> None:
    checkpoint, ensemble = load_ensemble(seeds, CPU)
    members = [load_model(seed, CPU)[1] for seed in seeds]
    nats, tokens = 0.0, 0
    for source, target in zip(folders.GERMAN, folders.ENGLISH, strict=True):
        ids = [*checkpoint.target_ids(target), 3]
        for place in range(1, len(ids)):
            given = torch.tensor([checkpoint.source_ids(source)]), torch.tensor([ids[:place]])
            with torch.inference_mode():
                each = [float(member(*given)[0, -1].double().softmax(-1)[ids[place]]) for member in members]
            nats -= math.log(sum(each) / 3)
            tokens += 1
    pairs = Pairs(folders.GERMAN, folders.ENGLISH)
    assert reference_nats(checkpoint, ensemble, pairs) == pytest.approx(nats / tokens, abs=1e-5)
    alone = [reference_nats(checkpoint, member, pairs) for member in members]
    assert nats / tokens < sum(alone) / 3, "Jensen's inequality"


def test_folders_load_as_one_translator(seeds: list[Path]) -> None:
    checkpoint, ensemble = load_ensemble(seeds, CPU)
    assert isinstance(ensemble, Ensemble)
    assert checkpoint.folder == seeds[0]
    results = hypotheses(checkpoint, ensemble, folders.GERMAN, beam=3, n_best=3)
    assert [len(beam) for beam in results] == [3] * 4
    _, alone = load_ensemble(seeds[:1], CPU)
    assert isinstance(alone, Transformer)


def test_models_that_cannot_vote_on_one_token_are_refused(seeds: list[Path], tmp_path: Path) -> None:
    lyricist = folders.write_lyricist(tmp_path / "song")
    backwards = folders.write_translator(tmp_path / "back", "en", "de")

    def refused(*members: Path) -> str:
        with pytest.raises(TrainingError) as error:
            load_ensemble(members, CPU)
        return str(error.value)

    assert refused(seeds[0], lyricist) == f"{lyricist} is a lyricist, not a translator."
    prefix = f"{backwards} cannot join {seeds[0]} in an ensemble: "
    direction = "it translates en→de and the other de→en; give models of one direction."
    assert refused(seeds[0], seeds[1], backwards) == prefix + direction
    assert "is not a checkpoint" in refused(seeds[0], tmp_path)


def test_other_tokenizers_and_rules_are_refused(
    seeds: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "ENGLISH", [*folders.ENGLISH, "one more word"])
    other = folders.write_translator(tmp_path / "other", "de", "en")
    with pytest.raises(TrainingError) as error:
        load_ensemble([seeds[0], other], CPU)
    assert str(error.value) == (
        f"{other} cannot join {seeds[0]} in an ensemble: their target tokenizers differ, and members of an ensemble"
        f" share their token ids; train them on the same pairs, or one with --tokenizer {seeds[0]}."
    )
    monkeypatch.undo()
    alike = folders.write_translator(tmp_path / "alike", "de", "en")
    config = alike / "config.json"
    config.write_text(config.read_text().replace('"forced_end": false', '"forced_end": true'))
    config.with_suffix(".sha256").unlink()
    with pytest.raises(TrainingError, match=r"their forced_end differ \(True and False in config.json\)"):
        load_ensemble([seeds[0], alike], CPU)
