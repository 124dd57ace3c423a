# SPDX-License-Identifier: Apache-2.0
"""Read NVML's answers as the program does. ``Nvml`` has the functions of ``nvidia-ml-py`` that the program calls."""

import itertools
from types import SimpleNamespace

import pytest

from zun.topology.nvml import facts, links, mig_instances

GPU, CPU, SWITCH, UNKNOWN = 0, 1, 2, 255
EIGHT = [f"0000:{bus}:00.0" for bus in ("1a", "1c", "3d", "3f", "9a", "9c", "bc", "be")]
HIDDEN = "FFFFFFFF:FFFF:FF"


class Nvml:
    """NVML of a machine. ``wires`` has for each address its links: (kind, address of the other end, in use)."""

    class NVMLError(Exception):
        pass

    def __init__(self, wires, lost=()):
        self.wires, self.lost = wires, lost
        self.open = 0

    def nvmlInit(self):
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlDeviceGetCount(self):
        return len(self.wires)

    def nvmlDeviceGetHandleByIndex(self, number):
        if [*self.wires][number] in self.lost:
            raise self.NVMLError("GPU is lost")
        return [*self.wires][number]

    def nvmlDeviceGetPciInfo(self, handle):
        return SimpleNamespace(busId=shown(handle))

    def _link(self, handle, link):
        if link >= len(self.wires[handle]):
            raise self.NVMLError("Invalid Argument")
        return self.wires[handle][link]

    def nvmlDeviceGetNvLinkState(self, handle, link):
        return self._link(handle, link)[2]

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle, link):
        kind = self._link(handle, link)[0]
        if kind is None:
            raise self.NVMLError("Function Not Found")
        return kind

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle, link):
        address = self._link(handle, link)[1]
        if address is None:
            raise self.NVMLError("Unknown Error")
        return SimpleNamespace(busId=shown(address))


def shown(address):
    """Return an address in NVML's form."""
    return address if address == HIDDEN else f"{address.rpartition(':')[0].rjust(11, '0')}:{address[-4:]}".upper()


def direct(*pairs):
    """Return the wires of GPUs, by numbers, that NVLink joins pair by pair, with two links for each pair."""
    wires = {address: [] for address in EIGHT}
    for one, other in pairs:
        wires[EIGHT[one]] += 2 * [(GPU, EIGHT[other], 1)]
        wires[EIGHT[other]] += 2 * [(GPU, EIGHT[one], 1)]
    return wires


def numbers(found):
    return {EIGHT.index(address): {EIGHT.index(each) for each in others} for address, others in found.items()}


def test_gpus_at_switches_are_linked_all_to_all():
    wires = {address: [(SWITCH, f"0000:{bus:02x}:00.0", 1) for bus in range(4)] for address in EIGHT}
    nvml = Nvml(wires)
    assert numbers(links(nvml)) == {one: {*range(8)} - {one} for one in range(8)}
    assert nvml.open == 0


CUBE = [*itertools.combinations(range(4), 2), *itertools.combinations(range(4, 8), 2), (0, 4), (1, 5), (2, 6), (3, 7)]


def test_hybrid_cube_mesh_has_direct_links_only():
    """A machine of eight GPUs in two groups of four, each with one partner in the other group."""
    expected = {one: {other for pair in CUBE if one in pair for other in pair} - {one} for one in range(8)}
    assert numbers(links(Nvml(direct(*CUBE)))) == expected
    assert expected[0] == {1, 2, 3, 4}


A, B, C = EIGHT[:3]


@pytest.mark.parametrize(("wires", "expected"), [
    pytest.param({A: [], B: []}, {}, id="pcie-only"),
    pytest.param({A: [(GPU, B, 1)], B: [(GPU, A, 1)]}, {A: {B}, B: {A}}, id="a-bridge-between-two"),
    pytest.param({A: [(GPU, B, 1)], B: [(GPU, None, 1)]}, {A: {B}, B: {A}}, id="one-end-tells"),
    pytest.param({A: [(GPU, B, 0)], B: [(GPU, A, 0)]}, {}, id="links-that-are-down"),
    pytest.param({A: [(GPU, B, 0), (GPU, B, 1)], B: []}, {A: {B}, B: {A}}, id="the-first-link-is-down"),
    pytest.param({A: [(GPU, C, 1)], B: []}, {}, id="to-a-gpu-of-another-machine"),
    pytest.param({A: [(GPU, A, 1)]}, {}, id="to-itself"),
    pytest.param({A: [(SWITCH, None, 1)], B: [(SWITCH, HIDDEN, 1)], C: []}, {A: {B}, B: {A}}, id="one-has-no-switch"),
    pytest.param({A: [(SWITCH, None, 1)], B: []}, {A: set()}, id="alone-at-its-switch"),
    pytest.param({A: [(CPU, "0006:00:00.0", 1)], B: [(CPU, "0006:00:00.0", 1)]}, {}, id="to-the-cpu-of-a-power9"),
    pytest.param({A: [(UNKNOWN, HIDDEN, 1)], B: [(UNKNOWN, HIDDEN, 1)]}, {A: {B}, B: {A}}, id="hidden-switches"),
    pytest.param({A: [(UNKNOWN, B, 1)], B: []}, {A: {B}, B: {A}}, id="unknown-kind-and-a-gpu"),
    pytest.param({A: [(None, B, 1)], B: []}, {A: {B}, B: {A}}, id="a-driver-that-tells-no-kind"),
    pytest.param({A: [(None, "0006:00:00.0", 1)], B: []}, {}, id="no-kind-and-no-gpu"),
    pytest.param({A: [(GPU, "00:0:zz", 1)], B: []}, {}, id="no-address"),
])
def test_links(wires, expected):
    assert links(Nvml(wires)) == expected


