# SPDX-License-Identifier: Apache-2.0
"""The one connection of a driver to its Docker daemon."""

import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Self

import requests.adapters
from docker import APIClient
from docker import errors as docker_errors
from docker.transport import UnixHTTPAdapter
from docker.transport.unixconn import UnixHTTPConnectionPool
from oslo_config import cfg

from zun.container.docker.errors import Adviser, translated
from zun.container.driver import ContainerView

PATIENCE = 3600.0  # seconds

LOG = logging.getLogger(__name__)

#: Labels on every object. Several agents may share one daemon: each sees the objects that bear its own host
#: only.
LABEL_UUID = "zun.uuid"
LABEL_HOST = "zun.host"
#: Names of the objects of containers and of the networks that this service made begin with it.
NAME_PREFIX = "zun-"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator decides about every container of this host.

    ``host_label`` is the agent's host name: it marks this agent's objects. ``default_timeout`` is in seconds,
    ``memory_swap_mib`` is memory plus swap (-1: unlimited). Two are for tests and have no option: ``network_mode`` is
    Docker's network of all containers (None: Docker's default), ``root`` is where ``/proc`` and ``/sys`` are found.
    """

    api_url: str = "unix:///var/run/docker.sock"
    host_label: str = "localhost"
    default_timeout: float = 60.0
    memory_swap_mib: int = -1
    hard_cpu_limit: bool = False
    network_mode: str | None = None
    root: str = "/"
    connections: int = 32

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, *, connections: int) -> Self:
        return cls(
            api_url=conf.docker.api_url,
            host_label=conf.host,
            default_timeout=conf.docker.default_timeout,
            memory_swap_mib=conf.docker.default_memory_swap,
            hard_cpu_limit=conf.docker.hard_cpu_limit,
            connections=connections,
        )


class _OnePool(UnixHTTPAdapter):
    """Keeps one pool of connections to the socket.

    docker-py keys its pools by the whole URL and closes the least used beyond 25. Every container has URLs of
    its own, so it hardly ever reuses a connection, and a pool may be closed between a thread's taking and
    using it.
    """

    def __init__(self, socket_url: str, timeout: float, connections: int) -> None:
        super().__init__(socket_url, timeout, max_pool_size=connections)
        self._pool = UnixHTTPConnectionPool(socket_url, self.socket_path, timeout, maxsize=connections)

    def get_connection(self, url: str, proxies: Any = None) -> UnixHTTPConnectionPool:
        return self._pool

    def close(self) -> None:
        self._pool.close()
        super().close()


def connect(api_url: str, timeout: float, connections: int) -> APIClient:
    """Return a client that has agreed with the daemon on an API version. Raises docker-py's errors."""
    adapter: requests.adapters.BaseAdapter
    # Any version: only the adapter below may talk, so that the negotiation goes through it as well.
    client = APIClient(base_url=api_url, version="1.41", timeout=timeout)
    # Neither proxies nor .netrc concern a daemon, and requests looks both up again for every call.
    client.trust_env = False
    if api_url.startswith(("unix://", "http+unix://")):
        socket_url = "http+unix://" + api_url.split("://", 1)[1]
        adapter = _OnePool(socket_url, timeout, connections)
        client.mount("http+docker://", adapter)
    else:
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=connections)
        client.mount("http://", adapter)
    # What version="auto" does in the constructor, where the adapter cannot be chosen yet.
    client._version = client._retrieve_server_version()
    return client


class Engine:
    """A Docker daemon: its client, made at first use so that an agent starts without it, and the settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._client: APIClient | None = None
        self._connecting = threading.Lock()
        self._adviser = Adviser()

    @property
    def api(self) -> APIClient:
        """The client, which threads may share. Unavailable when the daemon does not answer."""
        if self._client is None:
            with self._connecting:
                if self._client is None:
                    with self.translated("connect to Docker"):
                        self._client = connect(
                            self.settings.api_url, self.settings.default_timeout, self.settings.connections
                        )
        return self._client

    @contextmanager
    def patient(self) -> Iterator[APIClient]:
        """A client for one call that may take minutes, because it writes much to a disk."""
        client = connect(self.settings.api_url, PATIENCE, 1)
        try:
            yield client
        finally:
            client.close()

    def translated(self, action: str, uuid: str = "") -> AbstractContextManager[None]:
        """Return a context in which docker-py's errors become ours; ``action`` completes "could not ..."."""
        return translated(action, uuid, self.settings.api_url, self._adviser)

    def find(self, container: ContainerView) -> dict[str, Any] | None:
        """Return the container's object of this host as Docker describes it, None when there is none.

        One that somebody renamed gets its name back: by it every operation finds its object, and no second one
        can be made. Raises docker-py's errors.
        """
        name = object_name(container.uuid)
        try:
            found = self.api.inspect_container(name)
        except docker_errors.NotFound:
            found = None
        if found is not None and self.owns(found["Config"]["Labels"]):
            return found
        labels = [f"{LABEL_UUID}={container.uuid}", f"{LABEL_HOST}={self.settings.host_label}"]
        for entry in self.api.containers(all=True, filters={"label": labels}):
            try:
                if found is None:
                    self.api.rename(entry["Id"], name)
                    LOG.warning("Container %s was called %s at Docker; renamed it back", container.uuid, entry["Names"])
                else:
                    names = entry["Names"]
                    LOG.warning("Container %s is called %s at Docker, and its name is taken", container.uuid, names)
                return self.api.inspect_container(entry["Id"])
            except docker_errors.NotFound:
                continue
        return None

    def owns(self, labels: dict[str, str] | None) -> bool:
        return (labels or {}).get(LABEL_HOST) == self.settings.host_label


class OnEngine:
    """A capability of a daemon. Several combine into a driver and share the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def settings(self) -> Settings:
        return self._engine.settings


def object_name(uuid: str) -> str:
    """Return the name of a container's object. Names are unique at a daemon, which stops a second one."""
    return f"{NAME_PREFIX}{uuid}"
