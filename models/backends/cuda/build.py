"""Compiled kernels: cubins beside the sources, or in the user's cache folder, compiled at first use by Triton, which
needs neither a C compiler nor a GPU for that. PyTorch's CUDA wheels bring Triton along.

`python -m models.backends.cuda.build` compiles the kernels of common networks beside the sources instead, for an image
with a read-only file system: `--arch 80 90 120`, `--dtype bf16 fp16`."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from models.backends.cuda.launch import Launch
from models.backends.native.build import folder, own_folder, require_own

HERE = Path(__file__).parent
SHIPPED = HERE / "cubins"
SOURCES = ("triton_kernels", "choice_kernels")
SIZES = {"u64": 8, "b64": 8, "s64": 8, "f64": 8, "u32": 4, "b32": 4, "s32": 4, "f32": 4}  # of PTX parameters, in bytes
PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z]+\d+)\b")
SAME_MACHINE_CODE = {86: 80, 87: 80, 89: 80}  # devices of compute capability 8.x run code for 8.0


class UnavailableError(RuntimeError):
    """A kernel cannot be had here."""


@dataclass(frozen=True, slots=True)
class Specification:
    """What a cubin is compiled for. arch: the compute capability, 90 for 9.0; the rest as in `Launch`."""

    kernel: str
    types: tuple[str, ...]
    aligned: tuple[bool, ...]
    constants: tuple[tuple[str, int], ...]
    warps: int
    stages: int
    arch: int

    @classmethod
    def of(cls, launch: Launch, arch: int) -> Specification:
        types, aligned = launch.types, launch.aligned
        return cls(launch.kernel, types, aligned, launch.constants, launch.warps, launch.stages, arch)

    @property
    def stem(self) -> str:
        """The name of its files, another one for every version of the kernels."""
        text = f"{self} {source_version()}"
        return f"{self.kernel}-sm{self.arch}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


@dataclass(frozen=True, slots=True)
class Cubin:
    """A compiled kernel. shared: bytes of dynamic shared memory; parameters: the size of each parameter in bytes,
    Triton's hidden ones at the end included."""

    data: bytes
    name: str
    shared: int
    threads: int
    parameters: tuple[int, ...]


@cache
def source_version() -> str:
    return hashlib.sha256(b"".join((HERE / f"{name}.py").read_bytes() for name in SOURCES)).hexdigest()


def cubin(specification: Specification) -> Cubin:
    """The compiled kernel: shipped, cached, or compiled now. UnavailableError if it cannot be had."""
    for arch in (specification.arch, SAME_MACHINE_CODE.get(specification.arch)):
        if arch is not None and (found := read(SHIPPED, for_arch(specification, arch))) is not None:
            return found
    try:
        kept = own_folder(folder() / "cuda")
        found = read(kept, specification)
        if found is None:
            found = compiled(specification)
            write(kept, specification, found)
    except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
        if isinstance(error, UnavailableError):
            raise
        return compiled(specification)  # the file system is read-only
    return found


def for_arch(specification: Specification, arch: int) -> Specification:
    fields = {name: getattr(specification, name) for name in Specification.__slots__}
    return Specification(**{**fields, "arch": arch})


def read(directory: Path, specification: Specification) -> Cubin | None:
    """A kernel of the directory, or None. Whoever can write there could run code in this process."""
    described, code = (directory / f"{specification.stem}.{ending}" for ending in ("json", "cubin"))
    if not described.exists():
        return None
    if directory != SHIPPED:
        require_own(code)
        require_own(described)
    fields = json.loads(described.read_bytes())
    return Cubin(code.read_bytes(), **{**fields, "parameters": tuple(fields["parameters"])})


def write(directory: Path, specification: Specification, made: Cubin) -> None:
    """Writes the description last, and each file aside first, so that concurrent processes never read half of one."""
    fields = asdict(made)
    contents = {"cubin": fields.pop("data"), "json": json.dumps(fields).encode()}
    for ending, content in contents.items():
        path = directory / f"{specification.stem}.{ending}"
        aside = path.with_suffix(f".{ending}.{id(made):x}")
        aside.write_bytes(content)
        aside.chmod(0o644)
        aside.replace(path)


