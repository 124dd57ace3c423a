# SPDX-License-Identifier: Apache-2.0
"""The connection of a driver to its Docker daemon."""

import functools
import logging
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Self

import requests
import requests.adapters
from docker import APIClient
from docker import errors as docker_errors
from docker.transport import UnixHTTPAdapter
from oslo_config import cfg

from zun.common import exceptions
from zun.common.naming import Named
from zun.container.docker.errors import Adviser, translated
from zun.container.docker.profile import STANDARD, Profile
from zun.container.docker.registries import PUBLIC_ONLY, Registries
from zun.container.driver.container import ContainerView

PATIENCE = 3600.0  # seconds
ASKING_VERSION = "1.41"  # for asking the daemon for its version, which works with any version
#: Docker's words for a version of its API that it does not speak, in lower case. They come with status 400.
_OTHER_VERSION = "client version"

LOG = logging.getLogger(__name__)

#: Labels on every object. Several agents may share one daemon: each sees only the objects with its own host name.
LABEL_UUID = "zun.uuid"
LABEL_HOST = "zun.host"
#: Prefix of the names of this service's containers and networks at Docker.
NAME_PREFIX = "zun-"
#: Prefix of the names of the projects' default networks, which the service creates by itself.
DEFAULT_PREFIX = "zun-default-"
#: Docker's network for a container without networks. Docker connects such a container to no other network.
NOWHERE = "none"


@dataclass(frozen=True, slots=True)
class TLS:
    """The PEM files for TLS to the daemon. Without ``ca`` the authorities of the system are trusted.

    ``cert`` and ``key`` are those of this service, both or neither.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self | None:
        """Return the files, or None without TLS. Misconfigured if they cannot be used."""
        options = conf.docker
        made = cls(options.ca_file, options.cert_file, options.key_file)
        secure = options.api_url.startswith("https://")
        if options.api_url.startswith(("unix:", "http+unix:", "ssh:")) or (made == cls() and not secure):
            return None
        if options.api_url.startswith("http://"):
            raise exceptions.Misconfigured(
                f"[docker] api_url = {options.api_url} does not use ca_file and cert_file: write tcp:// or https://."
            )
        if (made.cert is None) != (made.key is None):
            raise exceptions.Misconfigured("[docker] cert_file and key_file belong together: set both or neither.")
        try:
            made.context()
        except OSError as exc:
            raise exceptions.Misconfigured(
                f"[docker] ca_file = {made.ca}, cert_file = {made.cert} and key_file = {made.key} cannot be used: {exc}"
            ) from exc
        return made

    def context(self) -> ssl.SSLContext:
        """Return a context of the files as they are now. OSError if they cannot be used."""
        made = ssl.create_default_context(cafile=self.ca)
        if self.cert is not None:
            made.load_cert_chain(self.cert, self.key)
        return made


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's settings for the containers of this host.

    ``host_label`` is the agent's host name, which marks this agent's objects. ``default_timeout`` is in seconds,
    ``memory_swap_mib`` is memory plus swap in MiB, -1 for no limit. ``profile`` is what a container may do and take
    beyond that. ``registries`` may provide images. ``tls`` is for a daemon at tcp://.

    Two fields are for tests and have no option: ``network_mode`` is Docker's network of all containers (None: Docker's
    default), and ``root`` is the directory with ``proc`` and ``sys``.
    """

    api_url: str = "unix:///var/run/docker.sock"
    host_label: str = "localhost"
    default_timeout: float = 60.0
    memory_swap_mib: int = 0
    hard_cpu_limit: bool = False
    profile: Profile = STANDARD
    network_mode: str | None = None
    root: str = "/"
    connections: int = 32
    registries: Registries = PUBLIC_ONLY
    tls: TLS | None = None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, *, connections: int) -> Self:
        return cls(
            api_url=conf.docker.api_url,
            host_label=conf.host,
            default_timeout=conf.docker.default_timeout,
            memory_swap_mib=conf.docker.default_memory_swap,
            hard_cpu_limit=conf.docker.hard_cpu_limit,
            profile=Profile.from_conf(conf),
            connections=connections,
            registries=Registries.from_conf(conf),
            tls=TLS.from_conf(conf),
        )


