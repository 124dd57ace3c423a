# SPDX-License-Identifier: Apache-2.0
"""Devices for tests with the real Docker: a machine's files whose PCI devices are made, with harmless real parts.

The files under /dev are real ones, of a number that no driver has: who may open one gets "no such device", everybody
else "operation not permitted". The interfaces are ends of veth pairs. All other files are those of this machine.
"""

import os
import pathlib
import shutil
import stat
import subprocess
import threading

_NEVER_A_DRIVER = range(240, 255)  # Documentation/admin-guide/devices.txt: local and experimental use


class StandIns:
    """``root`` has the files of the machine. ``tag`` is in all names outside of it; ``remove`` takes them away."""

    def __init__(self, root: pathlib.Path, tag: str) -> None:
        self.root, self.tag = root, tag
        self._numbers = iter(range(256))
        used = pathlib.Path("/proc/devices").read_text().split("Block")[0].split()
        self._major = next(each for each in _NEVER_A_DRIVER if str(each) not in used)
        self._made: list[pathlib.Path] = []
        self._nets: dict[str, pathlib.Path] = {}
        self._stopping, self._keeper = threading.Event(), threading.Thread(target=self._keep, daemon=True)
        _mirror(root, "", "sys")
        _mirror(root, "sys", "bus", "kernel")
        _mirror(root, "sys/bus", "pci")
        _mirror(root, "sys/kernel", "iommu_groups")
        self._keeper.start()

    def card(
        self,
        address: str,
        vendor_id: str,
        product_id: str,
        class_id: str,
        driver: str,
        *,
        files: tuple[str, ...] = (),
        interface: str | None = None,
        group: int | None = None,
        physical: str | None = None,
        protected: bool = True,
    ) -> frozenset[str]:
        """Make a PCI device and return its files. With driver ``vfio-pci`` these are of its ``group``.

        Without ``protected`` the group is one of VFIO's own, for a device without an IOMMU.
        """
        folder = self.root / "made" / "pci0000:a0" / address
        links = self.root / "sys/bus/pci/devices"
        links.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True)
        (links / address).symlink_to(folder)
        facts = {"vendor": f"0x{vendor_id}", "device": f"0x{product_id}", "class": f"0x{class_id}", "numa_node": "-1"}
        for name, value in facts.items():
            (folder / name).write_text(f"{value}\n")
        (folder / "driver").symlink_to(f"../{driver}")
        given = {self._file(folder / "accel", name) for name in files}
        if group is not None:
            place = self.root / "sys/kernel/iommu_groups" / str(group)
            place.mkdir(parents=True, exist_ok=True)
            (place / "name").write_text("DMA\n" if protected else "vfio-noiommu\n")
            (folder / "iommu_group").symlink_to(place)
        if driver == "vfio-pci":
            (folder / "vfio-dev/vfio0").mkdir(parents=True)
            given = {self.device(f"/dev/vfio/{'' if protected else 'noiommu-'}{group}")}
        if physical is not None:
            top = folder.parent / physical
            (folder / "physfn").symlink_to(top)
            (top / "sriov_totalvfs").write_text("7\n")
            (top / f"virtfn{len(list(top.glob('virtfn*')))}").symlink_to(folder)
        if interface is not None:
            (folder / "net").mkdir()
            (folder / "stand-in").write_text(interface)
            self._nets[interface] = folder / "net" / interface
        return frozenset(given)

    def device(self, path: str) -> str:
        """Make the device file at ``path``, once."""
        place = pathlib.Path(path)
        if not place.parent.exists():
            place.parent.mkdir()
            self._made.append(place.parent)
        if not place.exists():
            os.mknod(place, 0o600 | stat.S_IFCHR, os.makedev(self._major, next(self._numbers)))
            self._made.append(place)
        return path

    def _file(self, folder: pathlib.Path, name: str) -> str:
        place = folder / name
        place.mkdir(parents=True)
        path = self.device(f"/dev/{self.tag}/{name}")
        number = os.stat(path).st_rdev
        (place / "dev").write_text(f"{os.major(number)}:{os.minor(number)}\n")
        (place / "uevent").write_text(f"DEVNAME={self.tag}/{name}\n")
        return path

    def _keep(self) -> None:
        """Do what the kernel does: a card's interface comes back to the host when its container's network ends.

        A veth pair is removed then, a while after the last process has ended; so this makes a new one.
        """
        here = pathlib.Path("/sys/class/net")
        while not self._stopping.wait(0.05):
            for name, folder in list(self._nets.items()):
                if not (here / f"{name}w").exists():
                    words = ("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}w")
                    subprocess.run(words, check=False, capture_output=True)
                if (here / name).exists():
                    folder.mkdir(exist_ok=True)
                elif folder.exists():
                    folder.rmdir()

    def remove(self) -> None:
        self._stopping.set()
        self._keeper.join()
        for name in self._nets:
            subprocess.run(("ip", "link", "del", "dev", f"{name}w"), check=False, capture_output=True)
        for place in reversed(self._made):
            place.rmdir() if place.is_dir() else place.unlink()
        shutil.rmtree(self.root)  # links are removed, not followed


def _mirror(root: pathlib.Path, folder: str, *own: str) -> None:
    """Make ``folder`` below ``root`` with a link to every entry that this machine has there, without the ``own``."""
    (root / folder).mkdir(parents=True, exist_ok=True)
    for entry in pathlib.Path("/", folder).iterdir():
        if entry.name not in own:
            (root / folder / entry.name).symlink_to(entry)
