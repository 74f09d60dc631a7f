"""What the CUDA image must do on a machine without a GPU: every module imports with a torch that is built for CUDA,
without a compiler, a home folder or a write, and without starting CUDA, which a process does once it knows its device.
PyTorch's CUDA wheels are not installed here; its CPU build claims the CUDA version instead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORT_EVERYTHING = """
import importlib, pathlib, sys
import torch
torch.version.cuda = "13.0"
def started():
    raise AssertionError("CUDA was started by an import")
torch.cuda._lazy_init = started
for package in ("models", "app", "training"):
    for path in sorted(pathlib.Path(sys.argv[1], package).rglob("*.py")):
        name = ".".join(path.relative_to(sys.argv[1]).with_suffix("").parts).removesuffix(".__init__")
        if not name.endswith("__main__"):
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                missing = str(error.name).partition(".")[0]
                if missing not in ("opentelemetry", "triton"):  # an extra; a part of torch's CUDA wheels
                    raise
"""


@pytest.mark.slow
def test_every_module_imports_with_a_torch_built_for_cuda(tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("home", "tmp", "work")}
    for place in places.values():
        place.mkdir()
    environment = {"PATH": "/nowhere", "HOME": str(places["home"]), "TMPDIR": str(places["tmp"])}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "MPLCONFIGDIR": os.devnull + "/none"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING, str(ROOT)],
        cwd=places["work"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = [path for place in places.values() for path in place.rglob("*") if path.is_file()]
    assert written == []
