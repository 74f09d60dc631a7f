"""The tests of the native kernels, with those for ARM under QEMU. A CPU model without an instruction stops at it, so a
variant that used more than it says would end the emulator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from models.backends.native.cpu import X86_64, architecture
from tests import arm

pytestmark = pytest.mark.cross

NATIVE = "tests/models/backends/native/"
INT8 = [f"{NATIVE}test_{name}.py" for name in ("kernels", "int8_transformer", "logit_kernels", "copying")]
SHORTLIST = f"{NATIVE}test_shortlist.py"
FP32 = [f"{NATIVE}test_{name}.py" for name in ("fp32_recurrent", "gru_scan", "draws")]
TRAINING = [
    f"tests/training/kernels/test_packed_transformer.py::test_{name}"
    for name in ("losses_and_gradients_equal_the_formula", "threads_do_not_change_a_bit")
]
# what takes long under emulation and differs from the rest in size alone
SHORT = ["-k", "not 256-1321 and not 2-100 and not 3-100 and not under_mixed_load and not changes3"]


@pytest.fixture(autouse=True)
def _programs() -> None:
    if architecture() != X86_64:
        pytest.skip("the kernels for ARM are compared with those for x86-64, and this is another CPU")
    if missing := arm.missing():
        pytest.skip(f"{', '.join(missing)} not installed: apt-get install {arm.PACKAGES}")


def outcomes(cpu_model: str, tests: list[str], folder: Path, compiler: str = arm.COMPILER) -> dict[str, set[str]]:
    """Names of tests by outcome, with the kernels for a CPU. None may fail."""
    done = arm.run(cpu_model, ["-vv", *SHORT, *tests], folder, compiler)
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
    results = dict[str, set[str]]()
    for name, outcome in re.findall(r"::(\S+) (PASSED|SKIPPED)", done.stdout):
        results.setdefault(outcome, set()).add(name)
    return results


@pytest.mark.parametrize(
    ("cpu_model", "variant", "tests"),
    [
        ("cortex-a53", "neon", INT8),
        ("cortex-a76", "neon_dot", INT8),
        ("max", "neon_i8mm", [*INT8, SHORTLIST]),
    ],
)
def test_int8_kernels(cpu_model: str, variant: str, tests: list[str], tmp_path: Path) -> None:
    results = outcomes(cpu_model, tests, tmp_path)
    passed = results["PASSED"]
    assert {found for name in passed for found in re.findall(r"\[(neon\w*)", name)} == {variant}
    for kernel in ("product_is_bit_identical_in_all_variants", "attention", "layer_norm", "activations"):
        assert any(name.startswith(f"test_{kernel}[{variant}") for name in passed), kernel
    assert "SKIPPED" not in results


def test_fp32_kernels(tmp_path: Path) -> None:
    results = outcomes("cortex-a53", FP32, tmp_path)
    for kernel in ("results_equal_pytorch", "states_and_gradients_equal_pytorch", "a_draw_is_where"):
        assert any(name.startswith(f"test_{kernel}") and "[fp32-" in name for name in results["PASSED"]), kernel


def test_training_kernels(tmp_path: Path) -> None:
    results = outcomes("cortex-a53", TRAINING, tmp_path)
    assert any(name.startswith("test_losses_and_gradients_equal_the_formula[training-") for name in results["PASSED"])


def test_kernels_that_clang_compiles(tmp_path: Path) -> None:
    """macOS has no other compiler."""
    tests = [f"{INT8[0]}::test_{name}" for name in ("sums_are_exact_where_16_bits_would_saturate", "attention")]
    results = outcomes("cortex-a76", [*tests, FP32[1]], tmp_path, arm.CLANG)
    assert any("[neon_dot-" in name for name in results["PASSED"])
    assert any("[fp32-" in name for name in results["PASSED"])
    assert {path.name.split("-")[1] for path in (tmp_path / "parlance").iterdir()} >= {"neon_dot", "fp32"}
