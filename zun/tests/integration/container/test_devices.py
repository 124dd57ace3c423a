# SPDX-License-Identifier: Apache-2.0
"""Devices of claims in containers of a real daemon: files, CDI devices with and without its CDI, interfaces."""

import json
import os
import pathlib
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import docker
import pytest

from zun.common import exceptions
from zun.container.docker import DockerDriver, network_cards
from zun.container.docker.kernel import locate
from zun.container.driver.audit import DeviceAccess
from zun.container.driver.devices import ContainerDevices
from zun.tests.fixtures import wait_for
from zun.tests.unit.container.contract import Rig
from zun.tests.unit.container.samples import Sample
from zun.topology.device_request import GivenDevice
from zun.topology.devices import Device, DeviceType

pytestmark = pytest.mark.docker

#: Files of devices that a container has only by a claim. Machines differ in which they have.
CANDIDATES = ("/dev/hwrng", "/dev/loop0", "/dev/fuse", "/dev/kmsg", "/dev/loop-control")
USUAL = "/dev/zero"


@pytest.fixture
def files() -> list[Device]:
    found = [path for path in CANDIDATES if os.path.exists(path)]
    if len(found) < 2:
        pytest.skip(f"the machine has fewer than two of {', '.join(CANDIDATES)}")
    return [Device(path, type=DeviceType.PATH, nodes=(path,)) for path in found]


@pytest.fixture
def made(rig: Rig) -> Callable[..., Sample]:
    """Makes a container that runs, with devices."""

    def make(devices: ContainerDevices, driver: DockerDriver | None = None, **fields: Any) -> Sample:
        container = rig.sample(**fields)
        by = driver or rig.driver
        by.create(container, cpuset_cpus="0", cpuset_mems="0", devices=devices)
        by.start(container)
        by.join_interfaces(container, devices)
        return container

    return make


def devices(*given: Device, offered: tuple[Device, ...] = ()) -> ContainerDevices:
    return ContainerDevices(tuple(GivenDevice("x", each.address) for each in given), (*given, *offered))


def number(path: str) -> tuple[int, int]:
    found = os.stat(path).st_rdev
    return os.major(found), os.minor(found)


def rule(device: Device) -> str:
    """Return the line of devices.list that gives full access to a file, for example ``c 10:183 rwm``."""
    major, minor = number(device.address)
    return f"{'b' if pathlib.Path(device.address).is_block_device() else 'c'} {major}:{minor} rwm"


def inside(rig: Rig, container: Sample, command: str) -> tuple[str, int]:
    text, code = rig.driver.execute(container, ["sh", "-c", command], 20)
    return text.strip(), code


def pid_of(rig: Rig, container: Sample) -> int:
    return rig.state(container).pid


def rules_of(rig: Rig, container: Sample) -> set[str]:
    """Return the lines of the container's devices.list. Skip the test on cgroup version 2, which has no such file."""
    cgroup = pathlib.Path(f"/proc/{pid_of(rig, container)}/cgroup").read_text()
    mount, group = locate("devices", cgroup, pathlib.Path("/proc/self/mountinfo").read_text())
    if mount.unified:
        pytest.skip("the machine has cgroup version 2")
    folder = mount.directory(pathlib.Path("/"))
    return set((folder / group.lstrip("/") / "devices.list").read_text().splitlines())


def view(rig: Rig, container: Sample, given: ContainerDevices) -> DeviceAccess:
    return rig.driver.device_access(container, rig.state(container), given)


