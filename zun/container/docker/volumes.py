# SPDX-License-Identifier: Apache-2.0
"""Remove Docker's named volumes."""

import contextlib

from docker import errors as docker_errors

from zun.common import exceptions
from zun.container.docker.client import OnEngine
from zun.container.driver.volumes import LABEL_VOLUME


class DockerVolumes(OnEngine):
    def remove_volume(self, name: str) -> None:
        with self._engine.translated(f"remove volume {name}"), contextlib.suppress(docker_errors.NotFound):
            if LABEL_VOLUME not in (self._engine.api.inspect_volume(name).get("Labels") or {}):
                raise exceptions.Conflict(
                    f"Volume {name} of Docker was not made by this service: it has no label {LABEL_VOLUME}. If nobody "
                    "needs its files, remove it with 'docker volume rm'."
                )
            self._engine.api.remove_volume(name)
