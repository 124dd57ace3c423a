# SPDX-License-Identifier: Apache-2.0
"""Say what a container may do and take beyond its CPUs and memory: capabilities, processes, open files, log.

Decisions only. Docker's own seccomp and AppArmor profiles stay on, because the service never names another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from oslo_config import cfg

from zun.container.driver.container import ContainerView

#: Capabilities that a container does not have. Podman leaves out the same, so images are tested without them.
DROPPED = ("AUDIT_WRITE", "MKNOD", "NET_RAW")
#: Log drivers that keep the log in files of the host and limit the size of these files.
_ROTATED = frozenset({"json-file", "local", "k8s-file"})


@dataclass(frozen=True, slots=True)
class Profile:
    """The operator's profile of a container. The defaults are those of the options in ``[docker]``.

    ``pids_limit`` 0 is no limit. ``dropped`` are names of capabilities without ``CAP_``, or ``ALL``. ``ulimits`` have
    a name, a soft and a hard limit. ``log_max_size`` is a size of Docker, for example ``50m``; an empty text leaves the
    log to the daemon's own options.
    """

    pids_limit: int = 4096
    no_new_privileges: bool = True
    dropped: tuple[str, ...] = DROPPED
    ulimits: tuple[tuple[str, int, int], ...] = ()
    log_max_size: str = "50m"
    log_max_files: int = 3

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(
            pids_limit=conf.docker.pids_limit,
            no_new_privileges=conf.docker.no_new_privileges,
            dropped=tuple(conf.docker.drop_capabilities),
            ulimits=tuple(conf.docker.ulimits),
            log_max_size=conf.docker.log_max_size,
            log_max_files=conf.docker.log_max_files,
        )

    def host_config(self, container: ContainerView, log_driver: str) -> dict[str, Any]:
        """Return the members of Docker's ``HostConfig``. ``log_driver`` is the daemon's own.

        A privileged container asks for the rights of the host, so only its log is limited.
        """
        return self._log(log_driver) | ({} if container.privileged else self._limits(container.capabilities or ()))

    def _limits(self, asked: Sequence[str]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        if self.pids_limit:
            members["PidsLimit"] = self.pids_limit
        if self.no_new_privileges:
            members["SecurityOpt"] = ["no-new-privileges"]
        if dropped := [name for name in self.dropped if name not in asked]:
            members["CapDrop"] = dropped
        if asked:
            members["CapAdd"] = list(asked)
        if self.ulimits:
            members["Ulimits"] = [{"Name": name, "Soft": soft, "Hard": hard} for name, soft, hard in self.ulimits]
        return members

    def _log(self, driver: str) -> dict[str, Any]:
        """Name the driver too: the daemon refuses options of a driver that is not the container's."""
        if not self.log_max_size or driver not in _ROTATED:
            return {}
        options = {"max-size": self.log_max_size, "max-file": str(self.log_max_files)}
        return {"LogConfig": {"Type": driver, "Config": options}}


STANDARD = Profile()