def compiled(specification: Specification) -> Cubin:
    """Compiles with Triton, without a GPU. UnavailableError without Triton or for a kernel that it cannot compile."""
    try:
        import triton
        from triton.backends.compiler import GPUTarget

        from models.backends.cuda import choice_kernels, triton_kernels
    except ImportError as error:
        raise UnavailableError(f"neither compiled kernels nor Triton are installed ({error})") from error
    module = choice_kernels if hasattr(choice_kernels, specification.kernel) else triton_kernels
    function = getattr(module, specification.kernel)
    constants, names = dict(specification.constants), function.arg_names
    given = [name for name in names if name not in constants]
    assert len(given) == len(specification.types), f"{specification.kernel} takes {given}"
    signature = dict.fromkeys(constants, "constexpr") | dict(zip(given, specification.types, strict=True))
    aligned = dict(zip(given, specification.aligned, strict=True))
    source = triton.compiler.ASTSource(
        fn=function,
        signature={name: signature[name] for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in given if aligned[name]},
    )
    options = {"num_warps": specification.warps, "num_stages": specification.stages}
    try:
        # Triton's own cache is neither needed nor checked for its owner; line tables are most of a cubin
        with tempfile.TemporaryDirectory() as aside, triton.knobs.cache.scope(), triton.knobs.compilation.scope():
            triton.knobs.cache.dir, triton.knobs.compilation.disable_line_info = aside, True
            made = triton.compile(source, target=GPUTarget("cuda", specification.arch, 32), options=options)
    except Exception as error:  # of many kinds: Triton's own, ptxas's, MLIR's
        raise UnavailableError(f"Triton cannot compile {specification.kernel}: {type(error).__name__}") from error
    metadata = made.metadata
    if metadata.global_scratch_size or metadata.profile_scratch_size or metadata.launch_cooperative_grid:
        needs = "scratch memory or a cooperative launch"
        raise UnavailableError(f"Triton {triton.__version__} compiles {specification.kernel} to need {needs}")
    assert metadata.num_ctas == 1
    parameters = parameter_sizes(made.asm["ptx"], metadata.name)
    return Cubin(made.asm["cubin"], metadata.name, metadata.shared, 32 * metadata.num_warps, parameters)


def parameter_sizes(ptx: str, name: str) -> tuple[int, ...]:
    """The sizes in bytes of an entry's parameters."""
    start = re.search(rf"\.entry\s+{re.escape(name)}\s*\(", ptx)
    assert start is not None
    return tuple(SIZES[kind] for kind in PARAMETER.findall(ptx[start.end() : ptx.index(")", start.end())]))


def build_beside_sources(specifications: Iterable[Specification]) -> int:
    """Compiles all; returns how many."""
    SHIPPED.mkdir(exist_ok=True)
    count = 0
    for specification in dict.fromkeys(specifications):
        if read(SHIPPED, specification) is None:
            write(SHIPPED, specification, compiled(specification))
        count += 1
    return count


def main(arguments: list[str] | None = None) -> int:
    from models.backends.cuda.transformer_step import common_launches

    parser = argparse.ArgumentParser(prog="python -m models.backends.cuda.build", description=__doc__)
    parser.add_argument("--arch", type=int, nargs="+", default=[80, 90, 120], help="compute capabilities, 90 for 9.0")
    parser.add_argument("--dtype", nargs="+", default=["bf16"], choices=["bf16", "fp16", "fp32"])
    options = parser.parse_args(arguments)
    launches = list(common_launches(options.dtype))
    try:
        count = build_beside_sources(Specification.of(each, arch) for arch in options.arch for each in launches)
    except UnavailableError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stderr.write(f"{count} kernels are in {SHIPPED}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
