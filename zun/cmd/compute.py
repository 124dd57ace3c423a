# SPDX-License-Identifier: Apache-2.0
"""zun-compute: runs the containers of this host."""

import logging
from typing import Any

from oslo_config import cfg
from stevedore import driver as stevedore_driver

from zun.cmd import program
from zun.common import rpc
from zun.compute.service import ComputeService
from zun.container.driver import ContainerDriver

LOG = logging.getLogger(__name__)


def load_driver(conf: cfg.ConfigOpts) -> ContainerDriver:
    """The runtime driver that ``[compute] container_driver`` names."""
    name = conf.compute.container_driver
    try:
        factory: Any = stevedore_driver.DriverManager("zun.container.driver", name).driver
    except stevedore_driver.NoMatches:
        raise SystemExit(f"[compute] container_driver = {name}: no such driver; docker is the usual one") from None
    made: ContainerDriver = factory.from_conf(conf)
    return made


def main() -> None:
    conf = program.configure("zun-compute")
    program.connect_database(conf)
    transport = rpc.get_transport(conf)
    service = ComputeService(conf, load_driver(conf))
    service.start(transport)
    LOG.info("zun-compute is ready for host %s", conf.host)
    program.wait_for_signal()
    service.stop()
    transport.cleanup()


if __name__ == "__main__":
    main()
