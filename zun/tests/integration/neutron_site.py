# SPDX-License-Identifier: Apache-2.0
"""A service of its own for containers of the real Docker on networks of a real Neutron."""

import platform
import shlex
import uuid

import docker
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import session as ksa_session

from zun.neutron.client import NeutronClient
from zun.tests.fixtures import wait_for
from zun.tests.integration.container.daemon import IMAGE
from zun.tests.integration.programs import Program, TokenApi, free_port

SERVE = ["sh", "-c", "ip -o addr show eth0 > /tmp/index.html; exec httpd -f -p 80 -h /tmp"]


class Site:
    """An all-in-one of its own, and Neutron with the rights of its administrator, of a member and of a stranger."""

    def __init__(self, neutron_url, ovsdb, keystone, docker_url, folder):
        self.url, self.keystone, self.docker_url, self.folder = neutron_url, keystone, docker_url, folder
        self._ovsdb = ovsdb
        self.engine = docker.APIClient(docker_url, version="auto")
        self.suffix, self.port = uuid.uuid4().hex[:6], free_port()
        self.host = f"test-{self.suffix}"
        self.plugin = f"zun-{self.suffix}"
        self.user = f"neutron-{self.suffix}"
        made = keystone.user(self.user, "service", "service")
        keystone.admin.roles.grant(keystone.roles["admin"], user=made, project=keystone.projects["service"])
        self.admin, self.member, self.stranger = (
            self._client(keystone.auth(*who))
            for who in ((self.user, "service"), ("member", "demo"), ("stranger", "other"))
        )
        self.project = keystone.projects["demo"].id
        self.program = None

    def _client(self, auth):
        session = ksa_session.Session(auth)
        return NeutronClient(ks_adapter.Adapter(session, service_type="network", endpoint_override=self.url))

    def settings(self, **changed):
        who = {name: value for name, value in self.keystone.settings().items() if name not in ("token_cache_time",)}
        login = {**who, "username": self.keystone.named(self.user), "password": self.keystone.named(self.user)}
        del login["www_authenticate_uri"], login["interface"]
        usual = {
            "DEFAULT": {"state_path": self.folder / "state", "host": self.host},
            "api": {"port": self.port, "auth_strategy": "keystone", "access_log": False},
            "keystone_authtoken": self.keystone.settings() | {"token_cache_time": "300"},
            "docker": {"api_url": self.docker_url},
            "compute": {"reserved_host_memory_mb": 128, "sync_container_state_interval": 5},
            "capsule": {"sandbox_image": IMAGE, "sandbox_command": "sleep,1000000"},
            "network": {"driver": "neutron"},
            "neutron": {
                **login,
                "endpoint_override": self.url,
                "agent_host": platform.node(),
                "ovsdb_connection": self._ovsdb,
                "active_timeout": 20,
                "plugin_socket": f"/run/docker/plugins/{self.plugin}.sock",
            },
        }
        return {name: {**usual.get(name, {}), **changed.get(name, {})} for name in {**usual, **changed}}

    def start(self, **changed):
        self.program = Program(self.folder, "allinone", "allinone", (), self.settings(**changed))
        self.program.start()
        api = f"http://127.0.0.1:{self.port}/v1"
        self.api = TokenApi(api, self.keystone.token("member"))
        self.others = TokenApi(api, self.keystone.token("stranger"))
        self.root = TokenApi(api, self.keystone.token("admin"))

    def network(self, client=None, cidr="10.7.0.0/24", routes=(), dns="10.7.0.53", **fields):
        """A new network with a subnet; gives its id. ``routes`` and ``dns`` are those of its subnets of IPv4."""
        client = client or self.member
        made = client._one("networks", "network", "POST", {"network": {"name": "net", **fields}})
        for each in [cidr] if isinstance(cidr, str) else cidr:
            subnet = {"network_id": made["id"], "cidr": each, "ip_version": 6 if ":" in each else 4}
            if "." in each:
                subnet["dns_nameservers"] = [dns]
                subnet["host_routes"] = list(routes)
            client._one("subnets", "subnet", "POST", {"subnet": subnet})
        return made["id"]

    def group(self, name, *rules):
        made = self.member._one("security-groups", "security_group", "POST", {"security_group": {"name": name}})
        for rule in rules:
            given = {"security_group_id": made["id"], "direction": "ingress", **rule}
            self.member._one("security-group-rules", "security_group_rule", "POST", {"security_group_rule": given})
        return made["id"]

    def run(self, api=None, **fields):
        api = api or self.api
        shown = api.settled(api.run(**fields))
        assert shown["status"] == "Running", shown["status_reason"]
        return shown

    def running(self, container):
        """Wait until the API shows that the container runs."""
        wait_for(lambda: self.api.get(f"/containers/{container['uuid']}")["status"] == "Running", 60)

    def inside(self, container, *command):
        reply = self.api.request(
            "POST", f"/containers/{container['uuid']}/execute", params={"command": shlex.join(command)}
        )
        assert reply.status_code == 200, reply.text
        return reply.json()["output"]

    def change(self, container, action, api=None, status=202, **query):
        version = {"OpenStack-API-Version": "container 1.14"}  # the last with the calls on security groups
        path = f"/containers/{container['uuid']}/{action}"
        reply = (api or self.api).request("POST", path, params=query, headers=version)
        assert reply.status_code == status, reply.text
        return reply

    def reaches(self, container, address, port=80):
        # "nc -w" limits the connecting only: a connection that is cut while it is open would hang.
        ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 3 nc -w 2 {address} {port}"
        return "inet" in self.inside(container, "sh", "-c", ask)

    def ports(self, **query):
        return {each["id"]: each for each in self.admin.ports(project_id=self.project, **query)}

    def left(self):
        """What is on this machine of this site: its Docker networks and its interfaces."""
        networks = [each["Name"] for each in self.engine.networks(filters={"label": f"zun.host={self.host}"})]
        return networks, [each.name for each in (self.folder / "state" / "neutron").glob("*.json")]

    def delete(self, *containers):
        for each in containers:
            reply = self.api.request("DELETE", f"/containers/{each['uuid']}?stop=true")
            assert reply.status_code == 204, reply.text
        for each in containers:
            wait_for(lambda uuid=each["uuid"]: self.api.request("GET", f"/containers/{uuid}").status_code == 404, 60)

    def clear(self):
        """Delete all capsules and containers; start the program for it if a test killed it."""
        if self.program.process is None:
            self.program.start()
        for each in self.api.get("/capsules")["capsules"]:
            self.api.request("DELETE", f"/capsules/{each['uuid']}")
        wait_for(lambda: not self.api.get("/capsules")["capsules"], 60)
        self.delete(*self.api.get("/containers")["containers"])

    def clean(self):
        if self.program is not None:
            self.clear()
            self.program.stop()
            print(self.program.log.read_text()[-9000:])
        for each in self.engine.containers(all=True, filters={"label": f"zun.host={self.host}"}):
            self.engine.remove_container(each["Id"], force=True)
        for each in self.engine.networks(filters={"label": f"zun.host={self.host}"}):
            self.engine.remove_network(each["Id"])
        self.engine.close()

    def interface_of(self, container):
        """What the first interface of a container or of a capsule's member has, which the API does not tell."""
        made = self.engine.exec_create(f"zun-{container}", ["ip", "-o", "addr", "show", "eth0"])
        return self.engine.exec_start(made["Id"]).decode()
