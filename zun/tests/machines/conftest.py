# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api, Program, free_port
from zun.tests.machines import kernel
from zun.tests.machines.containers import IMAGE, PATIENCE, Containers, SlowApi, host_topology
from zun.topology import CpuSet, HostTopology, discover

NODES = 4


#: Layout of tools/numavm.sh; empty on other machines.
LAYOUT = os.environ.get("ZUN_NUMAVM_LAYOUT", "")
_left_out: list[pytest.Item] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of devices out where the machine has other devices; the summary says so."""
    here = pathlib.Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.numavm)
    of_devices = [here / "test_devices.py", here / "test_device_chaos.py"]
    _left_out[:] = [item for item in items if item.path in of_devices and LAYOUT != "4pci"]
    if _left_out:
        config.hook.pytest_deselected(items=_left_out)
        items[:] = [item for item in items if item not in _left_out]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which tests do not apply, and print the figures that each test measured."""
    if _left_out:
        terminalreporter.section("not for this machine")
        terminalreporter.write_line(
            f"{len(_left_out)} tests of test_devices.py and test_device_chaos.py: the layout is "
            f"{LAYOUT or 'none of tools/numavm.sh'}, and they need the devices of 4pci: NUMAVM_LAYOUT=4pci "
            "tools/numavm-test.sh"
        )
    reports = [each for outcome in ("passed", "failed") for each in terminalreporter.stats.get(outcome, ())]
    reports = [each for each in reports if each.when == "call" and "tests/machines/" in each.nodeid]
    if reports:
        terminalreporter.section("measured")
    for each in reports:
        name = each.nodeid.rpartition("/")[2]
        terminalreporter.write_line(f"{name}: {each.outcome} in {each.duration:.1f} s")
        for what, value in each.user_properties:
            terminalreporter.write_line(f"    {what}: {value}")


def _missing(reason: str) -> None:
    if os.environ.get("ZUN_NUMAVM") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def machine() -> HostTopology:
    """This machine. Tests are skipped where it has too few memory nodes; with ZUN_NUMAVM=1 they fail."""
    nodes = list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*"))
    if len(nodes) < NODES:
        _missing(f"this machine has {len(nodes)} memory nodes, {NODES} are needed: tools/numavm-test.sh emulates them")
    return discover()


@pytest.fixture(scope="session")
def engine(machine: HostTopology) -> docker.APIClient:
    """The Docker daemon of this machine. It must have the image."""
    try:
        client = docker.APIClient(os.environ.get("DOCKER_HOST"), version="auto", timeout=PATIENCE)
    except docker.errors.DockerException as exc:
        _missing(f"no Docker daemon answers: {exc}")
    if not client.images(IMAGE):
        _missing(f"the image {IMAGE} (busybox and python3) is not there; tools/numavm.sh puts it into its guest")
    return client


#: Devices of the layout 4pci that containers may have, and the names for them.
DEVICES = {
    "device_spec": (
        {"address": "0000:81:00.0", "resource_class": "CUSTOM_FAR_DISK"},
        {"vendor_id": "1b36", "product_id": "0010", "resource_class": "CUSTOM_NVME"},
        {"address": "0000:44:00.0", "vendor_id": "1234", "resource_class": "CUSTOM_EDU_VFIO"},
        {"vendor_id": "1234", "product_id": "11e8", "resource_class": "CUSTOM_EDU"},
        {"vendor_id": "8086", "product_id": "10d3", "resource_class": "CUSTOM_NIC"},
        {"vendor_id": "8086", "product_id": "10c9", "resource_class": "CUSTOM_IGB"},
        {"vendor_id": "8086", "product_id": "10ca", "resource_class": "CUSTOM_IGB_VF"},
        {"class": "0502", "resource_class": "CUSTOM_CXL"},
    ),
    "alias": (
        {"name": "vf", "resource_class": "CUSTOM_NVME", "device_type": "type-VF"},
        {"name": "pf", "resource_class": "CUSTOM_NVME", "device_type": "type-PF"},
        {"name": "disk", "resource_class": "CUSTOM_NVME", "device_type": "type-PCI"},
        {"name": "far", "resource_class": "CUSTOM_FAR_DISK"},
        {"name": "nic", "resource_class": "CUSTOM_NIC"},
        {"name": "igb", "resource_class": "CUSTOM_IGB"},
        {"name": "igb-vf", "resource_class": "CUSTOM_IGB_VF"},
        {"name": "cxl", "resource_class": "CUSTOM_CXL"},
        {"name": "edu-vfio", "resource_class": "CUSTOM_EDU_VFIO"},
        {"name": "edu", "resource_class": "CUSTOM_EDU"},
    ),
}


