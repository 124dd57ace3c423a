# SPDX-License-Identifier: Apache-2.0
"""The networks of one Docker daemon that its agent makes: how each is found, created and removed."""

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from docker import errors as docker_errors

from zun.common import exceptions
from zun.container.docker.client import LABEL_HOST, OnEngine
from zun.container.docker.errors import says
from zun.network.firewall import BRIDGE_PREFIX

LOG = logging.getLogger(__name__)

BRIDGE_OPTION = "com.docker.network.bridge.name"
#: Texts of Docker and of Podman about a subnet that is in use.
TAKEN = ("overlap", "is already used on the host")
#: Texts of Docker and of Podman about a network whose name or bridge is in use. Docker 20.10 refuses the bridge of a
#: network that another process is making, before it lists this network.
IN_USE = ("same bridge name", "already exists", "already in use")
#: Seconds between attempts to create a network that another process may be making.
LOOK_AGAIN_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


class Bridges(OnEngine):
    """Base of the networks of a daemon, which share its engine."""

    def _listed(self, *labels: str) -> list[dict[str, Any]]:
        """Return Docker's networks that this host's agent created and that have all of ``labels``."""
        label = f"{LABEL_HOST}={self.settings.host_label}"
        with self._engine.translated("list networks"):
            found: list[dict[str, Any]] = self._engine.api.networks(filters={"label": [label, *labels]})
        return found

    def _create(self, name: str, labels: Mapping[str, str], **how: Any) -> None:
        """Create a network with the label of this host: a bridge, unless docker-py's arguments ``how`` say else."""
        bridge = {"driver": "bridge", "options": {BRIDGE_OPTION: interface_name(name)}}
        labels = {LABEL_HOST: self.settings.host_label, **labels}
        self._engine.api.create_network(name, check_duplicate=True, labels=labels, **{**bridge, **how})

    def _make(self, name: str, create: Callable[[], None]) -> None:
        """Call ``create`` until Docker lists the network, which another process may create at the same time.

        That process may also fail, so ``create`` is called again. Raises what ``create`` raises, or Conflict if the
        name or the bridge stays in use.
        """
        refused = False
        for delay in (*LOOK_AGAIN_SECONDS, None):
            try:
                create()
                return
            except (docker_errors.APIError, exceptions.Conflict) as exc:
                if self._is_here(name):
                    return
                refused = refused or (isinstance(exc, docker_errors.APIError) and says(exc, *TAKEN, *IN_USE))
                if not refused:
                    raise
                if delay is None:
                    if isinstance(exc, docker_errors.APIError) and says(exc, *IN_USE):
                        raise exceptions.Conflict(
                            f"Network {name} cannot be created on this host: {exc.explanation}. Its name or its bridge "
                            f"{interface_name(name)} belongs to a network that is not listed under this name. Try "
                            "again; if this lasts, find that network with 'docker network ls' and remove it."
                        ) from exc
                    raise
            time.sleep(delay)
            if self._is_here(name):
                return

    def _remove(self, name: str, what: str) -> None:
        with self._engine.translated(f"remove {what}"):
            found = self._found(name)
            if found is None:
                return
            if not self._engine.owns(found.get("Labels")):
                LOG.warning("Network %s of Docker stays: this host's agent did not make it", name)
                return
            try:
                self._engine.api.remove_network(found["Id"])
            except docker_errors.NotFound:
                return
            except docker_errors.APIError as exc:
                if says(exc, "has active endpoints", "network is being used"):
                    raise exceptions.Conflict(f"Cannot remove {what}: {exc.explanation}") from exc
                raise
        LOG.info("Removed the bridge of %s", what)

    def _is_here(self, name: str) -> bool:
        return self._found(name) is not None

    def _found(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._engine.api.inspect_network(name)
        except docker_errors.NotFound:
            return None
        return found


def interface_name(network: str) -> str:
    """Return the name of the bridge's interface, ``zun-`` and 11 digits: the kernel allows 15 characters."""
    return f"{BRIDGE_PREFIX}{digest(network)[:11]}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
