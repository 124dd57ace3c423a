# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import pathlib
import platform
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import amqp
import docker
import kombu
import pytest
import sqlalchemy as sa
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint

from zun.messaging import rpc
from zun.neutron.client import NeutronClient
from zun.placement.client import PlacementClient
from zun.tests.fixtures import wait_for
from zun.tests.integration.container.daemon import IMAGE, docker_url
from zun.tests.integration.identity import Keystone
from zun.tests.integration.programs import Client, Program, free_port, stop_all

__all__ = ["docker_url"]

SECONDS = 300  # a test hangs after this; programs and containers take their time where the machine is busy

# Of each of these services there is one part that all tests use: keystone's catalogue, the queues of each topic in
# RabbitMQ, Neutron's switch.
IN_TURN = {"cinder_url", "glance_url", "keystone", "neutron_ovsdb", "neutron_url", "rabbit_url"}


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test a time limit, and the mark ``in_turn`` if it must not run beside another test with this mark."""
    here = pathlib.Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))
        if IN_TURN.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.in_turn)


@pytest.fixture
def short_path(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder for a daemon with sockets: ``tmp_path`` has the name of the test, and a socket's path has 107 bytes."""
    return tmp_path_factory.mktemp("d")


@pytest.fixture
def program(tmp_path: pathlib.Path) -> Iterator[Callable[..., Program]]:
    """Makes programs, and ends those that still run when the test is over."""
    made: list[Program] = []

    def make(module: str, name: str | None = None, words: tuple[str, ...] = (), **settings: Any) -> Program:
        made.append(Program(tmp_path, module, name or module, words, settings))
        return made[-1]

    yield make
    stop_all(made)
    for each in made:
        if each.log.exists():  # pytest shows this beside a failure
            print(f"--- {each.log.name}\n{each.log.read_text()[-6000:]}")


@pytest.fixture
def on_docker(
    docker_url: str, engine: docker.APIClient, program: Callable[..., Program], tmp_path: pathlib.Path
) -> Iterator[Callable[..., Program]]:
    """Makes the service in one process, for containers of the real Docker, as a host of a name of its own. It has its
    ``host`` and the ``url`` of its API, and is not started yet. Its default networks are removed after the test.
    """
    hosts: list[str] = []

    def make(**settings: dict[str, Any]) -> Program:
        port, host = free_port(), f"test-{uuid.uuid4().hex[:8]}"
        usual: dict[str, dict[str, Any]] = {
            "DEFAULT": {"state_path": tmp_path / "state", "host": host},
            "api": {"port": port},
            "docker": {"api_url": docker_url},
            "compute": {"reserved_host_memory_mb": 128},
        }
        made = program("allinone", **{name: usual.get(name, {}) | settings.get(name, {}) for name in usual | settings})
        made.host, made.url = host, f"http://127.0.0.1:{port}/v1"
        hosts.append(host)
        return made

    yield make
    for host in hosts:  # a sweep of the service would have done so within a minute
        for network in engine.networks(filters={"label": [f"zun.host={host}", "zun.default"]}):
            with contextlib.suppress(docker.errors.APIError):  # a test that failed left a container
                engine.remove_network(network["Id"])


@pytest.fixture
def engine(docker_url: str) -> Iterator[docker.APIClient]:
    """A client of the daemon, beside the service's own."""
    client = docker.APIClient(docker_url, version="auto")
    yield client
    client.close()


def _service(variable: str, required: str) -> str:
    url = os.environ.get(variable)
    if not url:
        message = f"{variable} is not set: start the services with 'tools/services.sh start' and use its 'env'"
        if os.environ.get(required) == "1":
            pytest.fail(message)
        pytest.skip(message)
    return url


@pytest.fixture
def rabbit_server() -> str:
    """A real RabbitMQ, for a test that needs to know only that it is wanted."""
    return _service("ZUN_TEST_RABBIT_URL", "ZUN_REQUIRE_RABBIT")


