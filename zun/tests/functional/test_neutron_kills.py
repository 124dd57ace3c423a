# SPDX-License-Identifier: Apache-2.0
"""The service of a host is killed at each step of its work with Neutron. Whatever comes next, nothing is left."""

import os

import pytest

from zun.common.context import admin_context
from zun.compute.container.networks import Networks, Published
from zun.db import containers
from zun.network.plugin import Wires
from zun.objects import Container, NetworkPort
from zun.tests.functional.neutron import Docker, Driver, Switch, api, client, conf, create, neutron, swept, users_port
from zun.tests.functional.steps import Killed, Steps

__all__ = ["api", "client", "conf", "neutron"]

CONTEXT = admin_context()
#: What changes before the service works on it, and how many steps its work has at least.
ACTIONS = {"run": 15, "attach": 10, "detach": 8, "delete": 7}


class Host:
    """Docker, the switch and the files of a host outlive its service."""

    def __init__(self, client, folder):
        self._client, self._folder = client, folder
        self._switch, self._docker = Switch(), Docker(None)
        self.start()

    def start(self, steps=None):
        """Start the service, anew if it was killed. ``steps`` will kill it."""
        steps = steps or Steps()
        client = steps.watch(self._client)
        self._docker.wires = Wires(self._folder, {"ovs": steps.watch(self._switch)}, client, 0.2)
        self._docker.api = steps.watch(self._docker)
        self.driver = Driver(client, self._docker.wires)
        self.driver._engine = self._docker
        self.driver.start()
        self.networks = Networks("host-1", self.driver, Published("127.0.0.1", 1, 2))

    def run(self, container):
        plug = self.networks.prepare(CONTEXT, container, self.networks.ports(CONTEXT, container))
        endpoints = self._docker.endpoints.setdefault(f"zun-{container.uuid}", {})
        if plug.network not in endpoints:
            self._docker.connect_container_to_network(f"zun-{container.uuid}", plug.network, driver_opt=plug.options)
        self.settle(container)

    def settle(self, container):
        self.networks.settle(CONTEXT, container)

    def delete(self, container):
        for network in list(self._docker.endpoints.get(f"zun-{container.uuid}", ())):
            self._docker.disconnect_container_from_network(f"zun-{container.uuid}", network)
        self._docker.endpoints.pop(f"zun-{container.uuid}", None)
        self.networks.release(self.networks.ports(CONTEXT, container))
        container.destroy()

    def lose(self, container):
        """Its user's container is gone without a word to the service, as in a crash of Docker, and so is its row."""
        self._docker.endpoints.clear()
        container.destroy()

    def wired(self, container):
        """The ports of the container's interfaces, as the switch and Docker know them."""
        endpoints = self._docker.endpoints[f"zun-{container.uuid}"]
        assert len(self._switch.plugged) == len(endpoints) == len(os.listdir(self._folder))
        return set(self._switch.plugged)

    def left(self):
        return [*self._switch.plugged, *self._docker.endpoints, *os.listdir(self._folder)]


@pytest.fixture
def host(client, tmp_path):
    return Host(client, tmp_path / "wires")


def killed(host, patched, steps, work, container):
    """Return whether ``steps`` killed the service at its work."""
    replace, destroy = os.replace, NetworkPort.destroy
    patched.setattr(os, "replace", lambda *args: steps.step(replace, *args))
    patched.setattr(NetworkPort, "destroy", lambda port: steps.step(destroy, port))
    try:
        host.start(steps)
        work(container)
    except Killed:
        return True
    return False


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("then", ["again", "deleted", "swept"])
@pytest.mark.parametrize("action", ACTIONS)
def test_killed_at_each_step(host, api, neutron, monkeypatch, action, then, after):
    """The port of the user is free, and ports and groups of the service, interfaces and files are gone."""
    networks = [neutron.network("demo", f"10.{number}.0.0/24") for number in (7, 8, 9)]
    at, dead = 0, True
    while dead:
        at += 1
        mine = users_port(neutron, networks[1])
        fields = {"nets": [{"network": networks[0]}, {"port": mine}], "exposed_ports": {"80": {}}}
        uuid = create(api, **fields).json["uuid"]
        containers.update(uuid, {"host": "host-1", "status": "Running"})
        container = Container.get_by_uuid(CONTEXT, uuid)
        work = {"run": host.run, "delete": host.delete}.get(action, host.settle)
        if action != "run":
            host.start()
            host.run(container)
            container.save()
        if action == "attach":
            assert api.post(f"/v1/containers/{uuid}/network_attach?network={networks[2]}").status == 200
        if action == "detach":
            assert api.post(f"/v1/containers/{uuid}/network_detach?port={mine}").status == 202
        ports = {each.uuid for each in NetworkPort.list_by_container(CONTEXT, uuid) if not each.leaving}
        with monkeypatch.context() as patched:
            dead = killed(host, patched, Steps(at, after=after), work, container)
        host.start()
        if action != "delete" or dead:
            container = Container.get_by_uuid(CONTEXT, uuid)
            if then == "again":
                work(container)
                host.networks.sweep(CONTEXT)
                assert action == "delete" or host.wired(container) == ports, at
            if then == "swept":
                host.lose(container)
            elif (action, then) != ("delete", "again"):
                host.delete(container)
        swept(host.driver, neutron)
        assert host.left() == [] and neutron.groups == {}, at
        assert {port: each["device_id"] for port, each in neutron.ports.items()} == {mine: ""}, at
        neutron.ports.clear()
    assert at > ACTIONS[action]
