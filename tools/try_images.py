#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Start every program of the service from its image, and use them: ``tools/images.sh try``.

RabbitMQ, MariaDB, keystone and Docker are those of ``tools/services.sh start``; Neutron is used if it runs too. One
``zun-compute`` and one ``zun-wsproxy`` make this machine a host. A pinned container with a mount runs, with a port if
there is Neutron, a terminal opens, and ``zun-compute`` is replaced while the container runs. The tools for volumes of
Cinder are only started. At the end everything is removed, except queues in RabbitMQ. Needs root.
"""

import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import sqlalchemy as sa
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1.identity import v3
from websockets.sync.client import connect

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import TokenApi, free_port

TAG = os.environ.get("ZUN_IMAGE_TAG", "latest")
NAME = f"zun-try-{uuid.uuid4().hex[:8]}"
SOCKET = "/var/run/docker.sock"
CONFIG_FILES = "/var/lib/kolla/config_files"
PLUGINS = "/run/docker/plugins"
ON_HOST = ["--pid", "host", *(word for path in ("/sys", "/dev", SOCKET, PLUGINS) for word in ("-v", f"{path}:{path}"))]
DISK = "type=bind,src={0},dst={0},readonly,bind-nonrecursive"
CAPABILITIES = """
chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service
net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin
sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap mac_override
mac_admin syslog wake_alarm block_suspend audit_read
"""
"""Those that Docker 20.10 knows, in the order of the kernel's numbers: chown is 0."""
READY_SECONDS = 180
VOLUME_TOOLS = (
    ("python", "-c", "import os_vif, vif_plug_ovs, os_brick.initiator.connector"),
    *(("sh", "-c", f"command -v {name}") for name in ("iscsiadm", "multipath", "lsscsi", "sg_scan", "nvme", "rbd")),
    ("test", "-x", "/sbin/mount.nfs"),
)


def say(text: str) -> None:
    print(f"==> {text}", file=sys.stderr, flush=True)


