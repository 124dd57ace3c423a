# SPDX-License-Identifier: Apache-2.0
"""A cloud in which nothing is sent in clear: API, terminals, RabbitMQ, MariaDB and Docker with TLS.

Broker, database and Docker are the test's own, with certificates of its own authority.
"""

import concurrent.futures
import pathlib
import socket
import ssl
import tempfile
import types
import uuid

import pytest
import requests
import websockets.exceptions
from websockets.sync.client import connect

from zun.common import exceptions
from zun.container.docker.client import TLS, Engine, Settings
from zun.tests.certificates import Authority, common_name, put
from zun.tests.integration.container import own_daemon
from zun.tests.integration.looks import allowed
from zun.tests.integration.own_database import OwnDatabase
from zun.tests.integration.own_postgres import refused
from zun.tests.integration.own_rabbit import OwnRabbit, folder_of_own
from zun.tests.integration.programs import Api, free_port

pytestmark = [pytest.mark.docker, pytest.mark.distributed]

PATIENCE = 60
DEDICATED = {"cpu_policy": "dedicated", "cpu": 1}


@pytest.fixture
def keys():
    """``ca`` and ``wrong`` are files of authorities; ``issue(name)`` writes a certificate and a key."""
    with tempfile.TemporaryDirectory(prefix="zun-tls.") as name:
        folder = pathlib.Path(name)
        authority = Authority()

        def issue(file, name=None):
            made = zip(("cert", "key"), authority.issue(name or file), strict=True)
            return tuple(str(put(folder / f"{file}.{kind}", data)) for kind, data in made)

        yield types.SimpleNamespace(
            ca=str(put(folder / "ca.pem", authority.pem)),
            wrong=str(put(folder / "wrong.pem", Authority("another").pem)),
            issue=issue,
            folder=folder,
        )


@pytest.fixture
def rabbit(keys, rabbit_server):
    """A broker of its own. ``rabbit_server`` says whether tests with RabbitMQ are wanted at all."""
    cert, key = keys.issue("rabbit")
    with folder_of_own() as folder:
        node = OwnRabbit(
            pathlib.Path(folder),
            "listeners.ssl.1 = 127.0.0.1:{tls}",
            f"ssl_options.cacertfile = {keys.ca}",
            f"ssl_options.certfile = {cert}",
            f"ssl_options.keyfile = {key}",
            "ssl_options.versions.1 = tlsv1.3",
            "ssl_options.versions.2 = tlsv1.2",
        )
        yield f"rabbit://admin:admin@127.0.0.1:{node.tls_port}/"
        node.stop()


@pytest.fixture
def maria(keys, mysql_url, tmp_path):
    (tmp_path / "mysql").mkdir()
    cert, key = keys.issue("mariadb")
    server = OwnDatabase(
        tmp_path / "mysql",
        f"--ssl-cert={cert}",
        f"--ssl-key={key}",
        "--innodb-flush-method=nosync",
        "--require-secure-transport=ON",
        require="SSL",
        query=f"?ssl_ca={keys.ca}",
    )
    server.start()
    yield server.url
    server.kill()


@pytest.fixture
def daemon(keys, docker_url):
    """The URL of a Docker that wants certificates of its clients."""
    cert, key = keys.issue("docker")
    folder = keys.folder / "docker"  # a short path, as sockets need
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        verify = ("--host=fd://", "--tlsverify", f"--tlscacert={keys.ca}", f"--tlscert={cert}", f"--tlskey={key}")
        with own_daemon.running(folder, *verify, listener=listener):
            yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def cloud(program, keys, rabbit, maria, daemon):
    name, port, proxy_port = f"test-{uuid.uuid4().hex[:8]}", free_port(), free_port()
    client_cert, client_key = keys.issue("agent")
    queue = {
        "DEFAULT": {"host": name, "transport_url": rabbit, "control_exchange": name},
        "oslo_messaging_rabbit": {"ssl": "true", "ssl_ca_file": keys.ca, "rabbit_quorum_queue": "true"},
    }
    common = {"database": {"connection": maria}, **queue}
    api_cert, api_key = keys.issue("api")
    proxy_cert, proxy_key = keys.issue("wsproxy")
    host = {
        "docker": {"api_url": daemon, "ca_file": keys.ca, "cert_file": client_cert, "key_file": client_key},
        "compute": {"database": "conductor", "reserved_host_memory_mb": 128, "audit_host_processes": "none"},
        "websocket_proxy": {
            "wsproxy_port": proxy_port,
            "base_url": f"wss://127.0.0.1:{proxy_port}/",
            "cert": proxy_cert,
            "key": proxy_key,
            "ssl_only": "true",
        },
        **queue,
    }
    served = {"port": port, "auth_strategy": "noauth", "enable_ssl_api": "true"}
    code, said = program("db_manage", words=("upgrade",), **common).run_to_end()
    assert code == 0, said
    programs = [
        program("conductor", **common),
        program("scheduler", **common),
        program("api", api=served, ssl={"cert_file": api_cert, "key_file": api_key}, **common),
        program("compute", **host),
        program("wsproxy", **host),
    ]
    with concurrent.futures.ThreadPoolExecutor(len(programs)) as threads:
        list(threads.map(lambda each: each.start(), programs))
    api = Api(f"https://127.0.0.1:{port}/v1")
    api._session.verify, api._session.trust_env = keys.ca, False  # REQUESTS_CA_BUNDLE would replace the authority
    yield types.SimpleNamespace(
        api=api, port=port, proxy_port=proxy_port, common=common, settings=Settings(daemon, name), database=maria,
        docker=TLS(keys.ca, client_cert, client_key),
    )  # fmt: skip
    try:
        api.delete_all()
    finally:
        for each in programs:  # before what they would wait for is gone
            each.kill()


