# SPDX-License-Identifier: Apache-2.0
"""The networks of one Docker daemon that its agent makes: how each is found, created and removed."""

import hashlib
import logging
from collections.abc import Mapping
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
