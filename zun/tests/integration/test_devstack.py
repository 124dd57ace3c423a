# SPDX-License-Identifier: Apache-2.0
"""The devstack plugin, phase by phase with devstack's own functions, and the programs started from what it wrote.

ZUN_DEVSTACK names a checkout of devstack, or an archive of one (tar).
"""

import configparser
import json
import os
import pathlib
import socket
import subprocess
import sys
import tarfile
import urllib.parse

import pytest
import requests

from zun.tests.certificates import Authority
from zun.tests.fixtures import wait_for
from zun.tests.integration import foreign, nginx, stock_client
from zun.tests.integration.own_database import own_database
from zun.tests.integration.programs import Client, free_port

__all__ = ["own_database"]

HERE = pathlib.Path(__file__).parent
PLUGIN = HERE.parents[2]
BIN = pathlib.Path(sys.executable).parent
TO_START = ("stack pre-install", "stack install", "stack post-config", "stack extra")
TO_END = ("unstack", "clean")


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """A checkout of devstack."""
    found = os.environ.get("ZUN_DEVSTACK")
    if not found:
        message = "ZUN_DEVSTACK does not name a checkout of devstack: git clone https://opendev.org/openstack/devstack"
        if os.environ.get("ZUN_REQUIRE_DEVSTACK") == "1":
            pytest.fail(message)
        pytest.skip(message)
    path = pathlib.Path(found)
    if path.is_dir():
        return path
    folder = tmp_path_factory.mktemp("devstack")
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    return next(stack.parent for stack in folder.rglob("stack.sh"))