def trusting(ca):
    return ssl.create_default_context(cafile=ca)


def peer(port, ca):
    """Whose certificate a new connection gets."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain,
        trusting(ca).wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        return common_name(client.getpeercert(binary_form=True))


def heard(terminal, text):
    """Wait for ``text`` on a terminal."""
    said = b""
    while text not in said:
        part = terminal.recv(timeout=PATIENCE)
        said += part if isinstance(part, bytes) else part.encode()


def test_a_cloud_with_tls_everywhere(cloud, keys, program):
    made = cloud.api.settled(cloud.api.run(**DEDICATED, command=["cat"], interactive=True))
    assert made["status"] == "Running", made["status_reason"]
    engine = Engine(Settings(cloud.settings.api_url, tls=cloud.docker)).api
    assert str(allowed(engine, made)[1]) == made["cpuset_cpus"]
    output = cloud.api.request("POST", f"/containers/{made['uuid']}/execute?command=echo%20hello").json()
    assert (output["output"].strip(), output["exit_code"]) == ("hello", 0)

    url = cloud.api.get(f"/containers/{made['uuid']}/attach")
    assert url.startswith(f"wss://127.0.0.1:{cloud.proxy_port}/")
    with connect(url, ssl=trusting(keys.ca)) as terminal:
        terminal.send(b"one\n")
        heard(terminal, b"one")
        for name, port in (("api", cloud.port), ("wsproxy", cloud.proxy_port)):
            assert peer(port, keys.ca) == name
            keys.issue(name, f"new-{name}")  # over the old files, without a restart
            assert peer(port, keys.ca) == f"new-{name}"
        terminal.send(b"two\n")
        heard(terminal, b"two")
    assert cloud.api.get(f"/containers/{made['uuid']}")["status"] == "Running"

    distrusted(cloud, keys, program, engine)


def test_a_client_of_docker_reads_its_files_for_each_connection(keys, daemon):
    """Where a certificate of nobody and another authority are refused, the next right ones are taken."""
    cert, key = keys.issue("agent")
    ca = put(keys.folder / "agent-ca.pem", pathlib.Path(keys.ca).read_bytes())
    api = Engine(Settings(daemon, tls=TLS(str(ca), cert, key))).api
    version = api.version()
    events = api.events()  # keeps the connection that is there, so that each request needs a new one
    for file, data in zip((cert, key), Authority("another").issue("agent"), strict=True):
        put(pathlib.Path(file), data)
    with pytest.raises(requests.exceptions.ConnectionError):
        api.version()
    keys.issue("agent")
    put(ca, pathlib.Path(keys.wrong).read_bytes())
    with pytest.raises(requests.exceptions.SSLError, match="certificate verify failed"):
        api.version()
    put(ca, pathlib.Path(keys.ca).read_bytes())
    assert api.version() == version
    events.close()
    api.close()


def distrusted(cloud, keys, program, engine):
    """Each part refuses plain text, and each client a server of another authority; both say why."""
    api, url = f"https://127.0.0.1:{cloud.port}/", f"wss://127.0.0.1:{cloud.proxy_port}/"
    with pytest.raises(requests.exceptions.SSLError, match="certificate verify failed"):
        requests.get(api, verify=keys.wrong, timeout=PATIENCE)
    plain = requests.get(api.replace("https", "http"), timeout=PATIENCE)
    assert (plain.status_code, "https://" in plain.text) == (400, True)

    with pytest.raises(ssl.SSLCertVerificationError):
        connect(url, ssl=trusting(keys.wrong))
    with pytest.raises((OSError, websockets.exceptions.InvalidMessage, websockets.exceptions.ConnectionClosed)):
        connect(url.replace("wss", "ws"))

    files = cloud.docker
    for tls in (None, TLS(keys.wrong, files.cert, files.key), TLS(keys.ca)):
        with pytest.raises((exceptions.Unavailable, exceptions.DockerError)):
            _ = Engine(Settings(cloud.settings.api_url, tls=tls)).api.version()
    refused(cloud.database.replace(keys.ca, keys.wrong), "certificate verify failed")
    plain = cloud.database.partition("?")[0] + "?ssl_disabled=true"  # PyMySQL takes TLS where it is offered
    refused(plain, "Access denied|insecure transport")

    queue = {**cloud.common["oslo_messaging_rabbit"], "ssl_ca_file": keys.wrong}
    scheduler = program("scheduler", "distrusting", **{**cloud.common, "oslo_messaging_rabbit": queue})
    scheduler.start(until=b"certificate verify failed")