class SocketAdapter(UnixHTTPAdapter):
    """An adapter with one pool of connections to the socket.

    docker-py keeps one pool for each URL and closes the least used pools beyond 25. Every container has its own URLs,
    so connections are rarely reused, and one thread may close a pool that another thread has just taken.
    """

    def get_connection(self, url: str, proxies: Any = None) -> Any:
        return super().get_connection("http+docker://localhost", proxies)


def connect(api_url: str, timeout: float, connections: int, tls: TLS | None = None) -> APIClient:
    """Return a client that speaks the daemon's API version. Raises docker-py's errors.

    docker-py's own ``version="auto"`` connects before a caller can choose the adapter and turn off proxies.
    """
    adapter: requests.adapters.BaseAdapter
    if api_url.startswith(("unix://", "http+unix://")):
        scheme = "http+docker://"
        adapter = SocketAdapter("http+unix://" + api_url.split("://", 1)[1], timeout, max_pool_size=connections)
    else:
        scheme = "https://" if tls else "http://"
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=connections)

    def client(version: str | None) -> APIClient:
        made = APIClient(base_url=api_url, version=version, timeout=timeout, tls=tls is not None)
        made.trust_env = False  # a daemon is reached without proxies and .netrc
        made.mount(scheme, adapter)
        if tls is not None:  # requests reads the files anew for each connection
            made.verify, made.cert = tls.ca or True, (tls.cert, tls.key) if tls.cert else None
        return made

    return client(client(ASKING_VERSION).version(api_version=False).get("ApiVersion"))


def ask(api: APIClient, method: str, path: str, **options: Any) -> requests.Response:
    """Send a request for which docker-py has no function, with ``options`` of requests. Raises docker-py's errors."""
    url = f"{api.base_url}/v{api.api_version}{path}"
    response = api.request(method, url, **{"timeout": api.timeout, **options})
    try:
        response.raise_for_status()
    except requests.HTTPError as exc:
        raise docker_errors.create_api_error_from_http_exception(exc) from exc
    return response


