# SPDX-License-Identifier: Apache-2.0
"""Files of devices. Only root can make one, so the tests link to two that every Linux has."""

import os
from pathlib import Path

import pytest

from zun.topology.device_files import discover_files
from zun.topology.devices import Device, DeviceType

GPU = Device("0000:81:00.0", "10de", "20b0", "030200", cell=1)


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """A machine whose /dev is the real one, so that links in it lead to device files, and whose /sys is made up."""
    (tmp_path / "dev").symlink_to("/dev")
    return tmp_path


def found(root: Path) -> dict[str, Device]:
    return {device.address: device for device in discover_files(root, [GPU])}


def test_files_of_devices_and_nothing_else(root):
    devices = found(root)
    assert devices["/dev/zero"] == Device("/dev/zero", type=DeviceType.PATH, nodes=("/dev/zero",))
    assert not {"/dev/stdin", "/dev/stdout", "/dev/fd", "/dev/shm", "/dev/pts"} & set(devices)
    assert not any(address.startswith(("/dev/pts/", "/dev/shm/")) for address in devices)
    assert list(devices) == sorted(devices)


def test_the_cell_is_that_of_the_pci_device_above(root):
    (root / "sys/dev/char").mkdir(parents=True)
    (root / "sys/dev/char/1:5").symlink_to("../../devices/pci0000:80/0000:80:01.0/0000:81:00.0/drm/card0")
    (root / "sys/dev/char/1:3").symlink_to("../../devices/pci0000:80/0000:80:01.0/0000:82:00.0/drm/card1")
    devices = found(root)
    assert (devices["/dev/zero"].cell, devices["/dev/null"].cell) == (1, None)


def test_a_disk_of_several_nvme_controllers_has_the_cell_of_its_own(root):
    (root / "sys/dev/char").mkdir(parents=True)
    (root / "sys/dev/char/1:5").symlink_to("../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n2")
    (root / "sys/dev/char/1:3").symlink_to("../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n2/nvme0n2p1")
    (root / "sys/dev/char/1:7").symlink_to("../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1")
    card = Device("0000:21:00.1", "1b36", "0010", "010802", cell=1, nodes=("/dev/nvme3", "/dev/nvme0n2"))
    cells = {device.address: device.cell for device in discover_files(root, [card])}
    assert (cells["/dev/zero"], cells["/dev/null"], cells["/dev/full"]) == (1, 1, None)


def test_command_file_of_an_nvme_disk_has_its_cell(root):
    (root / "sys/dev/char").mkdir(parents=True)
    (root / "sys/dev/char/1:5").symlink_to("../../devices/virtual/nvme-subsystem/nvme-subsys0/ng0n2")
    card = Device("0000:21:00.1", "1b36", "0010", "010802", cell=1, nodes=("/dev/ng0n2", "/dev/nvme0n2"))
    assert {device.address: device.cell for device in discover_files(root, [card])}["/dev/zero"] == 1


def test_links_lead_to_the_file(tmp_path):
    dev = tmp_path / "dev"
    (dev / "by-id").mkdir(parents=True)
    (dev / "by-id/outside").symlink_to("/dev/zero")
    (dev / "by-id/circle").symlink_to("circle")
    (dev / "by-id/broken").symlink_to("nothing")
    (dev / "plain").write_text("no device")
    assert found(tmp_path) == {}
    try:
        os.mknod(dev / "zero", 0o20600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes files of devices")
    (dev / "by-id/blue").symlink_to("../zero")
    (dev / "by-id/no\udcffutf-8").symlink_to("../zero")
    assert {address: device.nodes for address, device in found(tmp_path).items()} == {
        "/dev/by-id/blue": ("/dev/zero",), "/dev/zero": ("/dev/zero",),
    }