class Patient(Program):
    """A program that may take long to start."""

    def start(self) -> float:
        began, said = time.monotonic(), self.log.stat().st_size if self.log.exists() else 0
        try:
            return super().start()
        except AssertionError:
            wait_for(lambda: self._has_said(b" is ready", said), PATIENCE)  # fails at once if it has ended
            return time.monotonic() - began


@pytest.fixture(scope="session")
def allinone(machine: HostTopology, engine: docker.APIClient, tmp_path_factory: Any) -> Iterator[Program]:
    """The all-in-one, for all tests: starting takes long where the machine is emulated.

    Nothing is kept for the host, so that a container may ask for the whole memory of a node. Few workers: systemd and
    Docker give up on each other when an emulated machine starts many containers at once. Rare looks around: one takes
    longer there than the seconds between two by default, and the program would do nothing else.
    """
    folder, port = tmp_path_factory.mktemp("allinone"), free_port()
    settings: dict[str, dict[str, Any]] = {
        "DEFAULT": {"state_path": folder / "state", "host": f"test-{uuid.uuid4().hex[:8]}", "debug": "false"},
        "api": {"port": port, "rpc_timeout": PATIENCE},
        "docker": {"default_timeout": PATIENCE},
        "compute": {
            "reserved_host_memory_mb": 0, "workers": 4, "inventory_interval": 30, "heartbeat_interval": 30,
            "audit_interval": 0, "interrupts": "away",
        },
        "scheduler": {"sweep_interval": 300},
        "capsule": {"sandbox_image": IMAGE, "sandbox_command": "sleep,100000"},
        "quota": {"containers": -1, "cpu": -1, "memory": -1, "disk": -1},
    }
    if LAYOUT == "4pci":
        settings["devices"] = {name: f"\n{name} = ".join(map(json.dumps, values)) for name, values in DEVICES.items()}
    made = Patient(folder, "allinone", "allinone", (), settings)
    made.start_seconds = made.start()  # type: ignore[attr-defined]
    made.api = SlowApi(f"http://127.0.0.1:{port}/v1")  # type: ignore[attr-defined]
    yield made
    made.stop()
    print(made.log.read_text()[-20000:])


@pytest.fixture
def api(allinone: Any) -> Iterator[Api]:
    """The REST API of a host without containers. After the test it has none again, and every CPU is back."""
    everything = host_topology(allinone.api)["shared"]
    yield allinone.api
    allinone.api.delete_all(PATIENCE)
    assert host_topology(allinone.api)["claims"] == []
    assert host_topology(allinone.api)["shared"] == everything


@pytest.fixture
def containers(api: Api, engine: docker.APIClient) -> Containers:
    return Containers(api, engine)


@pytest.fixture
def huge_pages(machine: HostTopology) -> dict[int, int]:
    """Node id -> huge pages of 2 MiB. Every node must have 16, reserved when the machine started."""
    pages = {cell.id: cell.pages.get(2048, 0) for cell in machine.cells}
    if min(pages.values()) < 16:
        _missing(f"this machine has {pages} huge pages of 2 MiB by node, 16 on each are needed from its boot on")
    return pages


@pytest.fixture
def nodes_of(machine: HostTopology) -> Callable[[CpuSet], dict[int, CpuSet]]:
    """Node id -> which of the given CPUs it has, by ``numactl``; nodes without any are left out."""
    nodes = kernel.numactl_hardware()
    return lambda cpus: {node: seen.cpus & cpus for node, seen in nodes.items() if seen.cpus & cpus}


@pytest.fixture
def hotplug(containers: Containers) -> Iterator[Callable[[int, bool], None]]:
    """Brings a CPU online, or takes it off, and waits until the service knows. In the end all are online again."""
    changed = set()

    def put(cpu: int, there: bool) -> None:
        changed.add(cpu)
        pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text(str(int(there)))
        wait_for(lambda: (cpu in CpuSet(containers.topology()["offline"])) != there, PATIENCE)

    yield put
    for cpu in changed:
        put(cpu, True)