def test_a_container_has_its_files_and_no_others(rig: Rig, engine: docker.APIClient, files, made) -> None:
    """Two containers, one device each: config, control group, files and variable agree with the claim."""
    claims = [devices(files[place], offered=tuple(files)) for place in (0, 1)]
    containers = [made(claim, capabilities=["MKNOD"]) for claim in claims]
    rules = [rules_of(rig, container) for container in containers]
    for place, container in enumerate(containers):
        mine, other = files[place].address, files[1 - place].address
        config = engine.inspect_container(f"zun-{container.uuid}")
        assert [each["PathOnHost"] for each in config["HostConfig"]["Devices"]] == [mine]
        assert f"ZUN_DEVICES=x={mine}" in config["Config"]["Env"]
        assert rule(files[place]) in rules[place]
        assert rule(files[place]) not in rules[1 - place]
        assert inside(rig, container, f"ls -d {mine} {other} 2>/dev/null")[0] == mine
        assert view(rig, container, claims[place]) == DeviceAccess(frozenset({mine}), frozenset({mine}), (), (), ())
    # A node that root makes inside gives no access: the control group refuses it.
    kind, numbers, _ = rule(files[1]).split()
    text, code = inside(rig, containers[0], f"mknod /tmp/stolen {kind} {numbers.replace(':', ' ')} && cat /tmp/stolen")
    assert code != 0 and "not permitted" in text


def test_a_usual_device_is_in_no_way_special(rig: Rig, made) -> None:
    zero = Device(USUAL, type=DeviceType.PATH, nodes=(USUAL,))
    given = devices(zero)
    container = made(given)
    assert inside(rig, container, f"head -c 3 {USUAL} | wc -c") == ("3", 0)
    found = view(rig, container, given)
    assert (found.missing, found.denied, found.allowed) == ((), (), ())


def test_devices_stay_over_a_restart(rig: Rig, files, made) -> None:
    given = devices(*files)
    container = made(given)
    rig.driver.reboot(container, 0)
    found = view(rig, container, given)
    assert found.configured == found.wanted == {each.address for each in files}
    assert (found.missing, found.denied) == ((), ())
    assert rig.state(container).devices == given.given


def test_an_object_with_other_devices_is_replaced(rig: Rig, engine: docker.APIClient, files) -> None:
    container = rig.sample()
    first = rig.driver.create(container, cpuset_cpus="0", cpuset_mems="0", devices=devices(files[0]))
    again = rig.driver.create(container, cpuset_cpus="0", cpuset_mems="0", devices=devices(files[0]))
    assert again == first
    other = rig.driver.create(container, cpuset_cpus="0", cpuset_mems="0", devices=devices(files[1]))
    assert other != first
    config = engine.inspect_container(f"zun-{container.uuid}")["HostConfig"]
    assert [each["PathOnHost"] for each in config["Devices"]] == [files[1].address]


def test_what_was_changed_behind_the_back_is_seen(rig: Rig, files, made) -> None:
    given = devices(files[0], offered=tuple(files))
    container = made(given)
    rules_of(rig, container)
    cgroup = pathlib.Path(f"/proc/{pid_of(rig, container)}/cgroup").read_text()
    mount, group = locate("devices", cgroup, pathlib.Path("/proc/self/mountinfo").read_text())
    folder = mount.directory(pathlib.Path("/")) / group.lstrip("/")
    mine, other = map(rule, files[:2])
    (folder / "devices.deny").write_text(mine)
    (folder / "devices.allow").write_text(other)
    inside(rig, container, f"rm {files[0].address}")
    found = view(rig, container, given)
    assert (found.missing, found.denied, found.allowed) == ((files[0].address,), (files[0].address,), (other,))
    assert view(rig, container, devices(offered=tuple(files))).allowed == (other,)


def test_a_device_that_is_gone_is_refused(rig: Rig, files, made) -> None:
    gone = Device("/dev/gone", type=DeviceType.PATH, nodes=("/dev/gone",))
    container = rig.sample()
    with pytest.raises(exceptions.DeviceUnusable, match=r"device /dev/gone \(x\) is gone from the host"):
        rig.driver.create(
            container,
            cpuset_cpus="0",
            cpuset_mems="0",
            devices=ContainerDevices((GivenDevice("x", "/dev/gone"),), tuple(files)),
        )
    assert rig.driver.show(container) is None
    container = rig.sample()  # it was there a moment ago; Podman looks at creation already
    with pytest.raises(exceptions.ZunError, match="/dev/gone"):
        rig.driver.create(container, cpuset_cpus="0", cpuset_mems="0", devices=devices(gone))
        rig.driver.start(container)


