# SPDX-License-Identifier: Apache-2.0
"""Read this machine: its topology, and all devices that ``[devices] device_spec`` can select."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from zun.container import cdi
from zun.topology import HostTopology, discover
from zun.topology.cells import only_cell
from zun.topology.device_files import discover_files
from zun.topology.files import Tree
from zun.topology.host_use import marked


def discovered(root: str = "/", cdi_folders: Collection[str] = ()) -> HostTopology:
    """Return the topology with the PCI devices, the device files and the CDI devices of the machine below ``root``.

    ``cdi_folders`` are those of the runtime's own CDI, if it has one.
    """
    found = discover(root)
    named = cdi.load(root, cdi_folders or cdi.FOLDERS)
    only = only_cell(found.cells)
    others = (*discover_files(root, found.devices), *named.devices())
    placed = (replace(device, cell=only if device.cell is None else device.cell) for device in others)
    devices = (*found.devices, *marked(Tree(Path(root)), placed))
    return replace(found, devices=devices, notes=(*found.notes, *named.notes))
