"""Kernels in the user's cache folder, and the permissions that make them trusted."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from models.backends.cuda import build as cuda_build
from models.backends.cuda.build import Cubin, Specification
from models.backends.native import build
from models.backends.native.build import FP32
from training.kernels.torch_compile import missing_for_compile

NOTHING = replace(FP32[-1], sources=("training_norm.c",), headers=())


LINKER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
: > "$2"
chmod +x "$2"
"""


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The path of a kernel library, built under the umask that Debian and Fedora give their users. The library is
    empty: only its permissions matter, and a linker leaves them to the umask, as this one does."""
    compiler = tmp_path / "cc"
    compiler.write_text(LINKER, encoding="utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = os.umask(0o002)
    try:
        yield build.folder() / build.file_name(NOTHING)
    finally:
        os.umask(before)


def test_kernels_build_under_a_group_writable_umask(kept: Path) -> None:
    assert build.built(NOTHING) == kept
    assert not kept.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def test_a_file_that_others_may_write_to_is_not_loaded(kept: Path) -> None:
    build.built(NOTHING)
    kept.chmod(0o775)
    with pytest.raises(PermissionError, match="is not this user's alone to write to"):
        build.built(NOTHING)


NOBODY = 65534
KERNEL = Specification("embed", ("*bf16", "i32"), (True, False), (("BLOCK", 512),), 4, 3, 90)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can leave files in the name of another user")
PLANTED = """
#include <fcntl.h>
__attribute__((constructor)) static void planted(void) { creat("%s", 0644); }
"""


@pytest.fixture
def planted(kept: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A library that leaves a mark once it is loaded, and the mark."""
    compiler, mark = shutil.which("cc") or shutil.which("gcc"), tmp_path / "mark"
    assert compiler is not None
    (tmp_path / "planted.c").write_text(PLANTED % mark, encoding="utf-8")
    library = tmp_path / "planted.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "planted.c"], check=True)
    library.chmod(0o755)
    return library, mark


def test_library_of_this_user_is_loaded(kept: Path, planted: tuple[Path, Path]) -> None:
    """So that the tests below can fail."""
    kept.parent.mkdir(mode=0o700)
    shutil.copy(planted[0], kept)
    assert build.first_loadable([NOTHING], "fp32") is not None
    assert planted[1].exists()


@needs_root
@pytest.mark.parametrize("way", ["file", "link", "folder", "link to a folder", "folder above", "writable folder above"])
def test_library_that_another_user_has_planted_is_not_loaded(
    kept: Path, planted: tuple[Path, Path], tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is no secret: it follows from the sources. Each way leads to a library that somebody else chose, or can
    choose at any moment after the check."""
    library, mark = planted
    other = tmp_path / "other"
    other.mkdir(mode=0o755)
    if way in ("file", "link"):
        kept.parent.mkdir(mode=0o700)
        if way == "file":
            shutil.copy(library, kept)
            os.chown(kept, NOBODY, NOBODY)
        else:
            kept.symlink_to(library)
    elif way in ("folder", "link to a folder"):
        shutil.copy(library, other / kept.name)
        os.chown(other, NOBODY, NOBODY)
        if way == "folder":
            other.rename(kept.parent)
        else:
            kept.parent.symlink_to(other)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", str(other))
        (other / "parlance").mkdir(mode=0o700)
        shutil.copy(library, other / "parlance" / kept.name)
        if way == "folder above":
            os.chown(other, NOBODY, NOBODY)
        else:
            other.chmod(0o777)
    assert build.first_loadable([NOTHING], "fp32") is None
    assert not mark.exists()


@needs_root
def test_folder_in_a_shared_one_with_the_sticky_bit_is_used(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /tmp is: there nobody renames what is another's. A link of one's own leads to a cache on another disk."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
    assert build.built(NOTHING) == shared / "parlance" / kept.name
    link = tmp_path / "link"
    link.symlink_to(shared)
    monkeypatch.setenv("XDG_CACHE_HOME", str(link))
    assert build.built(NOTHING) == shared / "parlance" / kept.name


def test_the_log_says_why_a_folder_is_not_used_and_names_a_way_out(
    kept: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept.parent.mkdir()
    kept.parent.chmod(0o777)
    assert build.first_loadable([NOTHING], "fp32") is None
    assert f"{kept.parent} is not this user's alone to write to (XDG_CACHE_HOME can name a folder" in caplog.text


@needs_root
@pytest.mark.parametrize("way", ["file", "link", "folder"])
def test_gpu_kernels_that_another_user_has_planted_are_not_read(
    kept: Path, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, theirs = (Cubin(code, "embed", 12, 64, (8, 4)) for code in (b"\x7fELF own", b"\x7fELF theirs"))
    monkeypatch.setattr(cuda_build, "compiled", lambda specification: own)
    folder = kept.parent / "cuda"
    folder.mkdir(mode=0o700, parents=True)
    kept.parent.chmod(0o700)
    cuda_build.write(folder, KERNEL, theirs)
    assert cuda_build.cubin(KERNEL) == theirs, "this user's own is read"
    (code,) = folder.glob("*.cubin")
    if way == "file":
        os.chown(code, NOBODY, NOBODY)
    elif way == "link":
        code.rename(tmp_path / "theirs")
        code.symlink_to(tmp_path / "theirs")
    else:
        os.chown(folder, NOBODY, NOBODY)
    assert cuda_build.cubin(KERNEL) == own


@needs_root
@pytest.mark.parametrize("variable", ["TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"])
def test_torch_compile_is_not_used_with_a_cache_of_another_user(
    tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loads libraries from there under names that follow from the code; its default is a folder of /tmp."""
    for name in ("CC", "CXX"):
        monkeypatch.setenv(name, "sh")
    monkeypatch.setattr("training.kernels.torch_compile.find_spec", lambda name: name)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    (tmp_path / "Python.h").touch()
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    assert missing_for_compile("cuda") == ""
    assert not (tmp_path / variable).stat().st_mode & 0o022
    os.chown(tmp_path / variable, NOBODY, NOBODY)
    cache = f"its cache {tmp_path / variable} is not this user's alone to write to"
    assert missing_for_compile("cuda") == f"{cache}: name another folder in {variable}"
    os.chown(tmp_path / variable, 0, 0)
    (tmp_path / variable).chmod(0o777)
    assert missing_for_compile("cuda") == f"{cache}: name another folder in {variable}"
