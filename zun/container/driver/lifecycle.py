# SPDX-License-Identifier: Apache-2.0
"""The capability to create, start, stop and remove containers, and what a new container is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from zun.container.driver.container import ContainerView
from zun.container.driver.devices import NO_DEVICES, ContainerDevices


@dataclass(frozen=True, slots=True)
class Plug:
    """The runtime's network of a new container, and its addresses there. If an address is None, the runtime chooses.

    With ``by_name``, the other containers of the network resolve the new container by its name. ``options`` are for
    the runtime's driver of the network. ``dns`` are addresses of name servers; without them the runtime chooses.
    """

    network: str
    ipv4: str | None = None
    ipv6: str | None = None
    by_name: bool = False
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    dns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuntimeMount:
    """One mount of a request to the runtime.

    ``source`` is a path of the host for a bind, the name of one of the runtime's volumes for a volume, and empty for a
    tmpfs, which has ``size_bytes`` instead. The runtime creates a missing volume with ``labels``. A hugetlbfs is like a
    tmpfs, with files in huge pages of ``page_kib``.
    """

    kind: Literal["bind", "volume", "tmpfs", "hugetlbfs"]
    source: str
    target: str
    read_only: bool = False
    size_bytes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    page_kib: int = 0


class Lifecycle(Protocol):
    """Creates, moves and removes containers. Every method may be repeated after a crash in its middle."""

    def create(
        self,
        container: ContainerView,
        *,
        cpuset_cpus: str,
        cpuset_mems: str,
        image: str | None = None,
        plug: Plug | None = None,
        mounts: Sequence[RuntimeMount] = (),
        join: str | None = None,
        memory: int | None = None,
        devices: ContainerDevices = NO_DEVICES,
        dedicated_cpus: str = "",
        cgroup_parent: str = "",
    ) -> str:
        """Create the object without starting it, and return the runtime's id of the object.

        - The cpusets are kernel lists, for example ``0-3,8``; "" sets no limit. They are in force before the first
          process exists.
        - ``image`` is the full name of the container's image, if it differs from ``container.image``.
        - ``plug`` is the first network; None is the runtime's default network. Exposed ports with a ``host_port`` are
          published there.
        - ``memory`` is the limit of ordinary memory in MiB, if it differs from ``container.memory``.
        - ``join`` is the uuid of a running container of this host. The new container then uses the network and IPC
          namespaces of that container instead of a network of its own.
        - ``devices`` are in the container from its first process on, except network interfaces.
        - ``dedicated_cpus`` are the own CPUs of a mixed container, a kernel list. Its first process finds them in the
          variable ``ZUN_DEDICATED_CPUS``.
        - ``cgroup_parent`` is the systemd slice that the container's control group is in, "" for the engine's own.

        If an earlier attempt of this host left an object behind, ``create`` adopts the object: it moves the object to
        these cpusets if they differ, connects the object to its first network, changes nothing else and returns the
        object's id. An object with other devices is replaced.

        DeviceUnusable if a device is gone or cannot be given, or if the interface of a network card is in the network
        of somebody else. ImageNotFound if the image is not on the host (:meth:`Images.pull_image` brings it).
        ContainerAlreadyExists if an object of another host has the name.
        """
        ...

    def start(self, container: ContainerView) -> None:
        """Start the container. A container that runs already is left as it is."""
        ...

    def join_interfaces(self, container: ContainerView, devices: ContainerDevices) -> None:
        """Move the network interfaces of the container's devices into the container, if it runs and lacks them.

        The kernel gives them back to the host when the last process of the container ends. DeviceUnusable if an
        interface cannot be moved, or if a card has its interfaces in the network of somebody else.
        """
        ...

    def stop(self, container: ContainerView, timeout: int | None = None) -> None:
        """Ask the process to end, and kill the process after ``timeout`` seconds (None: the runtime's choice).

        A container that has ended already is left as it is.
        """
        ...

    def reboot(self, container: ContainerView, timeout: int | None = None) -> None:
        """Stop and start the container, keeping the object. A container that does not run is only started."""
        ...

    def pause(self, container: ContainerView) -> None: ...

    def unpause(self, container: ContainerView) -> None: ...

    def kill(self, container: ContainerView, signal: str | None = None) -> None:
        """Send ``signal``: a name or a number, SIGKILL for None. InvalidValue for an unknown signal."""
        ...

    def delete(self, container: ContainerView, *, force: bool = False) -> None:
        """Remove the object and return when its processes are gone. Nothing happens if the object is missing.

        Conflict for a running container, unless ``force``. Objects of other hosts are left alone.
        """
        ...
