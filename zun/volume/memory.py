# SPDX-License-Identifier: Apache-2.0
"""The driver of file systems in memory that the containers of a capsule share: a tmpfs of the host.

The kernel takes a page of a tmpfs from the memory nodes of the process that writes it first, and counts the page for
the control group of this process. So the memory is where its containers may have memory, and within their limits.
Writers with a choice of nodes, such as the engine when it copies files into a container, get pages of the node where
the capsule claims the volume (``mpol=prefer``). ``bind`` would not do: if the node is full, the kernel would kill any
process of the host.

The containers get a folder *inside* the tmpfs. If the tmpfs is not mounted, the folder is missing and the runtime
refuses to start the container. Otherwise the container would write to the host's disk without a limit.
"""

from pathlib import Path

from zun.common.mounts import Mount
from zun.container.driver.lifecycle import RuntimeMount
from zun.volume.filesystems import DATA, add_data, mounted, run
from zun.volume.local import HostDriver, translated
from zun.volume.places import there

NODES = Path("/sys/devices/system/node")


class MemoryDriver(HostDriver):
    """File systems in memory. Needs root."""

    def prepare(self, owner: str, project_id: str, number: int, mount: Mount, *, again: bool = False) -> RuntimeMount:
        """Mount the tmpfs. Its data does not outlive a restart of the host, so ``again`` changes nothing."""
        self.restore(owner, number, mount)
        return RuntimeMount("bind", str(self._place(owner, number) / "fs" / DATA), mount.destination)

    def restore(self, owner: str, number: int, mount: Mount) -> None:
        place = self._place(owner, number)
        target = place / "fs"
        with translated(mount, place):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root.chmod(0o700)
            target.mkdir(mode=0o700, exist_ok=True)
            if not mounted(target):
                options = f"size={mount.size_mib}m,mode=0700,nodev,nosuid"
                if mount.node is not None and there(NODES):  # the option is unknown to a kernel built without NUMA
                    options += f",mpol=prefer:{mount.node}"
                run("mount", "-t", "tmpfs", "-o", options, "zun", str(target))
            add_data(target)