def docker(*words: str, check: bool = True) -> str:
    done = subprocess.run(
        ["docker", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if check and done.returncode:
        raise SystemExit(f"docker {' '.join(words)}\n{done.stdout}")
    return done.stdout.strip()


def needed(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise SystemExit(f"{variable} is not set. Run tools/services.sh start, which starts what is needed.")
    return value


def password_of(url: str) -> tuple[str, dict[str, str]]:
    """Return the address of keystone and the login of its administrator, from ``http://USER:PASSWORD@HOST:PORT/v3``."""
    parts = urllib.parse.urlsplit(url)
    login = {"username": str(parts.username), "password": str(parts.password), "project_name": "admin"}
    return parts._replace(netloc=f"{parts.hostname}:{parts.port}").geturl(), {
        **login,
        "user_domain_id": "default",
        "project_domain_id": "default",
    }


def privileged() -> list[str]:
    """Return ``--privileged``, or the same in words on a machine that itself lacks capabilities: Docker fails there."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    bound = int(next(line.split()[1] for line in lines if line.startswith("CapBnd")), 16)
    lacking = [name for number, name in enumerate(CAPABILITIES.split()) if not bound >> number & 1]
    if not lacking:
        return ["--privileged"]
    say(f"This machine lacks {', '.join(lacking)}: zun-compute gets everything else")
    added = [word for name in CAPABILITIES.split() if name not in lacking for word in ("--cap-add", name)]
    unconfined = [word for what in ("seccomp", "systempaths") for word in ("--security-opt", f"{what}=unconfined")]
    return [*added, *unconfined, "--device-cgroup-rule", "a *:* rwm"]


@contextmanager
def own_database() -> Iterator[str]:
    url, name = sa.make_url(needed("ZUN_TEST_MYSQL_URL")), NAME.replace("-", "_")
    server = sa.create_engine(url)
    with server.begin() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name} CHARACTER SET utf8mb4"))
    try:
        yield url.set(database=name).render_as_string(hide_password=False)
    finally:
        with server.begin() as connection:
            connection.execute(sa.text(f"DROP DATABASE {name}"))
        server.dispose()


@contextmanager
def state_folder(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder whose mounts are seen alike by the agent's container, by Docker and by the host."""
    path.mkdir()
    subprocess.run(["mount", "--bind", path, path], check=True)
    subprocess.run(["mount", "--make-shared", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--recursive", path], check=True)


class Cloud:
    """Containers of the service, all in the network of this machine."""

    def __init__(self, folder: pathlib.Path, database: str) -> None:
        self._folder = folder
        self.state = folder / "state"
        self.port, proxy = free_port(), free_port()
        address, login = password_of(needed("ZUN_TEST_KEYSTONE_URL"))
        session = ksa_session.Session(v3.Password(address, **login))
        self.token = session.get_token()
        common = {
            "DEFAULT": {
                "host": NAME,
                "transport_url": needed("ZUN_TEST_RABBIT_URL"),
                "control_exchange": NAME,
                "state_path": self.state,
            },
            "oslo_messaging_rabbit": {"rabbit_quorum_queue": "true"},
        }
        tokens = {"www_authenticate_uri": address, "auth_url": address, "auth_type": "password", "interface": "public"}
        controller = {"database": {"connection": database}, "keystone_authtoken": {**tokens, **login}}
        host = {
            "compute": {"database": "conductor", "reserved_host_memory_mb": 512},
            "websocket_proxy": {"wsproxy_port": proxy, "base_url": f"ws://127.0.0.1:{proxy}/"},
        }
        url, switch = os.environ.get("ZUN_TEST_NEUTRON_URL"), os.environ.get("ZUN_TEST_NEUTRON_OVSDB")
        self.neutron = ks_adapter.Adapter(session, endpoint_override=url) if url and switch else None
        if self.neutron:
            settings = {"auth_url": address, "auth_type": "password", **login, "endpoint_override": url}
            settings |= {"agent_host": platform.node(), "ovsdb_connection": switch}
            settings |= {"plugin_socket": f"{PLUGINS}/{NAME}.sock"}
            common |= {"network": {"driver": "neutron"}, "neutron": settings}
        group, disk = str(os.stat(SOCKET).st_gid), docker("info", "-f", "{{.DockerRootDir}}")
        self.programs: dict[str, tuple[dict[str, dict], list[str]]] = {
            "zun-conductor": ({**common, **controller}, []),
            "zun-scheduler": ({**common, **controller}, []),
            "zun-api": ({**common, **controller, "api": {"host_ip": "127.0.0.1", "port": self.port}}, []),
            "zun-compute": (
                {**common, **host},
                [*privileged(), *ON_HOST, "-v", f"{self.state}:{self.state}:shared", "--mount", DISK.format(disk)],
            ),
            "zun-wsproxy": ({**common, **host}, ["-v", f"{SOCKET}:{SOCKET}", "--group-add", group]),
        }

    def write(self) -> None:
        for program, (settings, _) in self.programs.items():
            into = self._folder / program
            into.mkdir()
            lines = (
                f"[{group}]\n" + "".join(f"{option} = {value}\n" for option, value in options.items())
                for group, options in settings.items()
            )
            (into / "zun.conf").write_text("".join(lines))
            copied = {"source": f"{CONFIG_FILES}/zun.conf", "dest": "/etc/zun/zun.conf"}
            entry = {**copied, "owner": "root:zun", "perm": "0640"}
            (into / "config.json").write_text(json.dumps({"command": program, "config_files": [entry]}))

    def container(self, program: str) -> str:
        return f"{NAME}-{program}"

    def start(self, program: str) -> None:
        began = time.monotonic()
        docker("run", "-d", "--name", self.container(program), *self._words(program), f"{program}:{TAG}")

        def ready() -> bool:
            said = docker("logs", self.container(program))
            if docker("inspect", "-f", "{{.State.Running}}", self.container(program)) != "true":
                raise SystemExit(f"{program} ended:\n{said}")
            return " is ready" in said

        wait_for(ready, READY_SECONDS)
        user = docker("top", self.container(program), "-o", "uid,pid,args").splitlines()[1].split()[0]
        say(f"{program} is ready after {time.monotonic() - began:.1f} s, as uid {user}")

    def bootstrap(self) -> None:
        words = ("--rm", "-e", "KOLLA_BOOTSTRAP=", *self._words("zun-api"), f"zun-api:{TAG}")
        say(docker("run", *words).splitlines()[-1])

    def _words(self, program: str) -> list[str]:
        mounted = f"{self._folder / program}:{CONFIG_FILES}:ro"
        return ["--network", "host", "-v", mounted, *self.programs[program][1]]

    def stop(self, program: str) -> None:
        docker("stop", "-t", "60", self.container(program))
        code = docker("inspect", "-f", "{{.State.ExitCode}}", self.container(program))
        docker("rm", self.container(program))
        if code != "0":
            raise SystemExit(f"{program} ended with {code} at SIGTERM")

    def tell_logs(self, kind: type[BaseException] | None, *_: object) -> None:
        """Print the end of each program's log after a failure."""
        if kind is None:
            return
        for program in self.programs:
            if (container := self.container(program)) in docker("ps", "-a", "--format", "{{.Names}}").split():
                say(f"The log of {program}:\n{docker('logs', '--tail', '15', container)}")

    def remove(self) -> None:
        """Remove everything, whatever the state. Containers of users have the host's name as a label."""
        for words in (["ps", "-aq", "--filter", f"name=^{NAME}-"], ["ps", "-aq", "--filter", f"label=zun.host={NAME}"]):
            for each in docker(*words).split():
                docker("rm", "-f", each, check=False)
        for kind in ("network", "volume"):
            for each in docker(kind, "ls", "-q", "--filter", f"label=zun.host={NAME}").split():
                docker(kind, "rm", each, check=False)
        pathlib.Path(PLUGINS, f"{NAME}.sock").unlink(missing_ok=True)


@contextmanager
def network(neutron: ks_adapter.Adapter) -> Iterator[str]:
    """A network of Neutron with a subnet."""
    made = neutron.post("/v2.0/networks", json={"network": {"name": NAME}}).json()["network"]["id"]
    try:
        subnet = {"network_id": made, "cidr": "10.9.0.0/24", "ip_version": 4}
        neutron.post("/v2.0/subnets", json={"subnet": subnet})
        yield made
    finally:
        for port in neutron.get("/v2.0/ports", params={"network_id": made}).json()["ports"]:  # after a failure
            neutron.delete(f"/v2.0/ports/{port['id']}")
        neutron.delete(f"/v2.0/networks/{made}")


def type_into(api: TokenApi, container: str) -> None:
    """Open a terminal through zun-wsproxy and calculate in it."""
    query = {"command": "sh", "interactive": "true", "run": "false"}
    answer = api.request("POST", f"/containers/{container}/execute", params=query)
    answer.raise_for_status()
    heard = b""
    with connect(answer.json()["proxy_url"], max_size=None) as terminal:
        terminal.send(b"echo $((6 * 7))\n")
        while b"\n42" not in heard:
            piece = terminal.recv(timeout=60)
            heard += piece if isinstance(piece, bytes) else piece.encode()
    say("A terminal through zun-wsproxy calculates 6 * 7 = 42")


def kernel(container: str) -> tuple[str, str]:
    """Return the process id of a user's container, and the CPUs that the kernel allows it."""
    pid = docker("inspect", "-f", "{{.State.Pid}}", f"zun-{container}")
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return pid, next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list"))


def use(cloud: Cloud, nets: list[dict[str, str]]) -> None:
    api = TokenApi(f"http://127.0.0.1:{cloud.port}/v1", cloud.token, "1.46")
    found = {each["binary"]: each["state"] for each in wait_for(lambda: api.get("/services")["services"])}
    say(f"service list: {found}")
    wait_for(lambda: api.get("/hosts")["hosts"], READY_SECONDS)
    wanted = {"cpu_policy": "dedicated", "cpu": 1, "mounts": [{"size": "16M", "destination": "/scratch"}]}
    made = api.settled(api.run(**wanted, nets=nets), READY_SECONDS)
    if made["status"] != "Running":
        raise SystemExit(f"the container is {made['status']}: {made['status_reason']}")
    before = kernel(made["uuid"])
    if before[1] != made["cpuset_cpus"]:
        raise SystemExit(f"the claim says CPUs {made['cpuset_cpus']}, the kernel {before[1]}")
    say(f"A pinned container runs as process {before[0]}; claim and kernel say CPU {before[1]}")
    if nets:
        ((address,),) = made["addresses"].values()
        (port,) = cloud.neutron.get("/v2.0/ports", params={"id": address["port"]}).json()["ports"]
        answer = api.request("POST", f"/containers/{made['uuid']}/execute", params={"command": "ip addr show eth0"})
        if port["status"] != "ACTIVE" or address["addr"] not in answer.json()["output"]:
            raise SystemExit(f"the port is {port['status']}, and the container has {answer.json()['output']}")
        say(f"Its port of Neutron is ACTIVE, and its interface has the address {address['addr']}")
    type_into(api, made["uuid"])
    say("Replacing zun-compute by a new container")
    cloud.stop("zun-compute")
    cloud.start("zun-compute")
    if kernel(made["uuid"]) != before:
        raise SystemExit(f"the container was {before} and is {kernel(made['uuid'])}")
    answer = api.request("POST", f"/containers/{made['uuid']}/execute", params={"command": "df -h /scratch"})
    answer.raise_for_status()
    say(f"The container runs on as process {before[0]}, with its mount: {answer.json()['output'].splitlines()[-1]}")
    api.delete_all()
    if left := docker("ps", "-aq", "--filter", f"label=zun.host={NAME}"):
        raise SystemExit(f"the deletion left {left}")
    say("The container is deleted")


def main() -> None:
    for program in ("zun-api", "zun-scheduler", "zun-conductor", "zun-compute", "zun-wsproxy"):
        if not docker("images", "-q", f"{program}:{TAG}"):
            raise SystemExit(f"There is no image {program}:{TAG}. Run tools/images.sh build.")
    for words in VOLUME_TOOLS:
        docker("run", "--rm", "--network", "none", f"zun-compute:{TAG}", *words)
    say("zun-compute has os-vif, os-brick and the tools for volumes of Cinder")
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zun-images.")))
        cloud = Cloud(folder, stack.enter_context(own_database()))
        stack.enter_context(state_folder(cloud.state))
        nets = [{"network": stack.enter_context(network(cloud.neutron))}] if cloud.neutron else []
        stack.callback(cloud.remove)
        stack.push(cloud.tell_logs)
        cloud.write()
        cloud.bootstrap()
        for program in cloud.programs:
            cloud.start(program)
        use(cloud, nets)
        for program in reversed(cloud.programs):
            cloud.stop(program)
        say("All programs stopped in order. Everything works.")


if __name__ == "__main__":
    main()
