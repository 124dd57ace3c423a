# SPDX-License-Identifier: Apache-2.0
"""zun-compute for a host of two cells with four cores of two threads each, whatever the machine has.

Containers and networks are in memory: when the process is killed they are gone, as when the host loses its power.
"""

from zun.cmd import program
from zun.cmd.compute import load_driver, load_network_driver
from zun.compute.service import ComputeService
from zun.messaging import rpc
from zun.tests.functional.cloud import machine


def main() -> None:
    conf = program.configure("zun-compute", compute__container_driver="fake")
    program.connect_database(conf)
    transport = rpc.get_transport(conf)
    made = machine(cells=2, cores=4, threads=2, memory_mib=2048)
    service = ComputeService(conf, load_driver(conf), load_network_driver(conf), machine=lambda: made)
    service.start(transport)
    print(f"zun-compute is ready for host {conf.host}", flush=True)
    program.wait_for_signal()
    service.stop()
    transport.cleanup()


if __name__ == "__main__":
    main()
