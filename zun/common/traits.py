# SPDX-License-Identifier: Apache-2.0
"""Traits: what a host is or can do, under the names of OpenStack's ``os-traits``.

A name of a cloud's own begins with ``CUSTOM_``, for example ``CUSTOM_RACK_7``; every other name must be one of
``os-traits``, so that a spelling mistake is told and never a trait that no host has.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import os_traits

CUSTOM = os_traits.CUSTOM_NAMESPACE
HYPERTHREADING: str = os_traits.HW_CPU_HYPERTHREADING
#: A host that connects volumes of Cinder.
CINDER = f"{CUSTOM}ZUN_CINDER"
#: A host whose containers join networks of Neutron.
NEUTRON = f"{CUSTOM}ZUN_NEUTRON"
#: A host whose engine never runs the health checks of containers.
NO_HEALTHCHECKS = f"{CUSTOM}ZUN_NO_HEALTHCHECKS"
#: A host that moves device interrupts off the CPUs of containers.
MOVES_INTERRUPTS = f"{CUSTOM}ZUN_MOVES_INTERRUPTS"
#: A host that gives containers cpuset partitions.
CPU_PARTITIONS = f"{CUSTOM}ZUN_CPU_PARTITIONS"
LONGEST = 255
NAME = rf"^[A-Z0-9_]{{1,{LONGEST}}}\Z"
STANDARD: frozenset[str] = frozenset(os_traits.get_traits())

# Flags of /proc/cpuinfo as arch/x86/include/asm/cpufeatures.h of the kernel spells them. Traits of mitigations are left
# out where os-traits has them by vendor: the kernel has one flag for the CPUs of all. Confidential guests are left out
# as well: whether they can be started is no property of the CPU alone.
_X86: Mapping[str, str] = {
    "3dnow": "3DNOW",
    "abm": "ABM",
    "aes": "AESNI",
    "amx_bf16": "AMXBF16",
    "amx_int8": "AMXINT8",
    "amx_tile": "AMXTILE",
    "avx": "AVX",
    "avx2": "AVX2",
    "avx512_bitalg": "AVX512BITALG",
    "avx512_vbmi2": "AVX512VBMI2",
    "avx512_vnni": "AVX512VNNI",
    "avx512_vpopcntdq": "AVX512VPOPCNTDQ",
    "avx512bw": "AVX512BW",
    "avx512cd": "AVX512CD",
    "avx512dq": "AVX512DQ",
    "avx512er": "AVX512ER",
    "avx512f": "AVX512F",
    "avx512ifma": "AVX512IFMA",
    "avx512pf": "AVX512PF",
    "avx512vbmi": "AVX512VBMI",
    "avx512vl": "AVX512VL",
    "bmi1": "BMI",
    "bmi2": "BMI2",
    "f16c": "F16C",
    "fma": "FMA3",
    "fma4": "FMA4",
    "gfni": "AVX512GFNI",
    "mmx": "MMX",
    "mpx": "MPX",
    "pclmulqdq": "CLMUL",
    "pdpe1gb": "PDPE1GB",
    "pni": "SSE3",
    "rtm": "TSX",
    "sgx": "SGX",
    "sha_ni": "SHA",
    "sse": "SSE",
    "sse2": "SSE2",
    "sse4_1": "SSE41",
    "sse4_2": "SSE42",
    "sse4a": "SSE4A",
    "ssse3": "SSSE3",
    "stibp": "STIBP",
    "svm": "SVM AMD_SVM",
    "tbm": "TBM",
    "vaes": "AVX512VAES",
    "vmx": "VMX INTEL_VMX",
    "vpclmulqdq": "AVX512VPCLMULQDQ",
    "xop": "XOP",
}


_ARM_PREFIX, _POWER_PREFIX = "HW_CPU_AARCH64_", "HW_CPU_PPC64LE_"
_ARM_ALWAYS = "asimd"
"""Flag of every 64-bit ARM CPU that Linux serves containers on, and of no x86 CPU."""
_ARM_32 = "half"
"""Flag of every 32-bit ARM CPU, for which os-traits has no names. Such a CPU may have ``aes``, as one of x86."""


def cpu_traits(flags: Iterable[str]) -> frozenset[str]:
    """Return the traits of CPUs with these ``flags`` of /proc/cpuinfo.

    Examples: ``avx2`` of x86 is ``HW_CPU_X86_AVX2``, ``sve`` of ARM is ``HW_CPU_AARCH64_SVE``, and ``power9`` is
    ``HW_CPU_PPC64LE_POWER9``. Some flags of ARM and x86 have one name, as ``aes``. For ARM and POWER os-traits uses the
    kernel's own words in capital letters (Documentation/arch/arm64/elf_hwcaps.rst).
    """
    names = frozenset(flags)
    if _ARM_32 in names:
        return frozenset()
    if _ARM_ALWAYS in names:
        return STANDARD & {f"{_ARM_PREFIX}{flag.upper()}" for flag in names}
    found = frozenset(f"HW_CPU_X86_{name}" for flag in names for name in _X86.get(flag, "").split())
    return found | STANDARD & {f"{_POWER_PREFIX}{flag.upper()}" for flag in names}


CPU_TRAITS = cpu_traits(_X86) | {name for name in STANDARD if name.startswith((_ARM_PREFIX, _POWER_PREFIX))}
"""All traits that the flags of a CPU can give a host."""


def of_profile(name: str) -> str:
    """Return the trait of a host that has the power profile ``name``: ``low-latency`` gives ``..._LOW_LATENCY``."""
    return f"{CUSTOM}ZUN_POWER_PROFILE_{name.upper().replace('-', '_')}"


def problem(name: str) -> str | None:
    """Return why ``name`` can be the trait of no host, or None."""
    if not re.match(NAME, name):
        return (
            f"{name[:64]!r} is not the name of a trait: up to {LONGEST} capital letters, digits and '_', for example "
            "HW_CPU_X86_AVX2"
        )
    if name in STANDARD or (name.startswith(CUSTOM) and name != CUSTOM):
        return None
    return f"{name} is not a trait of os-traits; the name of one of your own begins with {CUSTOM}"


def of_node(row: Mapping[str, Any]) -> frozenset[str]:
    """Return all traits of a compute node's row: what its agent found, and what administrators added."""
    return frozenset(row["traits"] or ()) | frozenset(row["added_traits"] or ())
