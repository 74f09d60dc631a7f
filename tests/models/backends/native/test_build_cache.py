"""Kernels in the user's cache folder, and the permissions that make them trusted."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from models.backends.native import build
from models.backends.native.build import FP32

NOTHING = replace(FP32[-1], sources=("../../../training/kernels/norm.c",), headers=())


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
