# SPDX-License-Identifier: Apache-2.0
"""Remove Docker's named volumes."""

import contextlib

from docker import errors as docker_errors

from zun.container.docker.client import OnEngine


class DockerVolumes(OnEngine):
    def remove_volume(self, name: str) -> None:
        with self._engine.translated(f"remove volume {name}"), contextlib.suppress(docker_errors.NotFound):
            self._engine.api.remove_volume(name)