# CDI, without Docker's own


@pytest.fixture
def cdi_driver(rig: Rig, engine: docker.APIClient, tmp_path, files) -> Iterator[DockerDriver]:
    """A driver whose machine has its CDI files in a folder of the test, and all else from the real one."""
    if engine.info().get("CDISpecDirs"):
        pytest.skip("this engine has its own CDI")
    for name in ("proc", "sys", "dev"):
        (tmp_path / name).symlink_to(f"/{name}")
    (tmp_path / "etc/cdi").mkdir(parents=True)
    (tmp_path / "library").write_text("library of the card")
    hooked = {"hooks": [{"hookName": "createContainer", "path": "/usr/bin/card-hook"}]}
    (tmp_path / "etc/cdi/card.json").write_text(json.dumps({
        "cdiVersion": "0.7.0",
        "kind": "vendor.com/card",
        "devices": [
            {"name": "0", "containerEdits": {
                "deviceNodes": [{"path": "/dev/card", "hostPath": files[0].address, "permissions": "r"}],
                "additionalGids": [4242],
            }},
            {"name": "hooked", "containerEdits": hooked},
        ],
        "containerEdits": {
            "env": ["CARD_LIBRARY=/opt/library"],
            "mounts": [
                {"hostPath": str(tmp_path / "library"), "containerPath": "/opt/library", "options": ["ro", "bind"]}
            ],
        },
    }))  # fmt: skip
    yield DockerDriver(replace(rig.driver.settings, root=str(tmp_path)))


CARD, HOOKED = (Device(f"vendor.com/card={each}", type=DeviceType.CDI) for each in ("0", "hooked"))


def test_cdi_edits_are_applied(rig: Rig, cdi_driver: DockerDriver, files, made) -> None:
    given = devices(CARD)
    container = made(given, cdi_driver)
    major, minor = number(files[0].address)
    assert inside(rig, container, 'stat -c "%t:%T" /dev/card') == (f"{major:x}:{minor:x}", 0)
    assert inside(rig, container, 'cat "$CARD_LIBRARY"') == ("library of the card", 0)
    assert "Read-only" in inside(rig, container, 'touch "$CARD_LIBRARY"')[0]
    assert "4242" in inside(rig, container, "id -G")[0].split()
    assert rule(files[0]).removesuffix("wm") in rules_of(rig, container)
    found = cdi_driver.device_access(container, rig.state(container), given)
    assert (found.configured, found.missing, found.denied) == (found.wanted, (), ())


def test_cdi_hook_is_refused(rig: Rig, cdi_driver: DockerDriver) -> None:
    container = rig.sample()
    with pytest.raises(exceptions.DeviceUnusable, match=r"needs hook createContainer \(/usr/bin/card-hook\)"):
        cdi_driver.create(container, cpuset_cpus="0", cpuset_mems="0", devices=devices(HOOKED))
    assert rig.driver.show(container) is None


# Docker's own CDI


@pytest.fixture
def card(rig: Rig, engine: docker.APIClient, files) -> Iterator[Device]:
    """A device of a CDI file that Docker's own CDI has read."""
    folders = engine.info().get("CDISpecDirs")
    if not folders:
        pytest.skip("this engine has no CDI of its own")
    kind = f"vendor.com/test.{uuid.uuid4().hex[:8]}"
    written = pathlib.Path(folders[-1], f"{kind.replace('/', '-')}.json")
    written.parent.mkdir(parents=True, exist_ok=True)
    edits = {"deviceNodes": [{"path": "/dev/card", "hostPath": files[0].address}], "env": ["CARD=0"]}
    common = {"env": ["CARD_LIBRARY=/opt/library"]}
    written.write_text(json.dumps({
        "cdiVersion": "0.6.0", "kind": kind, "devices": [{"name": "0", "containerEdits": edits}],
        "containerEdits": common,
    }))  # fmt: skip
    yield Device(f"{kind}=0", type=DeviceType.CDI, nodes=(files[0].address,))
    written.unlink()


