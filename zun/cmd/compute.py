# SPDX-License-Identifier: Apache-2.0
"""zun-compute: runs the containers of this host."""

from typing import Any

from oslo_concurrency import lockutils
from oslo_config import cfg
from stevedore import driver as stevedore_driver

from zun.cmd import program
from zun.common import exceptions, metrics
from zun.compute.service import ComputeService
from zun.container.driver.driver import ContainerDriver
from zun.messaging import conductor_api, rpc, senders
from zun.network.driver import NetworkDriver
from zun.objects.service import COMPUTE_BINARY


def load_driver(conf: cfg.ConfigOpts) -> ContainerDriver:
    """Return the runtime driver that ``[compute] container_driver`` names."""
    made: ContainerDriver = _load(conf, "[compute] container_driver", conf.compute.container_driver, "container")
    return made


def load_network_driver(conf: cfg.ConfigOpts) -> NetworkDriver:
    """Return the network driver that ``[network] driver`` names, by default the one of the container driver's name.

    Raise Misconfigured for a driver of another engine. Neutron's networks need remote drivers, which Docker alone has.
    """
    runtime = conf.compute.container_driver
    name = conf.network.driver or runtime
    if "podman" in (name, runtime) and name not in (runtime, "fake"):
        raise exceptions.Misconfigured(
            f"[network] driver = {name} does not work with [compute] container_driver = {runtime}: leave [network] "
            "driver unset, so that the networks are those of the container driver."
        )
    made: NetworkDriver = _load(conf, "[network] driver", name, "network")
    return made


def kernel_of(conf: cfg.ConfigOpts) -> str | None:
    """Return the root of the machine whose kernel may be changed for containers. Those in memory run on none."""
    return None if conf.compute.container_driver == "fake" else "/"


def _load(conf: cfg.ConfigOpts, option: str, name: str, kind: str) -> Any:
    try:
        factory: Any = stevedore_driver.DriverManager(f"zun.{kind}.driver", name).driver
    except stevedore_driver.NoMatches:
        raise SystemExit(f"{option} = {name}: no such driver is installed; the default is docker") from None
    return factory.from_conf(conf)


def name_queues(conf: cfg.ConfigOpts, name: str) -> None:
    """Name the queues for answers to program ``name`` after the host if the host has a user of RabbitMQ.

    That user may use no others. Raise Misconfigured if that user is the one of another host.
    """
    user = rpc.own_user(conf)
    whose = senders.host_of_user(user)
    if whose is None:
        return
    if whose != conf.host:
        raise exceptions.Misconfigured(
            f"[DEFAULT] transport_url has user {user}, who is of host {whose}; [DEFAULT] host is {conf.host}. "
            f"'zun-broker-manage add-host {conf.host}' prints the transport_url of this host."
        )
    named = {"use_queue_manager": True, "hostname": conf.host, "processname": name}
    for option, value in named.items():
        conf.set_default(option, value, group="oslo_messaging_rabbit")
    # The library counts the queues there. Not in state_path, where zun-wsproxy, which is not root, may not write.
    lockutils.set_defaults("/dev/shm")


@program.without_traceback
def main() -> None:
    conf = program.configure("zun-compute")
    name_queues(conf, COMPUTE_BINARY)
    metrics.serve(conf, conf.metrics.compute_port)
    transport = rpc.get_transport(conf)
    conductor_api.reach_database(conf, transport, program.connect_database)
    service = ComputeService(conf, load_driver(conf), load_network_driver(conf), kernel=kernel_of(conf))
    service.start(transport)
    program.wait_for_signal("zun-compute is ready for host %s", conf.host)
    service.stop()
    transport.cleanup()


if __name__ == "__main__":
    main()
