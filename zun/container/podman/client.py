# SPDX-License-Identifier: Apache-2.0
"""The connection of a driver to Podman's service, by libpod's own API.

libpod has the requests of Docker's API under another path, some with other bodies. :class:`Libpod` is docker-py's
client with these differences, so that the capabilities of the Docker driver serve both engines.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import requests
from docker import APIClient, auth
from docker import errors as docker_errors
from docker.types import CancellableStream

from zun.common import exceptions
from zun.common.image_reference import Reference, join
from zun.container.docker.client import ASKING_VERSION, NOWHERE, Engine, SocketAdapter, ask
from zun.container.podman import answers
from zun.container.podman.create import full_name, is_volume, limits, specification

#: The oldest release of the API that has everything here. Later releases of Podman 5 answer in its words.
_LIBPOD = "/v5.0.0/libpod"
_DOCKER = f"/v{ASKING_VERSION}"
#: Requests that Podman has for Docker's clients alone, or that say the same there.
_OF_DOCKER = tuple(f"{_DOCKER}/{each}" for each in ("_ping", "networks", "volumes"))
#: Causes of errors that are conflicts with the state of an object. Podman reports some as 500.
_CONFLICTS = (
    *("container state improper", "exec session state improper"),
    *("that name is already in use", "can only be used on running containers"),
)
_OLDEST = 5
_PIECE = 1 << 20
#: docker-py's arguments of an update -> members of Docker's ``HostConfig``.
LIMITS = {
    "cpuset_cpus": "CpusetCpus",
    "cpuset_mems": "CpusetMems",
    "cpu_shares": "CpuShares",
    "cpu_quota": "CpuQuota",
    "cpu_period": "CpuPeriod",
    "mem_limit": "Memory",
    "memswap_limit": "MemorySwap",
}


class PodmanEngine(Engine):
    """A Podman service: its settings and its client."""

    name = "Podman"

    @property
    def base(self) -> str:
        return _LIBPOD

    def _connect(self, timeout: float, connections: int) -> APIClient:
        return connect(self.settings.api_url, timeout, connections)


class _Adapter(SocketAdapter):
    """Sends the requests of docker-py to libpod's path."""

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        path: str = super().request_url(request, proxies)
        return path if path.startswith(_OF_DOCKER) else _LIBPOD + path.removeprefix(_DOCKER)


def _conflict(response: requests.Response, **_: Any) -> None:
    """Mark a conflict as such: Podman answers 500 to it."""
    if response.status_code == 500 and any(cause in response.text for cause in _CONFLICTS):
        response.status_code = 409


