"""The architecture of this machine, and which of its optional instructions the CPU has and the system allows."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_ulong
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
X86_64, AARCH64 = "x86_64", "aarch64"
NAMES = {"AMD64": X86_64, "arm64": AARCH64, "ARM64": AARCH64}  # as other systems have them

# names as in /proc/cpuinfo, which a sandbox may not have; bits as in Linux' asm/hwcap.h
AT_HWCAP, AT_HWCAP2 = 16, 26
HWCAP = {"asimd": 1, "atomics": 8, "asimddp": 20}
HWCAP2 = {"i8mm": 13}
SYSCTL = {  # as in Apple's "Determining Instruction Set Characteristics", since macOS 12
    "atomics": "hw.optional.arm.FEAT_LSE",
    "asimddp": "hw.optional.arm.FEAT_DotProd",
    "i8mm": "hw.optional.arm.FEAT_I8MM",
}


def architecture() -> str:
    """As Linux names it: "x86_64", "aarch64"."""
    machine = platform.machine()
    return NAMES.get(machine, machine)


def cpu_flags() -> set[str]:
    """The CPU flags that the system enables, named as in Linux' /proc/cpuinfo; of ARM, those that kernels need. Empty
    where they cannot be known."""
    if architecture() == AARCH64 and sys.platform == "darwin":
        return apple_flags(sysctl)
    if architecture() == AARCH64 and sys.platform == "linux":
        read = ctypes.CDLL(None).getauxval
        read.argtypes, read.restype = (c_ulong,), c_ulong
        return linux_arm_flags(read(AT_HWCAP), read(AT_HWCAP2))
    return x86_flags()


def x86_flags(path: Path = CPUINFO) -> set[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    return set(next((line.split(":")[1] for line in text.splitlines() if line.startswith("flags")), "").split())


def linux_arm_flags(hwcap: int, hwcap2: int) -> set[str]:
    """hwcap, hwcap2: words of the auxiliary vector."""
    return {name for word, bits in ((hwcap, HWCAP), (hwcap2, HWCAP2)) for name, bit in bits.items() if word >> bit & 1}


def apple_flags(read: Callable[[str], int]) -> set[str]:
    """read: the value of a name in `SYSCTL`, 0 for one that the system does not know. All ARM CPUs of 64 bits have
    asimd."""
    return {"asimd", *(flag for flag, name in SYSCTL.items() if read(name))}


def sysctl(name: str) -> int:
    value = c_int()
    status = ctypes.CDLL(None).sysctlbyname(name.encode(), byref(value), byref(c_size_t(4)), None, c_size_t(0))
    return 0 if status else value.value
