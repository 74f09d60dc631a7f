"""docs/licences.md lists every package that a serving image contains, with its licence.

python -m tests.test_licences    writes it anew from the installed packages"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/licences.md"
INTRODUCTION = """\
# Dependencies and their licences

The packages that `pip install parlance` and the container image bring along on Linux with Python 3.11: the dependencies
and the extra `otel` of `pyproject.toml`, and what these need. `python -m tests.test_licences` writes this page from the
metadata of the installed packages, and a test compares the two. The licence texts are in the image beside each package.

PyTorch's wheels for CUDA add NVIDIA's libraries (`nvidia-*`, under NVIDIA's own terms) and Triton (MIT). Python itself
has the PSF licence; the image's other programs are Debian's.

| package | version | licence |
|---|---|---|
"""
FREE = {
    *(
        "0BSD",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSD",
        "BSL-1.0",
        "CC0-1.0",
    ),
    *("CNRI-Python", "MIT", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Zlib"),
}  # all of them allow distribution in an image; MPL-2.0 asks for the sources of its own files alone
SPELLINGS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "BSD License": "BSD",
    "Apache Software License": "Apache-2.0",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


def packages() -> dict[str, Distribution]:
    """Canonical name -> distribution, of all that the image installs; what CUDA's torch adds is left out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    queue = [Requirement(text) for text in (*project["dependencies"], *project["optional-dependencies"]["otel"])]
    done: dict[tuple[str, frozenset[str]], Distribution] = {}
    while queue:
        requirement = queue.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in done or re.match(r"nvidia-|cuda-|triton$", name):
            continue
        done[name, extras] = found = distribution(name)
        needed = map(Requirement, found.requires or ())
        queue += [each for each in needed if each.marker is None
                  or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))]  # fmt: skip
    return {name: found for (name, _), found in sorted(done.items(), key=lambda entry: entry[0][0])}


def licence(package: Distribution) -> str:
    """An SPDX expression where the package has one, or else what its field `License` or its classifiers name."""
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        return expression
    field = metadata.get("License") or ""
    names = [line.split(" :: ")[-1] for line in metadata.get_all("Classifier") or () if line.startswith("License ::")]
    if 0 < len(field) < 40 and "\n" not in field and "=" not in field:
        names = [field, *names]
    spdx = list(dict.fromkeys(SPELLINGS.get(name, name) for name in names))
    precise = [name for name in spdx if name != "BSD" or len(spdx) == 1]
    return " OR ".join(dict.fromkeys(precise)) or "unknown"


def page() -> str:
    rows = [
        f"| {name} | {found.version.partition('+')[0]} | {licence(found)} |\n" for name, found in packages().items()
    ]
    return INTRODUCTION + "".join(rows)


def test_page_lists_what_is_installed() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.test_licences writes docs/licences.md anew"


def test_every_version_is_pinned() -> None:
    pins = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]:
        name, _, version = line.partition("==")
        pins[canonicalize_name(name)] = version
    for name, found in packages().items():
        assert pins.get(name) == found.version.partition("+")[0], name


def test_every_licence_is_free_and_known() -> None:
    for name, found in packages().items():
        parts = re.split(r" (?:AND|OR) ", licence(found).replace("(", "").replace(")", ""))
        assert set(parts) <= FREE, f"{name} is under {licence(found)}"
    assert not set(re.split(" AND ", "MIT AND GPL-3.0-only")) <= FREE


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