class Libpod(APIClient):
    """docker-py's client with the answers and requests of libpod in Docker's words."""

    def told(self) -> dict[str, Any]:
        """Return libpod's own description of the host."""
        found: dict[str, Any] = ask(self, "GET", "/info").json()
        return found

    def info(self) -> dict[str, Any]:
        return answers.info(self.told())

    def version(self, api_version: bool = True) -> dict[str, Any]:
        return answers.version(self.told())

    # Containers

    def containers(self, *args: Any, **options: Any) -> list[dict[str, Any]]:
        return [{**each, "HostConfig": {}} for each in super().containers(*args, **options)]

    def inspect_container(self, container: str) -> dict[str, Any]:
        return answers.container(super().inspect_container(container))

    def create_container_from_config(self, config: Mapping[str, Any], name: str | None = None) -> Any:
        for mount in filter(is_volume, config["HostConfig"].get("Mounts", ())):
            self._ensure_volume(mount["Source"], mount.get("VolumeOptions", {}).get("Labels"))
        return ask(self, "POST", "/containers/create", json=specification(config, name or "")).json()

    def _ensure_volume(self, name: str, labels: Mapping[str, str] | None) -> None:
        try:
            self.inspect_volume(name)
        except docker_errors.NotFound:
            self.create_volume(name, labels=labels)

    def start(self, container: str) -> None:
        # A start of a running container would leave an error in its record.
        if self.inspect_container(container)["State"]["Status"] != "running":
            super().start(container)

    def stop(self, container: str, timeout: int | None = None) -> None:
        self._end("stop", container, timeout)

    def restart(self, container: str, timeout: int = 10) -> None:
        self._end("restart", container, timeout)

    def _end(self, how: str, container: str, timeout: int | None) -> None:
        params = {} if timeout is None else {"timeout": timeout}
        patience = self.timeout + (10 if timeout is None else timeout)
        ask(self, "POST", f"/containers/{container}/{how}", params=params, timeout=patience)

    def remove_container(self, container: str, v: bool = False, force: bool = False) -> None:
        params = {"v": v, "force": force, "timeout": 0}
        for each in ask(self, "DELETE", f"/containers/{container}", params=params).json():
            if each.get("Err"):
                raise docker_errors.APIError(each["Err"], explanation=each["Err"])

    def wait(self, container: str, timeout: float | None = None, condition: str | None = None) -> dict[str, Any]:
        params = {"condition": condition}
        return {"StatusCode": ask(self, "POST", f"/containers/{container}/wait", params=params, timeout=timeout).json()}

    def update_container(self, container: str, **change: Any) -> dict[str, Any]:
        host = {LIMITS[name]: value for name, value in change.items()}
        body = {name: value for name, value in limits(host).items() if value and name != "pids"}
        ask(self, "POST", f"/containers/{container}/update", json=body)
        return {}

    def set_restart_policy(self, container: str, policy: Mapping[str, Any]) -> None:
        """Change what happens when the process ends. Podman reads it at the end, also between two attempts."""
        params: dict[str, Any] = {"restartPolicy": policy["Name"]}
        if tries := policy.get("MaximumRetryCount"):
            params["restartRetries"] = tries
        ask(self, "POST", f"/containers/{container}/update", params=params, json={})

    def exec_inspect(self, exec_id: str) -> dict[str, Any]:
        return answers.command(super().exec_inspect(exec_id))

    def connect_container_to_network(self, container: str, net_id: str, **options: Any) -> None:
        if net_id != NOWHERE:  # a container without networks is in none of Podman's
            super().connect_container_to_network(container, net_id, **options)

    def disconnect_container_from_network(self, container: str, net_id: str, force: bool = False) -> None:
        if net_id != NOWHERE:
            super().disconnect_container_from_network(container, net_id, force=force)

    def remove_network(self, net_id: str) -> None:
        # Of a network that is named by its id, Podman does not see the containers. They could not be stopped any more.
        super().remove_network(self.inspect_network(net_id)["Name"])

    # Images

    def images(self, name: str | None = None) -> list[dict[str, Any]]:
        found = super().images(None if name is None else full_name(name).rpartition(":")[0])
        return [answers.image(each) for each in found]

    def inspect_image(self, image: str) -> dict[str, Any]:
        return answers.image(super().inspect_image(full_name(image)))

    def tag(self, image: str, repository: str, tag: str | None = None) -> bool:
        reference = Reference.parse(join(repository, tag or "latest"))
        return bool(super().tag(full_name(image), reference.origin, reference.version))

    def remove_image(self, image: str) -> Any:
        return super().remove_image(full_name(image))

    def get_image(self, image: str) -> Iterator[bytes]:
        path, form = f"/images/{full_name(image)}/get", {"format": "docker-archive"}
        with ask(self, "GET", path, params=form, stream=True) as response:
            yield from response.iter_content(_PIECE)

    def load_image(self, data: Iterable[bytes]) -> Iterable[dict[str, Any]]:
        """Load an archive that has a short name for its image, and let the image have this name.

        Podman takes a short name for one of the registry ``localhost``.
        """
        local = "localhost/"
        for name in ask(self, "POST", "/images/load", data=data).json()["Names"]:
            if name.startswith(local):
                super().tag(name, *full_name(name.removeprefix(local)).rsplit(":", 1))
                super().remove_image(name)
        return ()

    def commit(self, container: str, repository: str, tag: str, changes: list[str]) -> Any:
        params = {
            "container": container,
            "repo": Reference.parse(repository).origin,
            "tag": tag,
            "pause": True,
            "format": "docker",
            "changes": changes,
        }
        return ask(self, "POST", "/commit", params=params).json()

    def pull(self, image: str, auth_config: Mapping[str, str], **_: Any) -> Iterator[dict[str, Any]]:
        """Yield Docker's messages about layers."""
        params = {"reference": full_name(image), "compatMode": True, "tlsVerify": not _is_loopback(image)}
        headers = {"X-Registry-Auth": auth.encode_header(auth_config)} if auth_config else {}
        with ask(self, "POST", "/images/pull", params=params, headers=headers, stream=True, timeout=None) as response:
            yield from map(json.loads, filter(None, response.iter_lines()))

    def inspect_distribution(self, image: str, auth_config: Mapping[str, str]) -> dict[str, Any]:
        """Return the digest that the registry has for ``image``. libpod tells it only of what was pulled."""
        for step in self.pull(image, auth_config):
            if reason := step.get("error"):
                raise docker_errors.APIError(reason, explanation=reason)
        return {"Descriptor": {"digest": self.inspect_image(image)["RepoDigests"][0].partition("@")[2]}}

    def search(self, term: str) -> list[dict[str, Any]]:
        return [answers.found_image(each) for each in super().search(term)]

    # Events

    def events(self, since: int, filters: Mapping[str, Any], decode: bool) -> "_Renamed":
        theirs = {**filters, "event": answers.actions(filters["event"])}
        return _Renamed(super().events(since=since, filters=theirs, decode=decode))


_Client = TypeVar("_Client", bound=Libpod)


def connect(api_url: str, timeout: float, connections: int, kind: type[_Client] = Libpod) -> _Client:
    """Return a client of the service at ``api_url``. Unavailable if this is no rootful Podman 5 or later."""
    path = api_url.partition("://")[2]
    client = kind(api_url, ASKING_VERSION, timeout)
    client.trust_env = False
    client.mount("http+docker://", _Adapter(f"http+unix://{path}", timeout, max_pool_size=connections))
    client.hooks["response"].append(_conflict)
    told = client.told()
    release = told["version"]["Version"]
    if int(release.partition(".")[0]) < _OLDEST:
        raise exceptions.Unavailable(
            f"Podman at {api_url} is release {release}; [podman] api_url needs {_OLDEST} or later."
        )
    if told["host"]["security"]["rootless"]:
        raise exceptions.Unavailable(
            f"Podman at {api_url} is rootless, and may not place containers on CPUs. Run 'systemctl enable --now "
            "podman.socket' as root, and see [podman] api_url."
        )
    return client


class _Renamed:
    """A stream of libpod's events in Docker's words."""

    def __init__(self, stream: CancellableStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(answers.event, self._stream)

    def close(self) -> None:
        self._stream.close()


def _is_loopback(image: str) -> bool:
    """Return whether the registry of ``image`` is on this host. Like Docker, it is asked without TLS then."""
    host = (Reference.parse(image).domain or "").rpartition(":")[0]
    return host == "localhost" or host.startswith("127.")
