"""The shortlist of the native kernels chooses the token that all logits choose."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int64
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from models.backends.native import shortlist as shortlists
from models.backends.native.int8_transformer import NativeTransformer
from models.backends.native.packing import Packer
from models.backends.native.shortlist import Shortlist, shortlist
from models.backends.select import select
from models.decoding.decoder import Decoder
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.interface import Decodable, Prompt
from models.networks.transformer import Transformer, TransformerConfig
from tests.models.kernels import multiplied, quantized

WIDTH, OUTPUTS, RANK = 128, 1000, 24


@pytest.fixture(autouse=True)
def _any_size_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LEAST_WEIGHTS", 0), ("LEAST_WIDTH", 0), ("WORTH_IT", float("inf"))):
        monkeypatch.setattr(shortlists, name, value)


def test_refusal_says_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands in the log behind other reasons."""
    monkeypatch.setattr(shortlists, "LEAST_WIDTH", 256)
    said = "an output matrix of 1,216 × 128 gains nothing from a shortlist"
    assert shortlists.shortlist_refusal(1216, 128) == said


def peaked(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Output rows [V, C], a bias, and states [N, C], most of whose energy is in `RANK` directions, each near a row."""
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(WIDTH, RANK, generator=generator)).Q
    weight = torch.randn(OUTPUTS, RANK, generator=generator) @ basis.T
    weight += 0.05 * torch.randn(OUTPUTS, WIDTH, generator=generator)
    states = weight[torch.randint(OUTPUTS, (96,), generator=generator)] * 2
    states += 0.1 * torch.randn(96, WIDTH, generator=generator)
    return weight, 0.1 * torch.randn(OUTPUTS, generator=generator), states


def made(library: ctypes.CDLL, weight: Tensor, bias: Tensor, states: Tensor) -> Shortlist:
    packer = Packer(library, [tuple(weight.shape)])
    projection = packer.product(weight, bias)
    result = shortlist(library, projection, weight, bias, states)
    assert isinstance(result, Shortlist)
    result.packer.held += [packer.weights, *packer.held]
    return result


def chosen(
    library: ctypes.CDLL, short: Shortlist, x: Tensor, suppressed: tuple[int, ...] = (), threads: int = 1
) -> tuple[list[int], int]:
    """The tokens of rows x [N, C], and how many panels were computed for them."""
    tokens, computed = torch.full((len(x),), -7), c_int64()
    read, keep = quantized(library, x)
    projection, screen = short.without(suppressed)
    library.choose_likeliest.restype = c_int64
    library.begin_team.restype = c_int64
    team = c_int64(library.begin_team(c_int64(threads)))
    status = library.choose_likeliest(
        *(team, byref(projection), byref(screen), c_int64(len(x)), read),
        *(ctypes.c_void_p(tokens.data_ptr()), byref(computed)),
    )
    library.end_team(team)
    assert status == 0 and keep
    return tokens.tolist(), computed.value


def of_all_logits(
    library: ctypes.CDLL, weight: Tensor, bias: Tensor, x: Tensor, suppressed: tuple[int, ...] = ()
) -> list[int]:
    linear = torch.nn.Linear(weight.size(1), len(weight))
    linear.weight, linear.bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias)
    logits = multiplied(library, linear, x)
    logits[:, list(suppressed)] = -torch.inf
    tokens: list[int] = logits.argmax(dim=1).tolist()
    return tokens


def agrees(
    library: ctypes.CDLL, weight: Tensor, bias: Tensor, states: Tensor, suppressed: tuple[int, ...] = ()
) -> tuple[Shortlist, int]:
    with torch.inference_mode():
        short = made(library, weight, bias, states)
        tokens, computed = chosen(library, short, states, suppressed)
        assert tokens == of_all_logits(library, weight, bias, states, suppressed)
        assert chosen(library, short, states, suppressed, threads=2) == (tokens, computed)
    return short, computed


def test_few_panels_are_computed_where_states_fill_few_directions(library: ctypes.CDLL) -> None:
    weight, bias, states = peaked()
    short, computed = agrees(library, weight, bias, states)
    assert short.screen.prefix.inputs == 32
    assert computed < 0.3 * short.panels * len(states)


def test_random_numbers_give_the_same_tokens(library: ctypes.CDLL) -> None:
    torch.manual_seed(1)
    agrees(library, torch.randn(OUTPUTS, WIDTH), torch.randn(OUTPUTS), torch.randn(70, WIDTH))


def test_of_equal_rows_the_first_is_chosen(library: ctypes.CDLL) -> None:
    """The panel of the later one is computed first: other rows of it have the highest bounds, and no logits."""
    weight, bias, states = peaked(2)
    weight[960:990], bias[960:990] = weight[:30], bias[:30]
    generator = torch.Generator().manual_seed(0)
    weight[990:] = 4 * torch.randn(10, WIDTH, generator=generator)
    weight[990:] -= weight[990:] @ states.T @ torch.linalg.pinv(states.T)
    agrees(library, weight, bias, torch.cat([states, weight[:30] * 2]))


def test_rows_that_differ_by_one_rounding_step_are_told_apart(library: ctypes.CDLL) -> None:
    """One number of the rest, which the bounds do not see, decides between copies of one row."""
    weight, bias, states = peaked(3)
    copies = weight[:20].repeat(50, 1)
    generator = torch.Generator().manual_seed(0)
    columns = torch.randint(WIDTH, (len(copies),), generator=generator)
    copies[torch.arange(len(copies)), columns] += copies.abs().amax(dim=1) / 100
    agrees(library, copies, bias[:20].repeat(50), torch.cat([states, copies[::13] * 3]))


@pytest.mark.parametrize("size", [1e4, -1e4, 3e38])
def test_huge_biases(library: ctypes.CDLL, size: float) -> None:
    weight, bias, states = peaked(4)
    bias[700:] += size
    bias[::3] = -torch.inf
    agrees(library, weight, bias, states)


@pytest.mark.every_value
@pytest.mark.parametrize("suppressed", [(0, 1, 2), tuple(range(0, 1000, 2)), tuple(range(999)), tuple(range(1000))])
def test_suppressed_tokens_are_not_chosen(library: ctypes.CDLL, suppressed: tuple[int, ...]) -> None:
    weight, bias, states = peaked(5)
    agrees(library, weight, bias, states, suppressed)


def test_rows_of_any_size_and_rows_without_a_number(library: ctypes.CDLL) -> None:
    weight, bias, states = peaked(6)
    odd = states[:20] * torch.logspace(-38, 30, 20)[:, None]
    odd[3], odd[7, 5], odd[9, 0] = 0, torch.nan, torch.inf
    with torch.inference_mode():
        short = made(library, weight, bias, states)
        assert chosen(library, short, odd)[0] == of_all_logits(library, weight, bias, odd)
        for count in (1, 2, 3, 4, 5, 11):
            alone, _ = chosen(library, short, states[:count])
            assert alone == of_all_logits(library, weight, bias, states[:count])


def test_weights_that_are_no_numbers_have_no_shortlist(library: ctypes.CDLL) -> None:
    weight, bias, states = peaked()
    packer = Packer(library, [tuple(weight.shape)])
    bias[4] = torch.nan
    assert shortlist(library, packer.product(weight, bias), weight, bias, states) == (
        "numbers of the output matrix are not finite"
    )


def test_too_much_work_pauses_the_shortlist_for_a_while(library: ctypes.CDLL) -> None:
    weight, bias, states = peaked()
    with torch.inference_mode():
        short = made(library, weight, bias, states)
    short.count(shortlists.PATIENCE, shortlists.PATIENCE)
    assert short.worth_it
    short.count(shortlists.PATIENCE, shortlists.PATIENCE * short.panels)
    assert not short.worth_it
    short.count(shortlists.PAUSE)
    assert short.worth_it


# In a decoder ----------------------------------------------------------------------------------------------

CONFIG = TransformerConfig(
    source_vocabulary=700, target_vocabulary=700, d_model=64, encoder_layers=1, decoder_layers=2, heads=4,
    head_width=16, d_ff=128, norm="pre", output_bias=True,
)  # fmt: skip
PROMPTS = [Prompt(tuple((7 * n + i) % 690 + 5 for i in range(3 + n % 5)), (2,)) for n in range(24)]
GREEDY = DecodingOptions(max_new_tokens=12, scores=False)


def network() -> Transformer:
    torch.manual_seed(0)
    result = Transformer(CONFIG).eval()
    with torch.no_grad():
        result.output_weight.mul_(3)
    return result


class AllLogits:
    """A native network that leaves the choice of tokens to the decoder."""

    def __init__(self, native: NativeTransformer) -> None:
        self.device, self.allocate, self.prefill = native.device, native.allocate, native.prefill
        self.step, self.copy = native.step, native.copy


def decoded(decodable: Decodable, options: list[DecodingOptions]) -> list[Hypothesis]:
    decoder = Decoder(decodable, TokenRules(eos=3, suppressed=(0, 1, 2)), slots=64, source_length=10, target_length=20)
    decoder.join([(n, prompt, o) for n, (prompt, o) in enumerate(zip(PROMPTS, options, strict=True))])
    results: dict[int, Hypothesis] = {}
    while decoder.requests:
        results.update((key, hypotheses[0]) for key, hypotheses in decoder.step().finished if isinstance(key, int))
    return [results[n] for n in range(len(PROMPTS))]


MIXTURES = {
    "greedy": [GREEDY] * 24,
    "penalties": [replace(GREEDY, repetition_penalty=1.5), GREEDY] * 12,
    "repeats": [replace(GREEDY, no_repeat_ngram_size=2)] * 24,
    "scores": [GREEDY, replace(GREEDY, scores=True)] * 12,
    "sampled": [replace(GREEDY, temperature=1.0, seed=3), GREEDY] * 12,
    "beams": [replace(GREEDY, beam_size=3), GREEDY] * 12,
}


@pytest.mark.every_value
@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.usefixtures("library")
def test_decoding_gives_the_same_tokens(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlists, "PATIENCE", 1 << 30)  # weights are random
    with_shortlist = select(network(), "int8").decodable
    assert isinstance(with_shortlist, NativeTransformer) and with_shortlist.shortlist is not None
    monkeypatch.setenv(shortlists.CHOICE, shortlists.OFF)
    plain = select(network(), "int8")
    assert plain.reason.endswith("; no vocabulary shortlist: PARLANCE_SHORTLIST is off")
    assert isinstance(plain.decodable, NativeTransformer) and plain.decodable.shortlist is None
    expected = decoded(AllLogits(plain.decodable), MIXTURES[name])
    for decodable in (with_shortlist, plain.decodable):
        found = decoded(decodable, MIXTURES[name])
        assert [h.tokens for h in found] == [h.tokens for h in expected]
        assert str([h.score for h in found]) == str([h.score for h in expected])


@pytest.mark.parametrize("choice", ["", shortlists.OFF])
@pytest.mark.usefixtures("library")
def test_greedy_rows_alone_are_chosen_in_the_kernels(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlists, "PATIENCE", 1 << 30)  # weights are random
    monkeypatch.setenv(shortlists.CHOICE, choice)
    native = select(network(), "int8").decodable
    assert isinstance(native, NativeTransformer)
    monkeypatch.setattr(NativeTransformer, "step", None)
    assert all(len(h.tokens) <= 12 for h in decoded(native, MIXTURES["greedy"]))
    with pytest.raises(TypeError):
        decoded(native, MIXTURES["scores"])
