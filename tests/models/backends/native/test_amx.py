"""AMX tiles without a CPU that has them: the same kernel source over `amx_emulated.h`, equal to AVX-512 VNNI to the
bit, what the compiler makes of it, and libraries that the trial at load refuses."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from ctypes import byref, c_int64
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from models.backends.native import build
from models.backends.native.build import AMX, AVX512, Variant, first_loadable
from models.backends.native.cpu import cpu_flags
from models.backends.native.int8_transformer import ACTIVATION_NUMBERS, NativeTransformer
from models.backends.native.packing import Packer
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.interface import Prompt
from tests.models import tiny
from tests.models.kernels import AMX_EMULATED, multiplied, needs, pointer, quantized, variant_library

ROWS = (1, 7, 8, 9, 15, 16, 17, 31, 33, 40, 113, 120, 121, 128, 241)
TRIAL_SOURCES = ("team.c", "products.c", "amx.c")


@pytest.fixture(scope="module")
def tiles() -> ctypes.CDLL:
    return variant_library(AMX_EMULATED.name)


@pytest.fixture(scope="module")
def vnni() -> ctypes.CDLL:
    return variant_library(AVX512.name)


@pytest.mark.parametrize(("inputs", "outputs"), [(64, 64), (20, 70), (3, 5), (130, 129), (512, 16), (192, 300)])
@torch.inference_mode()
def test_products_are_those_of_vnni_to_the_bit(
    tiles: ctypes.CDLL, vnni: ctypes.CDLL, inputs: int, outputs: int
) -> None:
    torch.manual_seed(inputs)
    linear = nn.Linear(inputs, outputs)
    for rows in ROWS:
        x, residual = torch.randn(rows, inputs) * torch.logspace(-30, 30, rows)[:, None], torch.randn(rows, outputs)
        x[rows // 2] = 0
        for arguments in ((None, 0), (residual, ACTIVATION_NUMBERS["relu"]), (None, ACTIVATION_NUMBERS["gelu"])):
            expected = multiplied(vnni, linear, x, *arguments)
            assert torch.equal(multiplied(tiles, linear, x, *arguments), expected), rows


@torch.inference_mode()
def test_row_without_numbers_leaves_the_other_rows_of_its_tile_alone(tiles: ctypes.CDLL, vnni: ctypes.CDLL) -> None:
    linear, x = nn.Linear(70, 90), torch.randn(19, 70)
    x[9, 3], x[18] = torch.nan, torch.inf
    expected = multiplied(vnni, linear, x)
    torch.testing.assert_close(multiplied(tiles, linear, x), expected, rtol=0, atol=0, equal_nan=True)


@torch.inference_mode()
def test_threads_share_a_product_and_leave_no_tiles_behind(tiles: ctypes.CDLL, vnni: ctypes.CDLL) -> None:
    linear, x = nn.Linear(512, 1100), torch.randn(37, 512)
    packer = Packer(tiles, [(1100, 512)])
    packed = packer.product(linear.weight, linear.bias)
    read, _kept = quantized(tiles, x)
    y = torch.full((37, 1100), torch.nan)
    tiles.begin_team.restype = c_int64
    team = c_int64(tiles.begin_team(c_int64(3)))
    tiles.multiply(team, byref(packed), read, c_int64(37), None, 0, pointer(y))
    tiles.end_team(team)
    assert torch.equal(y, multiplied(vnni, linear, x))
    assert not tiles.emulated_in_use()


def decoded(library: ctypes.CDLL, beam: int, monkeypatch: pytest.MonkeyPatch) -> list[list[Hypothesis]]:
    """Translations of 24 random sources by a random network: sources of up to 9 tokens, 48 rows at once."""
    monkeypatch.setattr(build, "library", lambda: library)
    network = tiny.transformer(**tiny.OPTIONS["wide heads"])
    prompts = [Prompt(tuple(tiny.ids((1 + n % 9,), n, low=3).tolist()), (1,)) for n in range(24)]
    options = [DecodingOptions(max_new_tokens=12, beam_size=beam)] * len(prompts)
    return decode(network, TokenRules(2, ()), prompts, options, slots=48, precision="int8")


@pytest.mark.parametrize("beam", [1, 2])
def test_random_network_decodes_as_with_vnni(
    tiles: ctypes.CDLL, vnni: ctypes.CDLL, beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decoded(tiles, beam, monkeypatch) == decoded(vnni, beam, monkeypatch)


@pytest.mark.parametrize("name", ["post", "pre", "marian"])
@torch.inference_mode()
def test_logits_are_those_of_vnni_to_the_bit(tiles: ctypes.CDLL, vnni: ctypes.CDLL, name: str) -> None:
    network = tiny.transformer(**tiny.OPTIONS[name])
    prompts = [Prompt(tuple(tiny.ids((1 + n % 9,), n, low=3).tolist()), (1,)) for n in range(21)]
    logits = []
    for library in (tiles, vnni):
        native = NativeTransformer(network, library)
        state = native.allocate(len(prompts), 9, 12)
        native.prefill(state, range(len(prompts)), prompts)
        fed = [torch.ones(len(prompts), dtype=torch.long), *tiny.ids((4, len(prompts)), 5, low=3)]
        logits.append(torch.stack([native.step(state, tokens) for tokens in fed]))
    assert torch.equal(*logits)


def test_compiled_for_amx_a_product_has_its_instructions(tmp_path: Path) -> None:
    assembly = tmp_path / "products.s"
    variant = replace(AMX, flags=(*AMX.flags, "-S", "-O1"), sources=("products.c",))
    try:
        build.compile_to(assembly, variant, patient=True)
    except OSError as error:
        if isinstance(error, FileNotFoundError) or "amx" in str(error):
            pytest.skip(f"no C compiler here knows AMX: {error}")
        raise
    text = assembly.read_text(encoding="utf-8")
    for instruction in ("ldtilecfg", "tileloadd", "tdpbsud", "tilestored", "tilerelease"):
        assert instruction in text


def loaded_of(variant: Variant, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file name of the library that is loaded where the variant is wanted and another one can be had."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setattr(build, "BUILD_LIMIT_S", 300)  # of a busy machine
    (folder / "other.c").write_text("int other(void) { return 0; }\n", encoding="utf-8")
    other = Variant("other", frozenset(), (), sources=("other.c",), headers=(), folder=folder)
    return build.name_of(first_loadable([replace(variant, sources=TRIAL_SOURCES), other], "int8"))


@pytest.mark.slow  # compiles
def test_cpu_whose_products_differ_is_refused_at_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    needs(AMX_EMULATED)
    broken = replace(AMX_EMULATED, flags=(*AMX_EMULATED.flags, "-DEMULATED_FAULT=1"))
    assert loaded_of(broken, tmp_path, monkeypatch).startswith("parlance-other-")
    assert caplog.messages == ["better ones cannot be had: amx emulated: its products differ from plain ones"]


@pytest.mark.skipif("amx_tile" in cpu_flags(), reason="this CPU has tiles, and the system lets a process use them")
def test_system_without_tiles_is_no_crash_but_the_next_variant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    needs(AMX_EMULATED)
    assert loaded_of(AMX, tmp_path, monkeypatch).startswith("parlance-other-")
    assert caplog.messages == ["better ones cannot be had: amx: the system does not let this process use its tiles"]


MISUSES = """
int64_t misuse(int64_t which) {
    struct {
        uint8_t palette, rest[15];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shapes = {1, {0}, {64, 64, 64}, {4, 4, 16}};
    char memory[1024] = {0};
    if (which != 1) syscall(SYS_arch_prctl, 0x1023, 18);
    if (which == 2) shapes.rows[0] = 17;
    if (which == 3) shapes.bytes[0] = 65;
    if (which == 4) shapes.rows[1] = 5;
    if (which == 5) shapes.rows[2] = 15;
    if (which != 6) _tile_loadconfig(&shapes);
    if (which == 7) _tile_release();
    _tile_zero(0);
    _tile_loadd(1, memory, 64);
    _tile_loadd(2, memory, 64);
    _tile_dpbsud(0, 1, 2);
    if (which == 8) _tile_stored(3, memory, 64);
    return 0;
}
"""


@pytest.mark.slow  # compiles
def test_emulation_stops_where_a_cpu_would(tmp_path: Path) -> None:
    needs(AMX_EMULATED)
    (tmp_path / "misuse.c").write_text(MISUSES, encoding="utf-8")
    library = tmp_path / "misuse.so"
    build.compile_to(library, replace(AMX_EMULATED, sources=("misuse.c",), headers=(), folder=tmp_path), patient=True)
    program = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).misuse(ctypes.c_int64(int(sys.argv[2])))"
    problems = [
        "",
        "no permission",
        *["a tile that is too large"] * 2,
        *["shapes that do not fit"] * 2,
        *["a tile that is not configured"] * 3,
    ]
    for which, problem in enumerate(problems):
        command = [sys.executable, "-c", program, str(library), str(which)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == (-signal.SIGABRT if problem else 0), (which, done.stderr)
        assert problem in done.stderr
