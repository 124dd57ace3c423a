# SPDX-License-Identifier: Apache-2.0
"""API, scheduler, one host and its websocket proxy in one process, as zun-allinone has them, on an invented machine.

The host has two cells with four cores of two threads each. Containers and networks are in memory.
"""

import contextlib

from zun.cmd import api, compute, program, wsproxy
from zun.compute.service import ComputeService
from zun.db import migration
from zun.messaging import rpc
from zun.scheduler.service import SchedulerService
from zun.tests.functional.cloud import machine


def main() -> None:
    conf = program.configure("zun-allinone", transport_url="inproc:///", compute__container_driver="fake")
    program.make_state_folder(conf.state_path)
    program.open_database(conf)
    if migration.is_behind():
        migration.upgrade()
    transport = rpc.get_transport(conf)
    made = machine(cells=2, cores=4, threads=2, memory_mib=2048)
    with contextlib.ExitStack() as running:
        running.callback(transport.cleanup)
        driver, networks = compute.load_driver(conf), compute.load_network_driver(conf)
        for service in (
            ComputeService(conf, driver, networks, machine=lambda: made),
            SchedulerService(conf, alone=True),
        ):
            service.start(transport)
            running.callback(service.stop)
        proxy = wsproxy.build(conf, driver)
        proxy.start()
        running.callback(proxy.stop)
        server = api.Server(conf, api.build(conf, transport))
        server.start()
        running.callback(server.stop)
        program.wait_for_signal("the cloud is ready on %s", api.url(conf))


if __name__ == "__main__":
    main()
