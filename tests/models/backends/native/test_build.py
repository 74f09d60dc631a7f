"""Where the native kernels come from: a compiler, a file beside the sources, or nowhere."""

from __future__ import annotations

import ctypes
import errno
import itertools
import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from models.backends import select
from models.backends.native import build, cpu
from models.backends.native.build import AVX2, CHOICE, EVERY, FP32, NAMES, VARIANTS, Variant
from models.backends.native.cpu import X86_64, architecture, cpu_flags
from models.backends.torch.transformer_step import EagerTransformer
from tests.models import tiny
from tests.models.kernels import forget, needs_exact_int8

WIDER, PORTABLE = {"fp32-avx512f", "fp32-avx2", "training-avx512f", "training-avx2"}, {"fp32", "training"}
ALL = frozenset[str]().union(*(variant.needed for variant in VARIANTS if variant.architecture == X86_64))


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A cache folder that holds nothing yet, and a library that was not looked for yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv(CHOICE, raising=False)
    monkeypatch.setattr(build, "cpu_flags", lambda: ALL)
    forget()
    yield tmp_path
    forget()


@needs_exact_int8
def test_without_a_compiler_int8_runs_in_pytorch_and_the_log_says_so(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "")
    assert build.library() is None
    assert caplog.text.count("there is no C compiler") == 1
    assert type(select.decodable(tiny.transformer(), "int8")) is EagerTransformer


def test_a_folder_that_may_not_be_written_to_is_said_with_a_way_out(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(variant: Variant) -> Path:
        raise PermissionError(errno.EACCES, "Permission denied", "/root/.cache/parlance")

    monkeypatch.setattr(build, "built", refused)
    assert build.library() is None
    assert "'/root/.cache/parlance' (XDG_CACHE_HOME can name a folder to write to)" in caplog.text


def test_compiler_output_is_logged(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(build, "FLAGS", ("-fno-such-flag",))
    assert build.library() is None
    assert "no-such-flag" in caplog.text or "there is no C compiler" in caplog.text
    assert not list((fresh / "parlance").iterdir())


def test_a_library_beside_its_sources_needs_no_compiler(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler --at-all")
    with pytest.raises(FileNotFoundError, match="no-such-compiler"):
        build.built(AVX2)
    of_nothing = replace(AVX2, sources=(), headers=(), folder=fresh)
    (fresh / build.file_name(of_nothing)).touch()
    assert build.built(of_nothing) == fresh / build.file_name(of_nothing)


@pytest.mark.parametrize("content", [b"", b"\x7fELF of another machine"])
def test_a_cached_library_that_cannot_be_loaded_is_compiled_anew(
    fresh: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    if not any(map(shutil.which, build.COMPILERS)):
        pytest.skip("no C compiler is installed")
    (fresh / "seven.c").write_text("int seven(void) { return 7; }\n", encoding="utf-8")
    variant = Variant("seven", frozenset(), (), sources=("seven.c",), headers=(), folder=fresh)
    (fresh / "parlance").mkdir(mode=0o700)
    (fresh / "parlance" / build.file_name(variant)).write_bytes(content)
    found = build.first_loadable([variant], "int8")
    assert found is not None
    assert found.seven() == 7
    assert "seven is compiled anew" in caplog.text
    shipped = fresh / build.file_name(variant)
    shipped.write_bytes(content)
    assert build.first_loadable([variant], "int8") is None, "an image's files are left as they are"
    assert shipped.read_bytes() == content


def test_kernels_of_another_cpu_are_not_loaded(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(build, "cpu_flags", lambda: ALL - {"fma"})
    assert build.library() is None
    assert "need a CPU under Linux with fma" in caplog.text
    assert not list(fresh.iterdir())


def test_another_source_or_flag_is_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.fingerprint(AVX2)
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-O2"))
    assert build.fingerprint(AVX2) != before
    assert len({build.file_name(variant) for variant in EVERY}) == len(EVERY)


def test_where_the_compiler_does_not_know_the_best_the_next_one_is_used(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    loaded = ctypes.CDLL(None)
    monkeypatch.setattr(build.ctypes, "CDLL", lambda path: loaded)

    def compile_to(path: Path, variant: Variant) -> None:
        if variant is not AVX2:
            raise OSError(f"cc: what is {variant.flags[-1]}?")
        path.touch()

    monkeypatch.setattr(build, "compile_to", compile_to)
    assert build.library() is loaded
    assert "native kernels for avx2" in caplog.text
    assert "what is -march=cascadelake?" in caplog.text


def test_a_compiler_that_hangs_is_waited_for_once(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Variant] = []

    def compile_to(_: Path, variant: Variant) -> None:
        calls.append(variant)
        raise subprocess.TimeoutExpired("cc", build.BUILD_LIMIT_S)

    monkeypatch.setattr(build, "compile_to", compile_to)
    assert build.library() is None
    assert calls == [VARIANTS[0]]


@pytest.mark.slow  # ten compilations
def test_the_command_builds_all_variants_beside_the_sources(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = fresh / "csrc"
    shutil.copytree(build.SOURCES, sources, ignore=shutil.ignore_patterns("*.so"))
    every = [replace(each, folder=sources) for each in EVERY if each.architecture in ("", architecture())]
    if not any(map(shutil.which, build.COMPILERS)):
        pytest.skip("no C compiler is installed, and to call one is all that this command does")
    assert build.build_beside_sources(every) == 0, capsys.readouterr().err
    assert {path.name for path in fresh.rglob("*.so")} == {build.file_name(variant) for variant in every}
    monkeypatch.setenv("CC", "no-such-compiler")
    for variant in every:
        assert build.built(variant).parent == variant.folder
        if variant.name in NAMES and variant.needed <= cpu_flags():
            assert ctypes.CDLL(str(build.built(variant))).element_size() in (1, 2)
    assert build.build_beside_sources(every) == 1
    assert capsys.readouterr().err.count("no-such-compiler") == len(every)


@pytest.mark.parametrize(
    ("machine", "names"),
    [
        ("x86_64", {"amx", "avx512_vnni", "avx_vnni", "avx2", *WIDER, *PORTABLE}),
        ("aarch64", {"neon_i8mm", "neon_dot", "neon", *PORTABLE}),
        ("riscv64", PORTABLE),
    ],
)
def test_the_command_builds_what_is_for_the_architecture(
    machine: str, names: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = set[str]()
    monkeypatch.setattr(build, "architecture", lambda: machine)
    monkeypatch.setattr(build, "compile_to", lambda path, variant, patient: compiled.add(variant.name))
    assert build.build_beside_sources(EVERY) == 0
    assert compiled == names


def test_machines_that_share_a_cache_folder_have_their_own_files(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set[str]()
    for machine, system in itertools.product(("x86_64", "aarch64"), ("linux", "darwin")):
        with monkeypatch.context() as patched:
            patched.setattr(cpu.platform, "machine", lambda machine=machine: machine)
            patched.setattr(sys, "platform", system)
            names.add(build.file_name(FP32[-1]))
    assert len(names) == 4


def test_the_choice_is_read_from_the_environment(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "none")
    assert build.library() is None
    assert build.fp32_library() is None
    monkeypatch.setenv(CHOICE, "avx")
    with pytest.raises(
        ValueError, match='PARLANCE_NATIVE is "avx": it should be one of amx, avx512_vnni, avx_vnni, avx2, neon_i8mm'
    ):
        select.decodable(tiny.transformer(), "int8")
