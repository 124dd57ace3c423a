# SPDX-License-Identifier: Apache-2.0
"""A cloud in this process whose API serves the page: hosts and containers in memory, and a stand-in of keystone."""

import pathlib
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import keystoneauth1.loading
import requests
from keystonemiddleware import auth_token
from oslo_config import cfg

from zun.api import microversion
from zun.cmd import api, wsproxy
from zun.tests.browser.keystone import PASSWORD, USERS, Keystone, keystone
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import SETTLED, Cloud, machine
from zun.tests.unit.topology.machines import EXPANDERS, build
from zun.topology import HostTopology, discover

DEVICE_SPECS = (
    '{"vendor_id": "1234", "product_id": "11e8", "resource_class": "CUSTOM_GPU"}',
    '{"vendor_id": "1b36", "product_id": "0010", "resource_class": "CUSTOM_DISK"}',
)
ALIAS = '{"name": "gpu", "resource_class": "CUSTOM_GPU"}'


@dataclass(frozen=True, slots=True)
class Service:
    cloud: Cloud
    keystone: Keystone
    base: str  # URL of the API, without a slash at its end

    @property
    def page(self) -> str:
        return f"{self.base}/ui/"

    def ask(self, user: str, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON answer to a request of ``user`` in the first of the user's projects."""
        token = self.keystone.issue(user, next(iter(USERS[user])))
        headers = {"X-Auth-Token": token, "OpenStack-API-Version": f"container {microversion.MAX}"}
        answer = requests.request(method, f"{self.base}{path}", json=body, headers=headers, timeout=60)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def run(self, user: str, **fields: Any) -> dict[str, Any]:
        """Create a container, and return it once nothing works on it any more."""
        made = self.ask(user, "POST", "/v1/containers?run=true", {"image": "busybox", "memory": 64, **fields})
        return wait_for(lambda: self._settled(user, made["uuid"]))

    def _settled(self, user: str, uuid: str) -> dict[str, Any] | None:
        shown: dict[str, Any] = self.ask(user, "GET", f"/v1/containers/{uuid}")
        return shown if shown["status"] in SETTLED and shown["task_state"] is None else None


def machines(folder: pathlib.Path) -> Mapping[str, HostTopology]:
    """Return two plain machines, and one that was recorded with its devices."""
    return {
        "node-a": machine(cells=2, cores=8, threads=2, memory_mib=16384),
        "node-b": machine(cells=4, cores=4, threads=1, memory_mib=8192),
        "node-pci": discover(build(folder / "node-pci", EXPANDERS), process_limits=False),
    }


@contextmanager
def service(
    hosts: Mapping[str, HostTopology], specs: Sequence[str] = DEVICE_SPECS, **options: Any
) -> Iterator[Service]:
    """Run a service with ``hosts``, in the database of this process.

    ``specs`` select devices, and ``options`` are group__option.
    """
    with ExitStack() as stack:
        identity = stack.enter_context(keystone())
        cloud = stack.enter_context(
            Cloud(
                hosts,
                **{
                    "api__auth_strategy": "keystone",
                    "api__port": _free_port(),
                    "compute__audit_interval": 0,
                    "ui__enabled": True,
                    "websocket_proxy__wsproxy_port": _free_port(),
                    "devices__device_spec": list(specs),
                    "devices__alias": [ALIAS],
                    "maximum_cpus": 64,
                    "quota__cpu": -1,
                    **options,
                },
            )
        )
        stack.enter_context(_asked(identity, cloud.conf))
        proxy = wsproxy.build(cloud.conf, next(iter(cloud.drivers.values())))
        server = api.Server(cloud.conf, api.build(cloud.conf, cloud.transport))
        for each in (proxy, server):
            each.start()
            stack.callback(each.stop)
        yield Service(cloud, identity, f"http://127.0.0.1:{cloud.conf.api.port}")


@contextmanager
def _asked(identity: Keystone, conf: cfg.ConfigOpts) -> Iterator[None]:
    """Have the API check tokens with ``identity``, each time."""
    for group, options in auth_token.list_opts():
        conf.register_opts(options, group=group)
    own = keystoneauth1.loading.get_auth_plugin_conf_options("password")
    conf.register_opts(own, group="keystone_authtoken")
    values = {
        "auth_type": "password",
        "auth_url": identity.url,
        "username": "zun",
        "password": PASSWORD,
        "project_name": "service",
        "user_domain_name": "Default",
        "project_domain_name": "Default",
        "token_cache_time": -1,
    }
    for name, value in values.items():
        conf.set_override(name, value, group="keystone_authtoken")
    yield
    conf.reset()  # one of them is required, and the next test sets it later
    conf.unregister_opts(own, group="keystone_authtoken")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
