"""What `torch.compile` needs of a machine: looked for before a run, since a GPU's host often lacks it.

On a GPU its kernels are Triton's, which compiles a C module against Python's headers before the first launch; on a CPU
they are C++. Both load shared libraries from their cache folders. A container of ours has no compiler, a read-only
file system and a /tmp from which nothing can be executed."""

from __future__ import annotations

import os
import shlex
import shutil
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path

from models.backends.native.build import own_folder

CUDA_COMPILERS, CPU_COMPILERS = ("gcc", "clang"), ("g++",)  # where CC or CXX names none; in Triton's order


def missing_for_compile(device_type: str) -> str:
    """A clause about the first thing that torch.compile lacks on this machine; "" if nothing is missing."""
    variable, names = ("CC", CUDA_COMPILERS) if device_type == "cuda" else ("CXX", CPU_COMPILERS)
    if device_type == "cuda" and find_spec("triton") is None:
        return "this PyTorch comes without Triton"
    named = shlex.split(os.environ.get(variable, ""))
    if not any(map(shutil.which, named[:1] or names)):
        wanted = named[0] if named else " or ".join(names)
        return f"there is no compiler {wanted} (environment variable {variable})"
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        return f"Python's headers are not installed ({headers / 'Python.h'}, of Debian's package python3-dev)"
    return next(filter(None, map(_unusable, _cache_folders(device_type).items())), "")


def _cache_folders(device_type: str) -> dict[str, Path]:
    """The environment variable that names each folder -> the folder."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    inductor = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or default_cache_dir())
    folders = {"TORCHINDUCTOR_CACHE_DIR": inductor}
    if device_type == "cuda" and "TRITON_CACHE_DIR" in os.environ:  # else a folder in inductor's
        folders["TRITON_CACHE_DIR"] = Path(os.environ["TRITON_CACHE_DIR"])
    return folders


def _unusable(folder: tuple[str, Path]) -> str:
    """Why libraries cannot be kept in a cache folder and loaded from it; "" if they can. PyTorch's own default,
    /tmp/torchinductor_USER, can be made by any other user first."""
    variable, path = folder
    try:
        own_folder(path)
        with tempfile.TemporaryFile(dir=path):
            pass
        mount = os.statvfs(path)
    except PermissionError as error:
        if error.errno is None:  # of `own_folder`
            return f"its cache {error}: name another folder in {variable}"
        return f"its cache {path} cannot be written ({error.strerror}): name another folder in {variable}"
    except OSError as error:
        return f"its cache {path} cannot be written ({error.strerror or error}): name another folder in {variable}"
    if mount.f_flag & os.ST_NOEXEC:
        return f"its cache {path} is on a file system mounted noexec: name another folder in {variable}"
    return ""


def failure(error: Exception) -> str:
    """A clause about a compilation or a compiled function that failed."""
    first = str(error).strip().partition("\n")[0][:200].rstrip(".")
    return f"it failed ({type(error).__name__}{': ' if first else ''}{first})"
