# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common import traits

EPYC = "fpu mmx sse sse2 pni ssse3 fma sse4_1 sse4_2 aes avx f16c svm abm sse4a avx2 bmi1 bmi2 sha_ni pdpe1gb ibpb"
EPYC_TRAITS = (
    "MMX SSE SSE2 SSE3 SSSE3 FMA3 SSE41 SSE42 AESNI AVX F16C SVM AMD_SVM ABM SSE4A AVX2 BMI BMI2 SHA PDPE1GB"
)


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ("", ""),
        ("fpu tsc AVX2 avx5", ""),
        ("avx2", "AVX2"),
        ("bmi1 fma pni", "BMI FMA3 SSE3"),
        ("vmx", "VMX INTEL_VMX"),
        (EPYC, EPYC_TRAITS),
    ],
)
def test_cpu_traits(flags, names):
    assert traits.cpu_traits(flags.split()) == {f"HW_CPU_X86_{name}" for name in names.split()}


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ("fp asimd evtstrm aes sve atomics", "FP ASIMD EVTSTRM AES SVE ATOMICS"),
        ("half thumb fastmult vfp edsp neon vfpv4 idiva lpae evtstrm aes pmull sha1 crc32", ""),  # 32 bits
        ("asimd cpuid sm3 sm4 sha512 fma", "ASIMD CPUID SM3 SM4 SHA512"),
    ],
)
def test_cpu_traits_of_arm(flags, names):
    assert traits.cpu_traits(flags.split()) == {f"HW_CPU_AARCH64_{name}" for name in names.split()}


@pytest.mark.parametrize(("flag", "found"), [("power9", {"HW_CPU_PPC64LE_POWER9"}), ("power10", set())])
def test_cpu_traits_of_power(flag, found):
    assert traits.cpu_traits([flag]) == found


def test_every_trait_of_a_cpu_is_one_of_os_traits():
    assert traits.cpu_traits(traits._X86) <= traits.STANDARD
    assert len(traits.cpu_traits(traits._X86)) == len(traits._X86) + 2  # the two kinds of virtualization have two each


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("HW_CPU_X86_AVX2", None),
        ("CUSTOM_RACK_7", None),
        ("CUSTOM_" + "A" * 248, None),
        ("CUSTOM_" + "A" * 249, "is not the name of a trait"),
        ("CUSTOM_", "begins with CUSTOM_"),
        ("HW_CPU_X86_AVX3", "HW_CPU_X86_AVX3 is not a trait of os-traits"),
        ("", "is not the name of a trait"),
        ("CUSTOM_a", "'CUSTOM_a' is not the name of a trait"),
        ("HW_CPU_X86_AVX2\n", "is not the name of a trait"),
        ("CUSTOM_É", "is not the name of a trait"),
    ],
)
def test_problem(name, text):
    found = traits.problem(name)
    assert found is None if text is None else text in found


@pytest.mark.parametrize(
    ("own", "added", "all_of_them"),
    [(None, None, ""), (["A"], None, "A"), (None, ["B"], "B"), (["A", "B"], ["B", "C"], "ABC")],
)
def test_traits_of_a_node_are_found_and_added_ones(own, added, all_of_them):
    assert traits.of_node({"traits": own, "added_traits": added}) == set(all_of_them)