@pytest.fixture
def rabbit_url(rabbit_server: str) -> str:
    """A real RabbitMQ, without the queues that programs of earlier tests left.

    Those of a topic belong to all services whatever their exchange. They keep what nobody took, and another kind of
    queue under their name (classic, quorum) is refused for ever.
    """
    for topic in (rpc.SCHEDULER_TOPIC, rpc.COMPUTE_TOPIC, rpc.CONDUCTORS_TOPIC):
        absent = contextlib.suppress(amqp.NotFound)
        with absent, kombu.Connection(rabbit_server.replace("rabbit://", "amqp://", 1)) as connection:
            channel = connection.default_channel
            if not channel.queue_declare(topic, passive=True).consumer_count:
                channel.queue_delete(topic)
    return rabbit_server


@pytest.fixture(scope="module")
def keystone() -> Keystone:
    """A real keystone, with a project and people for the tests of one module."""
    return Keystone(_service("ZUN_TEST_KEYSTONE_URL", "ZUN_REQUIRE_KEYSTONE"))


@pytest.fixture
def placement_url() -> str:
    """A real Placement, which takes ``admin`` for a token."""
    return _service("ZUN_TEST_PLACEMENT_URL", "ZUN_REQUIRE_PLACEMENT")


@pytest.fixture
def placement_client(placement_url: str) -> PlacementClient:
    session = ksa_session.Session(auth=token_endpoint.Token(placement_url, "admin"))
    return PlacementClient(ks_adapter.Adapter(session, service_type="placement"))


@pytest.fixture(scope="module")
def glance_url(keystone: Keystone) -> str:
    """A real Glance, which asks the real keystone and is in its catalogue."""
    url = _service("ZUN_TEST_GLANCE_URL", "ZUN_REQUIRE_GLANCE")
    keystone.publish(url, "image")
    return url


@pytest.fixture(scope="module")
def neutron_url() -> str:
    """A real Neutron, which asks the real keystone."""
    return _service("ZUN_TEST_NEUTRON_URL", "ZUN_REQUIRE_NEUTRON")


@pytest.fixture(scope="module")
def neutron_ovsdb() -> str:
    """The database of the Open vSwitch that Neutron's agent uses on this machine."""
    return _service("ZUN_TEST_NEUTRON_OVSDB", "ZUN_REQUIRE_NEUTRON")


@pytest.fixture(scope="module")
def neutron_admin(keystone: Keystone, neutron_url: str) -> NeutronClient:
    """Neutron with the rights of its administrator."""
    session = ksa_session.Session(keystone.auth("zun-cinder", "service"))
    return NeutronClient(ks_adapter.Adapter(session, endpoint_override=neutron_url))


@pytest.fixture(scope="module")
def public_network(neutron_admin: NeutronClient) -> str:
    """Return the id of Neutron's external network, in which this machine is the gateway 198.18.77.1."""
    neutron = neutron_admin
    if found := neutron.networks(name="public"):
        return str(found[0]["id"])
    where = {"provider:network_type": "flat", "provider:physical_network": "public"}
    network = {"name": "public", "router:external": True, **where}
    made = neutron._one("networks", "network", "POST", {"network": network})["id"]
    subnet = {"network_id": made, "cidr": "198.18.77.0/24", "ip_version": 4, "enable_dhcp": False}
    neutron._one("subnets", "subnet", "POST", {"subnet": subnet})
    return str(made)


@pytest.fixture(scope="module")
def cinder_url(keystone: Keystone) -> Iterator[str]:
    """A real Cinder, which asks the real keystone and is in its catalogue during the tests of the module."""
    url = _service("ZUN_TEST_CINDER_URL", "ZUN_REQUIRE_CINDER")
    keystone.publish(f"{url}/v3/$(project_id)s", "block-storage")
    yield url
    keystone.retract("block-storage")