def test_cdi_of_the_engine(rig: Rig, engine: docker.APIClient, card: Device, made) -> None:
    facts = rig.driver.facts()
    assert facts.cdi_folders == tuple(engine.info()["CDISpecDirs"])
    if facts.cdi_names is not None:  # Docker reads the folder when the kernel tells it of the new file
        wait_for(lambda: card.address in (rig.driver.facts().cdi_names or ()), 30)
    given = devices(card)
    container = made(given)
    config = engine.inspect_container(f"zun-{container.uuid}")["HostConfig"]
    assert [(each["Driver"], each["DeviceIDs"]) for each in config["DeviceRequests"]] == [("cdi", [card.address])]
    assert inside(rig, container, "ls -l /dev/card")[1] == 0
    assert inside(rig, container, 'echo "$CARD $CARD_LIBRARY"') == ("0 /opt/library", 0)
    found = view(rig, container, given)
    assert (found.configured, found.missing, found.denied) == (found.wanted, (), ())


# Network interfaces


@pytest.fixture
def interface() -> Iterator[str]:
    """One end of a pair of virtual interfaces, in place of a network card's."""
    name = f"zt{uuid.uuid4().hex[:8]}"
    missing = [each for each in ("ip", "nsenter") if shutil.which(each) is None]
    command = ["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p"]
    if missing or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("the test needs root, iproute2 and the kernel's virtual interfaces")
    yield name
    subprocess.run(["ip", "link", "delete", f"{name}p"], capture_output=True)


FUNCTION = Device("0000:05:10.0", "8086", "10ed", "020000", type=DeviceType.VF, driver="ixgbevf")


def test_interface_moves_into_the_container(rig: Rig, tmp_path, interface: str, made, monkeypatch) -> None:
    """The kernel gives a card's interface back at the end, and removes a virtual one: that part needs hardware."""
    monkeypatch.setattr(network_cards, "PATIENCE", 0.0)
    (tmp_path / "proc").symlink_to("/proc")
    folder = tmp_path / "sys/bus/pci/devices/0000:05:10.0/net"
    (folder / interface).mkdir(parents=True)
    (tmp_path / "sys/fs").symlink_to("/sys/fs")
    driver = type(rig.driver)(replace(rig.driver.settings, root=str(tmp_path)))
    container = made(devices(FUNCTION), driver)
    assert f"{interface}:" in inside(rig, container, "cat /proc/net/dev")[0]
    assert "UP" in inside(rig, container, f"ip link show dev {interface}")[0].split(">")[0]
    assert not pathlib.Path("/sys/class/net", interface).exists()
    with pytest.raises(exceptions.DeviceUnusable, match=f"ip link set dev {interface} netns"):
        driver.join_interfaces(container, devices(FUNCTION))  # the made-up /sys still shows it
    (folder / interface).rmdir()
    # The container has the interface, but its /sys shows no card above a virtual one.
    with pytest.raises(exceptions.DeviceUnusable, match=r"05:10\.0: its network interface is in another"):
        driver.join_interfaces(container, devices(FUNCTION))
    assert driver.device_access(container, rig.state(container), devices(FUNCTION)).lacking == (FUNCTION.address,)
    with pytest.raises(exceptions.DeviceUnusable, match=r"05:10\.0: its network interface is in another"):
        driver.create(rig.sample(), cpuset_cpus="0", cpuset_mems="0", devices=devices(FUNCTION))
    rig.driver.kill(container)
    wait_for(lambda: not pathlib.Path("/sys/class/net", f"{interface}p").exists())


def test_interfaces_need_a_process(rig: Rig) -> None:
    container = rig.created()
    rig.driver.join_interfaces(container, devices(FUNCTION))