class Stack:
    """A devstack below the folder ``root``, with the plugin as its only one.

    ``localrc`` has variables of local.conf, and names of services: ``+NAME`` enables one, ``-NAME`` disables it.
    """

    def __init__(self, root, checkout, localrc, environment):
        self.root, self.conf = root, root / "etc" / "zun.conf"
        places = {"ZUN_CONF_DIR": root / "etc", "ZUN_STATE_PATH": root / "state", "HORIZON_DIR": root / "horizon"}
        verbs = {"+": "enable_service", "-": "disable_service"}
        lines = [f"{name}={value}" for name, value in {**places, **localrc}.items() if name[0] not in verbs]
        lines += [f"{verbs[name[0]]} {name[1:]}" for name in localrc if name[0] in verbs]
        paths = {"DEVSTACK": checkout, "ROOT": root, "PLUGIN": PLUGIN, "BIN": BIN, "CLIENT": os.getpid()}
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OS_")},
            **{name: str(path) for name, path in paths.items()},
            **environment,
            "PATH": f"{BIN}:{environment.get('PATH', os.environ['PATH'])}",
            "LOCALRC": "\n".join(lines),
        }

    def run(self, *phases):
        done = subprocess.run(
            ["bash", str(HERE / "devstack" / "phases.sh"), *phases],
            env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def written(self):
        """Return the values of zun.conf by section."""
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(self.conf)
        return {"DEFAULT": dict(parser.defaults())} | {
            name: {key: value for key, value in parser[name].items() if key not in parser.defaults()}
            for name in parser.sections()
        }

    def calls(self):
        return (self.root / "calls").read_text().splitlines()

    def units(self):
        """Service -> the user that its unit names, and its command."""
        found = {}
        for path in (self.root / "systemd").glob("devstack@*.service"):
            unit = configparser.ConfigParser(interpolation=None, strict=False)
            unit.read(path)
            service = path.name.removeprefix("devstack@").removesuffix(".service")
            found[service] = (unit["Service"]["User"], unit["Service"]["ExecStart"])
        return found

    def log(self, service):
        return (self.root / "systemd" / f"devstack@{service}.service.log").read_text()

    def processes(self):
        return [int(path.read_text()) for path in (self.root / "systemd").glob("*.pid")]


@pytest.fixture
def stack(tmp_path, checkout):
    """Makes stacks whose services do not exist. So they have no keystone to make accounts in."""
    services = {"RABBIT_URL": "rabbit://rabbit/", "MYSQL_URL": "mysql+pymysql://mysql", "KEYSTONE_URL": "http://key/v3"}
    return lambda **localrc: Stack(tmp_path, checkout, {"-key": "", **localrc}, services)


PLACEMENT = {
    "auth_type": "password", "auth_url": "http://key/v3", "username": "zun", "password": "service-password",
    "user_domain_name": "Default", "project_name": "service", "project_domain_name": "Default",
    "valid_interfaces": "public", "region_name": "RegionOne", "mode": "report", "cafile": "",
}  # fmt: skip


SERVICE = {name: value for name, value in PLACEMENT.items() if name != "mode"}
DATABASE = {"connection": "mysql+pymysql://mysql/zun?charset=utf8"}


@pytest.mark.parametrize(
    ("localrc", "section", "expected"),
    [
        ({}, "compute", {"container_driver": "docker", "database": "conductor"}),
        (
            {"ZUN_CPU_DEDICATED_SET": "2-7", "ZUN_CPU_SHARED_SET": "0-1"},
            "compute",
            {
                "container_driver": "docker",
                "cpu_dedicated_set": "2-7",
                "cpu_shared_set": "0-1",
                "database": "conductor",
            },
        ),
        ({}, "api", None),
        ({"ZUN_USE_UWSGI": "False"}, "api", {"host_ip": "127.0.0.1", "port": "9517"}),
        (
            {"ZUN_USE_UWSGI": "False", "+tls-proxy": "", "DEVSTACK_CERT": "/cert"},
            "api",
            {"host_ip": "127.0.0.1", "port": "19517"},
        ),
        ({}, "oslo_middleware", {"enable_proxy_headers_parsing": "True"}),
        ({"ZUN_USE_UWSGI": "False"}, "oslo_middleware", None),
        (
            {"+tls-proxy": "", "DEVSTACK_CERT": "/cert"},
            "websocket_proxy",
            {
                "cert": "/cert",
                "wsproxy_host": "127.0.0.1",
                "wsproxy_port": "6784",
                "base_url": "wss://127.0.0.1:6784/",
                "allowed_origins": "127.0.0.1",
            },
        ),
        (
            {},
            "websocket_proxy",
            {
                "wsproxy_host": "127.0.0.1",
                "wsproxy_port": "6784",
                "base_url": "ws://127.0.0.1:6784/",
                "allowed_origins": "127.0.0.1",
            },
        ),
        ({}, "ui", {"enabled": "True"}),
        ({}, "placement", None),
        ({"+placement-api": ""}, "placement", PLACEMENT),
        ({"+placement-client": "", "ZUN_PLACEMENT_MODE": "enforce"}, "placement", PLACEMENT | {"mode": "enforce"}),
        ({"+placement-api": "", "ZUN_USE_PLACEMENT": "False"}, "placement", None),
    ],
)
def test_configuration(stack, localrc, section, expected):
    made = stack(**localrc)
    made.run("stack post-config")
    assert made.written().get(section) == expected


ALL = {"+g-api": "", "+c-api": "", "+q-svc": ""}
USED = {"glance": SERVICE, "cinder": SERVICE | {"enabled": "True"}, "neutron": SERVICE, "database": DATABASE}
CHOICES = ("ZUN_USE_GLANCE", "ZUN_USE_CINDER", "ZUN_USE_NEUTRON")
SUBNODE = {"SERVICE_HOST": "192.0.2.1"}


@pytest.mark.parametrize(
    ("localrc", "expected"),
    [
        pytest.param({}, {"database": DATABASE}, id="nothing-else"),
        pytest.param(ALL, USED, id="all"),
        pytest.param(ALL | dict.fromkeys(CHOICES, "False"), {"database": DATABASE}, id="unused"),
        pytest.param(
            SUBNODE | dict.fromkeys(CHOICES, "True"),
            {name: values for name, values in USED.items() if name != "database"},
            id="host",
        ),
        pytest.param(SUBNODE | {"ZUN_COMPUTE_DATABASE": "direct"}, {"database": DATABASE}, id="host-without-conductor"),
    ],
)
def test_other_services(stack, localrc, expected):
    made = stack(**localrc)
    made.run("stack post-config")
    written = made.written()
    assert {name: written[name] for name in USED if name in written} == expected
    assert written["network"].get("driver") == ("neutron" if "neutron" in expected else None)
    assert written["DEFAULT"].get("image_driver_list") == ("docker,glance" if "glance" in expected else None)


@pytest.mark.parametrize(
    ("localrc", "expected"),
    [
        ({}, {"zun-api", "zun-scheduler", "zun-conductor", "zun-compute", "zun-wsproxy"}),
        ({"SERVICE_HOST": "192.0.2.1"}, {"zun-compute", "zun-wsproxy"}),
    ],
    ids=["controller", "host"],
)
def test_services_of_a_machine(stack, localrc, expected):
    said = stack(**localrc).run()
    enabled = said.splitlines()[-1].removeprefix("enabled: ").split(",")
    assert {name for name in enabled if name.startswith("zun")} == expected


def test_installation(stack):
    made = stack(LIBS_FROM_GIT="")
    made.run("stack install")
    assert made.calls() == [
        "install_package e2fsprogs",
        f"git_clone file:///home/stack/zun {PLUGIN} stable",
        f"setup_develop {PLUGIN}",
        "install_apache_uwsgi",
        f"setup_develop {PLUGIN} client",
    ]


@pytest.mark.parametrize(
    ("there", "installed"),
    [
        pytest.param((), ["docker.io", "docker-cli"], id="nothing"),
        pytest.param(("dockerd",), ["docker-cli"], id="daemon-of-debian-13"),
        pytest.param(("dockerd", "docker"), [], id="both"),
    ],
)
def test_daemon_and_client_of_docker_are_installed(tmp_path, checkout, there, installed):
    commands = tmp_path / "commands"
    commands.mkdir()
    for folder in map(pathlib.Path, ("/usr/sbin", "/usr/bin")):
        for path in folder.iterdir():
            if not path.name.startswith("docker") and not (commands / path.name).is_symlink():
                (commands / path.name).symlink_to(path)
    for name in there:
        (commands / name).symlink_to("/bin/true")
    urls = {"RABBIT_URL": "rabbit://rabbit/", "MYSQL_URL": "mysql+pymysql://mysql", "KEYSTONE_URL": "http://key/v3"}
    made = Stack(tmp_path, checkout, {"-key": ""}, urls | {"PATH": str(commands)})
    made.run("stack install")
    packages = [each.removeprefix("install_package ") for each in made.calls()]
    assert [each for each in packages if each.startswith("docker")] == installed


def test_packages_of_other_services(stack):
    made = stack(**ALL)
    made.run("stack install")
    assert {"install_package open-iscsi", f"setup_develop {PLUGIN} cinder,neutron"} <= set(made.calls())


def test_uwsgi(stack):
    made = stack()
    made.run("stack post-config")
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(made.root / "etc/zun-uwsgi.ini")
    assert parser["uwsgi"]["module"] == "zun.wsgi.api:application"
    way = f'"/container" "unix:{made.root}/uwsgi/zun-api.socket|uwsgi://uwsgi-uds-zun-api"'
    assert (made.root / "apache/zun-api.conf").read_text().startswith(f"ProxyPass {way} ")


def test_tempest(stack):
    made = stack(**{"+tempest": "", "TEMPEST_CONFIG": "$ROOT/tempest.conf"})
    made.run("stack test-config")
    parser = configparser.ConfigParser()
    parser.read(made.root / "tempest.conf")
    assert parser["service_available"]["zun"] == "True"


def test_nothing_without_services(stack):
    made = stack(**{"-zun-api": "", "-zun-scheduler": "", "-zun-conductor": "", "-zun-compute": "", "-zun-wsproxy": ""})
    made.run(*TO_START, *TO_END)
    assert not (made.root / "calls").exists() and not made.conf.exists()


@pytest.fixture
def whole(tmp_path, checkout, rabbit_url, own_database, keystone, docker_url):
    """A stack with real services, which has run no phase yet. It leaves no container and no process.

    Its API runs under uWSGI, with nginx for Apache.
    """
    stock_client.start()
    admin = urllib.parse.urlsplit(os.environ["ZUN_TEST_KEYSTONE_URL"])
    auth = {"auth_url": keystone.url, "username": admin.username, "password": admin.password}
    auth |= {"user_domain_id": "default"}
    clouds = {
        "devstack-system-admin": {"auth": auth | {"system_scope": "all"}, "region_name": "RegionOne"},
        "devstack-admin": {
            "auth": auth | {"project_name": "admin", "project_domain_id": "default"}, "region_name": "RegionOne",
        },
    }  # fmt: skip
    (tmp_path / "clouds.yaml").write_text(json.dumps({"clouds": clouds}))
    for old in keystone.admin.services.list(type="container"):
        keystone.admin.services.delete(old)
    if not keystone.admin.projects.list(name="service"):
        keystone.admin.projects.create("service", "default")
    environment = {
        "RABBIT_URL": rabbit_url,
        "MYSQL_URL": own_database.url.removesuffix("/zun"),
        "KEYSTONE_URL": keystone.url,
        "PATH": f"{foreign.installed('uwsgi')}/bin:{os.environ['PATH']}",
        "PYTHONPATH": foreign.OURS,
    }
    localrc = {
        "ZUN_SERVICE_HOST": f"127.0.0.2:{free_port()}",
        "ZUN_WEBSOCKET_PROXY_PORT": free_port(),
        "ZUN_DOCKER_API_URL": docker_url,
    }
    made = Stack(tmp_path, checkout, localrc, environment)
    with nginx.serving(tmp_path, tmp_path / "sites/*.conf"):
        yield made
        made.run(*TO_END)
    for old in keystone.admin.services.list(type="container"):
        keystone.admin.services.delete(old)


@nginx.needed
def test_tls_proxy(tmp_path, checkout, rabbit_url, own_database):
    authority, address, port = Authority(), "127.0.0.2", free_port()
    (tmp_path / "cert.pem").write_bytes(b"".join(authority.issue("zun", address)))
    (tmp_path / "authority.pem").write_bytes(authority.pem)
    urls = {"RABBIT_URL": rabbit_url, "MYSQL_URL": own_database.url.removesuffix("/zun"), "KEYSTONE_URL": "http://key"}
    localrc = {
        "HOST_IP": address, "SERVICE_HOST": address, "ZUN_USE_UWSGI": "False", "ZUN_SERVICE_PORT": port,
        "ZUN_SERVICE_PORT_INT": free_port(), "+tls-proxy": "", "DEVSTACK_CERT": tmp_path / "cert.pem", "-key": "",
        "-zun-scheduler": "", "-zun-conductor": "", "-zun-compute": "", "-zun-wsproxy": "",
    }  # fmt: skip
    made = Stack(tmp_path, checkout, localrc, urls)
    with nginx.serving(tmp_path, tmp_path / "sites/*.conf"):
        try:
            made.run("stack post-config", "stack extra")
            answer = requests.get(f"https://{address}:{port}/", verify=tmp_path / "authority.pem", timeout=60)
            assert answer.json()["default_version"]["links"][0]["href"] == f"https://{address}:{port}/v1/"
        finally:
            made.run(*TO_END)


def rules():
    """Return the rules of the table mangle for both versions of IP."""
    path = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    commands = ("iptables-save", "ip6tables-save")
    return "".join(subprocess.check_output([each, "-t", "mangle"], env=path, text=True) for each in commands)


@pytest.mark.foreign
@pytest.mark.alone  # the plugin removes the firewall of all agents of the machine
@nginx.needed
def test_from_stack_to_clean(whole, engine, tmp_path):
    ours = {"label": f"zun.host={socket.gethostname()}"}

    def found():
        return [*engine.containers(all=True, filters=ours), *(engine.volumes(filters=ours)["Volumes"] or ())]

    whole.run(*TO_START)
    command = f"{BIN}/zun-compute --config-file {whole.conf}"
    assert whole.units()["zun-compute"] == ("root", command)
    assert "/bin/uwsgi --procname-prefix zun-api --ini " in whole.units()["zun-api"][1]
    assert whole.units().keys() == {"zun-api", "zun-scheduler", "zun-conductor", "zun-compute", "zun-wsproxy"}

    client = Client(None, {"OS_CLOUD": "devstack-admin", "OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml")})
    up = {"Binary": "zun-compute", "State": "up"}.items()
    wait_for(lambda: [each for each in client.json("appcontainer", "service", "list") if up <= each.items()], 60)
    client(
        "appcontainer", "run", "--wait", "--name", "pinned", "--cpu-policy", "dedicated", "--cpu", "1",
        "--memory", "64", "--mount", "source=data,destination=/data", "zun-demo", "sleep", "1000",
    )  # fmt: skip
    shown = client.json("appcontainer", "show", "pinned")
    assert shown["status"] == "Running", shown["status_reason"]
    pinned = engine.inspect_container(f"zun-{shown['uuid']}")["HostConfig"]
    assert pinned["CpusetCpus"].isdecimal() and pinned["CpusetMems"].isdecimal()

    processes = whole.processes()
    whole.run("unstack")
    assert whole.processes() == [] and not any(pathlib.Path(f"/proc/{each}").exists() for each in processes)
    assert engine.inspect_container(f"zun-{shown['uuid']}")["State"]["Running"], "unstack keeps containers"
    assert len(found()) == 2 and "ZUN-" in rules()
    whole.run("clean")
    assert found() == [] and "ZUN-" not in rules()
    assert not whole.conf.parent.exists() and not (whole.root / "state").exists() and whole.units() == {}
