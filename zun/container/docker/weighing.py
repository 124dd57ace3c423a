# SPDX-License-Identifier: Apache-2.0
"""Give containers weights in proportion to their CPUs, whatever the runtime makes of CPU shares."""

import logging
from pathlib import Path

from zun.common import exceptions
from zun.container.docker.client import Engine, OnEngine, object_name
from zun.container.docker.kernel import cpu_weight
from zun.container.driver.container import ContainerView
from zun.container.weights import Curve, curve_of, linear, shares_for, weight_of
from zun.topology import CPUPolicy
from zun.topology.files import text_of
from zun.topology.mounts import mountinfo

LOG = logging.getLogger(__name__)


class DockerWeights(OnEngine):
    """Knows the curve of each runtime once a container of the runtime has run."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._curves: dict[str | None, Curve] = {}

    def curve(self, container: ContainerView) -> Curve:
        """Return the curve of the container's runtime, as far as it is known. None is Docker's default runtime."""
        return self._curves.get(container.runtime or None, linear)

    def weigh(self, container: ContainerView, cpu: float | None) -> None:
        """Compare the weight of a running container with its CPUs, and ask for other shares if the weight differs.

        The weight tells the curve of the runtime, which an upgrade of the runtime may have changed. A failure is
        logged: the container runs, and the audit reports its weight.
        """
        unweighed = self.settings.hard_cpu_limit and container.cpu_policy != CPUPolicy.MIXED
        if cpu is None or container.cpu_policy == CPUPolicy.DEDICATED or unweighed:
            return
        try:
            with self._engine.translated("weigh", container):
                # Once more, because the first correction may have been for a curve that the runtime no longer has.
                if self._corrected(container, cpu):
                    self._corrected(container, cpu)
        except (exceptions.ZunError, OSError, ValueError) as exc:
            LOG.warning("Cannot compare the CPU weight of container %s with its CPUs: %s", container.uuid, exc)

    def _corrected(self, container: ContainerView, cpu: float) -> bool:
        """Return whether the container was given other shares, because the curve turned out to be another one."""
        name, api = object_name(container.uuid), self._engine.api
        root = Path(self.settings.root)
        mounts = mountinfo(root)
        if " - cgroup2 " not in mounts:
            return False  # shares are weights
        found = api.inspect_container(name)
        shares, pid = found["HostConfig"]["CpuShares"], found["State"]["Pid"]
        if not pid:
            return False
        try:
            cgroup_text = text_of(root / "proc" / str(pid) / "cgroup")
        except (FileNotFoundError, ProcessLookupError):
            return False
        weight = cpu_weight(root, cgroup_text, mounts, found["Id"])
        if weight is None or not weight[1] or weight[0] == weight_of(cpu):
            return False
        curve = curve_of(shares, weight[0])
        if curve is None:
            LOG.warning(
                "Runtime %s makes weight %d of %d CPU shares, by no curve that is known. Containers of this host have "
                "no weights in proportion to their CPUs: report the release of the runtime",
                container.runtime or "of Docker",
                weight[0],
                shares,
            )
            return False
        self._curves[container.runtime or None] = curve
        if shares_for(cpu, curve) == shares:
            return False
        api.update_container(name, cpu_shares=shares_for(cpu, curve))
        return True