@contextlib.contextmanager
def _in_the_catalogue(
    folder: pathlib.Path, keystone: Keystone, docker_url: str, **more: dict[str, Any]
) -> Iterator[Client]:
    """Run the all-in-one on Docker with Glance, put it into the catalogue, and give its administrator's stock client.

    ``more`` are settings by group. The containers that the tests left are deleted.
    """
    port = free_port()
    settings: dict[str, dict[str, Any]] = {
        "DEFAULT": {"state_path": folder / "state", "host": "catalogued", "image_driver_list": "docker,glance"},
        "glance": keystone.glance_settings(),
        "api": {"port": port, "auth_strategy": "keystone"},
        "keystone_authtoken": keystone.settings() | {"token_cache_time": "300"},
        "docker": {"api_url": docker_url, "execute_timeout": 60, **more.pop("docker", {})},
        "compute": {"reserved_host_memory_mb": 128},
        "capsule": {"sandbox_image": IMAGE, "sandbox_command": "sleep,1000000"},
        **more,
    }
    made = Program(folder, "allinone", "allinone", (), settings)
    try:
        made.start()
        keystone.publish(f"http://127.0.0.1:{port}/v1")
        client = Client(None, keystone.environment("admin"))
        yield client
        for left in client.json("appcontainer", "list", "--all-projects"):
            with contextlib.suppress(AssertionError):  # it may just have gone; the wait sees what stays
                client("appcontainer", "delete", "--force", "--all-projects", left["uuid"])
        wait_for(lambda: client.json("appcontainer", "list", "--all-projects") == [], 120)
    finally:
        made.stop()
        print(made.log.read_text()[-6000:])


@pytest.fixture(scope="module")
def catalogued(
    tmp_path_factory: pytest.TempPathFactory, keystone: Keystone, glance_url: str, docker_url: str
) -> Iterator[Client]:
    """The all-in-one on Docker, which the catalogue of ``keystone`` names: the stock client of its administrator.

    It has one network, for everybody, and Glance.
    """
    folder = tmp_path_factory.mktemp("catalogued")
    with _in_the_catalogue(folder, keystone, docker_url, network={"subnet_pool": "10.222.0.0/16"}) as client:
        client("appcontainer", "network", "create", "everybody", "--share")
        yield client


@pytest.fixture(scope="module")
def full_cloud(
    tmp_path_factory: pytest.TempPathFactory,
    keystone: Keystone,
    glance_url: str,
    neutron_url: str,
    neutron_ovsdb: str,
    cinder_url: str,
    docker_url: str,
) -> Iterator[Client]:
    """Like ``catalogued``, with Neutron and Cinder behind it and in the catalogue. Networks are made at Neutron."""
    folder = tmp_path_factory.mktemp("full")
    service = keystone.cinder_settings()
    settings = {
        "docker": {"drop_capabilities": "AUDIT_WRITE,MKNOD"},  # tempest has containers ping
        "network": {"driver": "neutron"},
        "neutron": service
        | {"agent_host": platform.node(), "ovsdb_connection": neutron_ovsdb}
        | {"plugin_socket": f"/run/docker/plugins/zun-{keystone.suffix}.sock"},
        "cinder": service | {"enabled": True, "my_ip": "127.0.0.1", "mount_directory": folder / "mounts"},
    }
    keystone.publish(neutron_url, "network")
    try:
        with _in_the_catalogue(folder, keystone, docker_url, **settings) as client:
            yield client
    finally:
        keystone.retract("network")  # other tests are of a cloud without Neutron


@pytest.fixture
def postgres_url() -> str:
    """A real PostgreSQL, with the right to create databases."""
    return _service("ZUN_TEST_POSTGRES_URL", "ZUN_REQUIRE_POSTGRES")


@pytest.fixture
def mysql_url() -> str:
    """A real MariaDB, with the right to create databases."""
    return _service("ZUN_TEST_MYSQL_URL", "ZUN_REQUIRE_MYSQL")


@contextlib.contextmanager
def _own_database(server_url: str, create: str, drop: str) -> Iterator[str]:
    """Make a database on the server, give its URL, and drop the database."""
    url, name = sa.make_url(server_url), f"zun_{uuid.uuid4().hex[:8]}"
    server = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(sa.text(create.format(name)))
    yield url.set(database=name).render_as_string(hide_password=False)
    with server.connect() as connection:
        connection.execute(sa.text(drop.format(name)))
    server.dispose()


@pytest.fixture
def database_url(mysql_url: str) -> Iterator[str]:
    """A MariaDB database of this test's own."""
    with _own_database(mysql_url, "CREATE DATABASE {} CHARACTER SET utf8mb4", "DROP DATABASE {}") as url:
        yield url


@pytest.fixture
def postgres_database_url(postgres_url: str) -> Iterator[str]:
    """A PostgreSQL database of this test's own. Programs may still be connected at the end."""
    with _own_database(postgres_url, "CREATE DATABASE {}", "DROP DATABASE {} WITH (FORCE)") as url:
        yield url
