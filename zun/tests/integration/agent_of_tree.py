# SPDX-License-Identifier: Apache-2.0
"""zun-compute of the machine whose files are below the folder ``ZUN_TEST_ROOT``, with containers of the real Docker."""

import os
import pathlib
from dataclasses import replace

from zun.cmd import program
from zun.cmd.compute import load_network_driver
from zun.compute.host.machine import discovered
from zun.compute.service import ComputeService
from zun.container.docker import DockerDriver, network_cards
from zun.container.docker.client import Settings
from zun.messaging import rpc


def _lacks_card(root: pathlib.Path, address: str, pid: int) -> bool:
    """The kernel does not tell which card a stand-in of an interface belongs to. Its name does."""
    name = (root / "sys/bus/pci/devices" / address / "stand-in").read_text()
    return not pid or f"{name}:" not in pathlib.Path(f"/proc/{pid}/net/dev").read_text()


def main() -> None:
    conf = program.configure("zun-compute")
    program.connect_database(conf)
    transport = rpc.get_transport(conf)
    root = os.environ["ZUN_TEST_ROOT"]
    network_cards.lacks_card = _lacks_card
    driver = DockerDriver(replace(Settings.from_conf(conf, connections=conf.compute.workers + 8), root=root))
    service = ComputeService(conf, driver, load_network_driver(conf), machine=lambda: discovered(root))
    service.start(transport)
    program.wait_for_signal("zun-compute is ready for host %s", conf.host)
    service.stop()
    transport.cleanup()


if __name__ == "__main__":
    main()