class Engine:
    """A Docker daemon: its settings and its client. The client connects at first use, so an agent starts without it.

    The client speaks the API version of the daemon that it met first. If Docker is upgraded meanwhile and refuses that
    version, the client is replaced, and the request is sent again in the new version.
    """

    #: The engine in texts for people.
    name = "Docker"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._client: APIClient | None = None
        self._connecting = threading.Lock()
        self._adviser = Adviser()
        self._check: Callable[[APIClient], None] | None = None

    def checked_by(self, check: Callable[[APIClient], None]) -> None:
        """Call ``check`` with each new client before anybody else has it. If it raises, there is no client."""
        self._check = check

    @property
    def api(self) -> APIClient:
        """Return the client, which threads may share. Unavailable if the daemon does not answer."""
        client = self._client
        if client is None:
            with self._connecting:
                client = self._client
                if client is None:
                    with self.translated(f"connect to {self.name}"):
                        client = self._connect(self.settings.default_timeout, self.settings.connections)
                        if self._check is not None:
                            self._check(client)
                    client.hooks["response"].append(functools.partial(self._understood, client))
                    self._client = client
        return client

    @property
    def base(self) -> str:
        """Return the beginning of the path of every request."""
        return f"/v{self.api.api_version}"

    def forget(self, client: APIClient) -> None:
        """Let the next call make a new client: the daemon of ``client`` may have been replaced."""
        with self._connecting:
            if self._client is client:
                self._client = None

    def _understood(self, client: APIClient, response: requests.Response, **sending: Any) -> requests.Response:
        """Return ``response``, or that to a second request if the daemon does not speak the client's API version.

        A hook, which requests calls with each response to ``client``. Raises Unavailable if the request cannot be sent
        again, because its body was read from a stream.
        """
        if response.status_code != 400 or _OTHER_VERSION not in response.text.lower():
            return response
        self.forget(client)
        version, request = self.api.api_version, response.request.copy()
        LOG.info("Docker does not speak version %s of its API any more; now using %s", client.api_version, version)
        if version == client.api_version or not isinstance(request.body, bytes | str | None):
            raise exceptions.Unavailable("Docker on the host has just been replaced by another release. Try again.")
        request.url = str(request.url).replace(f"/v{client.api_version}/", f"/v{version}/", 1)
        again: requests.Response = response.connection.send(request, **sending)  # type: ignore[attr-defined]
        return again

    @contextmanager
    def patient(self) -> Iterator[APIClient]:
        """Give a client for one call that may take minutes because it writes much to disk."""
        _ = self.api  # the daemon may have to be checked
        client = self._connect(PATIENCE, 1)
        try:
            yield client
        finally:
            client.close()

    def _connect(self, timeout: float, connections: int) -> APIClient:
        return connect(self.settings.api_url, timeout, connections, self.settings.tls)

    def translated(self, action: str, container: Named | None = None) -> AbstractContextManager[None]:
        """Return a context that turns docker-py's errors into the service's. ``action`` completes "could not ..."."""
        uuid, name = ("", None) if container is None else (container.uuid, container.name)
        return translated(action, uuid, self.settings.api_url, self._adviser, name=name, engine=self.name)

    def find(self, container: ContainerView) -> dict[str, Any] | None:
        """Return Docker's description of the container's object on this host, or None if there is no object.

        If somebody renamed the object, ``find`` gives the name back: every operation finds the object by its name, and
        the name prevents a second object. Raises docker-py's errors.
        """
        name = object_name(container.uuid)
        try:
            found = self.api.inspect_container(name)
        except docker_errors.NotFound:
            found = None
        if found is not None and self.owns(found["Config"]["Labels"], container.uuid):
            if found["Name"].lstrip("/") == name:
                return found
            found = None  # the engine tells of a rename before it gives up the old name (Docker 20.10.24)
        labels = [f"{LABEL_UUID}={container.uuid}", f"{LABEL_HOST}={self.settings.host_label}"]
        for entry in self.api.containers(all=True, filters={"label": labels}):
            if self._has_labels_of_image(entry, container.uuid):
                continue
            try:
                if found is None:
                    self.api.rename(entry["Id"], name)
                    LOG.warning("Container %s was called %s; renamed it back", container.uuid, entry["Names"])
                else:
                    names = entry["Names"]
                    LOG.warning("Container %s is called %s, and its name is taken", container.uuid, names)
                return self.api.inspect_container(entry["Id"])
            except docker_errors.NotFound:
                continue
        return None

    def _has_labels_of_image(self, entry: Mapping[str, Any], uuid: str) -> bool:
        """Return whether the object of Docker's list has our labels from its image, as somebody's 'docker commit' made.

        Such an object is a stranger's, who ran a container from that image.
        """
        try:
            image = self.api.inspect_image(entry["ImageID"])
        except docker_errors.NotFound:
            return False
        return ((image.get("Config") or {}).get("Labels") or {}).get(LABEL_UUID) == uuid

    def owns(self, labels: dict[str, str] | None, uuid: str | None = None) -> bool:
        """Return whether the labels are those of an object that this agent made, of the container ``uuid`` if named."""
        found = labels or {}
        return found.get(LABEL_HOST) == self.settings.host_label and uuid in (None, found.get(LABEL_UUID))


class OnEngine:
    """Base of each capability. A driver inherits from several capabilities, which share one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def settings(self) -> Settings:
        return self._engine.settings


def object_name(uuid: str) -> str:
    """Return the name of a container's object: ``zun-<uuid>``. A daemon refuses a second object of the same name."""
    return f"{NAME_PREFIX}{uuid}"