def test_old_package_without_the_kind_of_a_link():
    class Old(Nvml):
        @property
        def nvmlDeviceGetNvLinkRemoteDeviceType(self):
            raise AttributeError

    assert links(Old({A: [(GPU, B, 1)], B: [(GPU, A, 1)]})) == {A: {B}, B: {A}}


def test_gpu_that_fell_off_the_bus_is_left_out():
    wires = {address: [(SWITCH, None, 1)] for address in (A, B, C)}
    assert links(Nvml(wires, lost=(B,))) == {A: {C}, C: {A}}


@pytest.mark.parametrize(("told", "address"), [
    ("00000000:0A:00.0", "0000:0a:00.0"),
    (b"0009:01:00.0", "0009:01:00.0"),
    ("00010000:0A:1F.7", "10000:0a:1f.7"),
    ("0000:0A:00", "0000:0a:00.0"),
])
def test_addresses_have_the_form_of_the_kernel(told, address):
    nvml = Nvml({A: [(SWITCH, None, 1)], B: [(SWITCH, None, 1)]})
    nvml.nvmlDeviceGetPciInfo = lambda handle: SimpleNamespace(busId=told if handle == A else shown(B))
    assert links(nvml) == {address: {B}, B: {address}}


class Mig(Nvml):
    """NVML of a machine with MIG instances.

    ``instances`` has for each GPU a list of GPU instance, compute instance and name. None is a number without instance.
    """

    def __init__(self, instances):
        super().__init__(instances)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):
        if self.wires[handle] is None:
            raise self.NVMLError("Not Supported")
        return len(self.wires[handle])

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, number):
        if self.wires[handle][number] is None:
            raise self.NVMLError("Not Found")
        return self.wires[handle][number]

    def nvmlDeviceGetGpuInstanceId(self, instance):
        return instance[0]

    def nvmlDeviceGetComputeInstanceId(self, instance):
        return instance[1]

    def nvmlDeviceGetName(self, instance):
        return instance[2]

    def nvmlDeviceGetUUID(self, instance):
        return f"MIG-{instance[0]}-{instance[1]}"


def test_mig_instances():
    """A GPU without MIG and a hole among the numbers hide no instance; bytes are texts."""
    names = "NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", b"NVIDIA H100 80GB HBM3 MIG 1c.2g.20gb", "NVIDIA H100"
    nvml = Mig({A: None, B: [(1, 0, names[0]), None, (5, 1, names[1])], C: [(2, 0, names[2])]})
    found = mig_instances(nvml)
    assert [tuple(each.values()) for each in found] == [
        (B, 1, 0, "1g.10gb+me", "MIG-1-0"), (B, 5, 1, "1c.2g.20gb", "MIG-5-1"), (C, 2, 0, None, "MIG-2-0"),
    ]  # fmt: skip
    assert [*found[0]] == ["gpu", "gpu_instance", "compute_instance", "profile", "uuid"]
    assert nvml.open == 0


def test_nvml_is_started_once_for_all_facts():
    started = []

    class Started(Nvml):
        def nvmlInit(self):
            super().nvmlInit()
            started.append(self)

        def nvmlDeviceGetCount(self):
            assert self.open == 1
            return super().nvmlDeviceGetCount()

    nvml = Started({A: [(GPU, B, 1)], B: [(GPU, A, 1)]})
    assert facts(nvml) == {"links": {A: [B], B: [A]}, "mig": []}
    assert (started, nvml.open) == ([nvml], 0)


def test_package_without_mig_tells_no_instances():
    assert mig_instances(Nvml(dict.fromkeys((A, B), ()))) == []
