# SPDX-License-Identifier: Apache-2.0
"""Build the body of Docker's request to create a container, in pure functions.

The body is Docker's own JSON. docker-py's keyword arguments would need a client.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zun.common import exceptions
from zun.common.states import Kind
from zun.common.units import MIB
from zun.container.docker.client import LABEL_HOST, LABEL_UUID, NOWHERE, Settings, object_name
from zun.container.docker.devices import VARIABLE as DEVICES_VARIABLE
from zun.container.driver.container import ContainerView
from zun.container.driver.lifecycle import Plug, RuntimeMount
from zun.container.weights import Curve, linear, shares_for
from zun.topology import CPUPolicy

#: The kernel's default weight of a group. An update that lifts a limit sets this weight.
DEFAULT_SHARES = 1024
QUOTA_PERIOD_US = 100_000
CPUSET_VARIABLES = ("ZUN_CPUSET_CPUS", "ZUN_CPUSET_MEMS")
#: A mixed container has no list of all its CPUs: those of the pool change with other containers.
MIXED_VARIABLES = ("ZUN_DEDICATED_CPUS", "ZUN_CPUSET_MEMS")
#: The variables that tell a container its claim. Only the service sets them: no user, and no image.
CLAIM_VARIABLES = tuple(dict.fromkeys((*CPUSET_VARIABLES, *MIXED_VARIABLES, DEVICES_VARIABLE)))
SECOND_NS = 1_000_000_000


def request_body(
    container: ContainerView,
    *,
    cpuset_cpus: str,
    cpuset_mems: str,
    settings: Settings,
    disk_quota: bool,
    log_driver: str = "",
    plug: Plug | None = None,
    mounts: Sequence[RuntimeMount] = (),
    join: str | None = None,
    memory: int | None = None,
    dedicated_cpus: str = "",
    curve: Curve = linear,
) -> dict[str, Any]:
    """Return the body of POST /containers/create. InvalidValue for text in the place of a number.

    ``disk_quota`` tells whether the storage driver can limit sizes. Without it the container's disk is only accounted.
    ``log_driver`` is the daemon's own, ``curve`` that of the container's runtime.
    """
    body: dict[str, Any] = {
        "Image": container.image,
        "Labels": {
            **(container.labels or {}),
            LABEL_UUID: container.uuid,
            LABEL_HOST: settings.host_label,
        },
        "Tty": bool(container.tty),
        "OpenStdin": bool(container.interactive),
        "HostConfig": _host_config(container, cpuset_cpus, cpuset_mems, settings, disk_quota, curve)
        | settings.profile.host_config(container, log_driver),
    }
    if memory is not None:
        body["HostConfig"] |= memory_limits(memory, settings.memory_swap_mib)
    if plug is not None:
        # A start looks for the network of this name as long as the object exists, although the container has left it.
        body["HostConfig"]["NetworkMode"] = NOWHERE
        if plug.dns:
            body["HostConfig"]["Dns"] = list(plug.dns)
    if mounts:
        body["HostConfig"]["Mounts"] = [_mount(each, settings.host_label) for each in mounts]
    if container.command:
        body["Cmd"] = list(container.command)
    if container.entrypoint:
        body["Entrypoint"] = list(container.entrypoint)
    told = _cpuset_variables(container, dedicated_cpus or cpuset_cpus, cpuset_mems)
    environment = {name: value for name, value in (container.environment or {}).items() if name not in CLAIM_VARIABLES}
    body["Env"] = [f"{name}={value}" for name, value in (environment | told).items()]
    body["Env"] += [name for name in CLAIM_VARIABLES if name not in told]  # Docker takes the image's values away
    if container.workdir:
        body["WorkingDir"] = container.workdir
    if join is not None:
        # Docker refuses a host name and ports for a container that shares the network of another container.
        other = f"container:{object_name(join)}"
        body["HostConfig"] |= {"NetworkMode": other, "IpcMode": other}
        return body
    if container.kind == Kind.CAPSULE:
        body["HostConfig"]["IpcMode"] = "shareable"
    if container.hostname:
        body["Hostname"] = container.hostname
    if container.exposed_ports:
        body["ExposedPorts"] = {port: {} for port in container.exposed_ports}
        body["HostConfig"]["PortBindings"] = _published(container.exposed_ports)
    if container.healthcheck:
        body["Healthcheck"] = _healthcheck(container.healthcheck)
    return body


def endpoint(container: ContainerView, plug: Plug) -> dict[str, Any]:
    """Return the arguments with which docker-py connects the container to its first network."""
    return {
        "ipv4_address": plug.ipv4,
        "ipv6_address": plug.ipv6,
        "driver_opt": dict(plug.options),
        "aliases": [container.name] if plug.by_name and container.name else [],
    }


def _published(ports: Mapping[str, Any]) -> dict[str, list[dict[str, str]]]:
    return {
        port: [{"HostIp": where["host_ip"], "HostPort": str(where["host_port"])}]
        for port, where in ports.items()
        if where.get("host_port")
    }


def _cpuset_variables(container: ContainerView, cpus: str, mems: str) -> dict[str, str]:
    """Return the variables that tell a container its own CPUs and memory nodes, for example ``0-3`` and ``0``.

    A shared container has no such variables, because its CPUs change with the other containers. The environment of a
    process never changes, so after a resize the variables still show the first sets. The own CPUs of a mixed container
    never change.
    """
    return dict(zip(cpuset_variables(container.cpu_policy), (cpus, mems), strict=False))


def cpuset_variables(cpu_policy: str | None) -> tuple[str, ...]:
    """Return the names of the variables for the CPUs and the memory nodes; none for a shared container."""
    if cpu_policy in (None, CPUPolicy.SHARED):
        return ()
    return MIXED_VARIABLES if cpu_policy == CPUPolicy.MIXED else CPUSET_VARIABLES


def dedicated_in(environment: Iterable[str] | None) -> str:
    """Return the own CPUs of a mixed container from its environment in Docker's form ``NAME=value``, "" without any."""
    name = MIXED_VARIABLES[0]
    return next((each.partition("=")[2] for each in environment or () if each.startswith(f"{name}=")), "")


def cpu_limits(cpu_policy: str | None, cpu: float | None, *, hard: bool, curve: Curve = linear) -> dict[str, int]:
    """Return Docker's CPU members for a new container: a weight or a quota if shared, none if dedicated.

    1.5 CPUs are ``CpuShares`` 1536, or with ``hard`` a ``CpuQuota`` of 150000 us for each ``CpuPeriod`` of 100000 us. A
    runtime with another ``curve`` needs other shares for the same weight.
    A dedicated container owns its CPUs: a weight would have no effect, and a quota would throttle the container on its
    own cores whenever the kernel's accounting runs ahead.

    A mixed container has a weight for all of its CPUs, and never a quota, which would throttle its own CPUs too. The
    kernel divides the weight of a group among the CPUs by the load of the group there. So if all of 4 CPUs are busy, of
    which 2 are its own, half of the weight is in the pool: as much as a shared container of 2 CPUs has.
    """
    if cpu is None or cpu_policy == CPUPolicy.DEDICATED:
        return {}
    if hard and cpu_policy != CPUPolicy.MIXED:
        return {"CpuPeriod": QUOTA_PERIOD_US, "CpuQuota": int(cpu * QUOTA_PERIOD_US)}
    return {"CpuShares": shares_for(cpu, curve)}


def memory_limits(memory_mib: int | None, swap_mib: int) -> dict[str, int]:
    """Return Docker's memory members in bytes. ``swap_mib`` is memory plus swap in MiB, -1 for no limit."""
    if not memory_mib:
        return {}
    # Docker refuses a sum below the memory. If the operator's bound is lower, the container has no swap.
    both = -1 if swap_mib < 0 else max(swap_mib, memory_mib) * MIB
    return {"Memory": memory_mib * MIB, "MemorySwap": both}


def _host_config(
    container: ContainerView, cpuset_cpus: str, cpuset_mems: str, settings: Settings, disk_quota: bool, curve: Curve
) -> dict[str, Any]:
    config: dict[str, Any] = {
        "CpusetCpus": cpuset_cpus,
        "CpusetMems": cpuset_mems,
        **cpu_limits(container.cpu_policy, container.cpu, hard=settings.hard_cpu_limit, curve=curve),
        **memory_limits(container.memory, settings.memory_swap_mib),
        "AutoRemove": bool(container.auto_remove),
        "Privileged": bool(container.privileged),
    }
    if settings.network_mode:
        config["NetworkMode"] = settings.network_mode
    if container.restart_policy:
        config["RestartPolicy"] = restart_policy(container, container.restart_policy)
    if container.runtime:
        config["Runtime"] = container.runtime
    if container.disk and disk_quota:
        config["StorageOpt"] = {"size": f"{container.disk}G"}
    return config


def _mount(mount: RuntimeMount, host: str) -> dict[str, Any]:
    """Return a member of Docker's ``Mounts``. A volume gets the label of ``host``.

    Docker's ``Binds`` would create a missing source as an empty folder.
    """
    body: dict[str, Any] = {"Type": mount.kind, "Target": mount.target, "ReadOnly": mount.read_only}
    if mount.kind == "tmpfs":
        return {**body, "TmpfsOptions": {"SizeBytes": mount.size_bytes}}
    if mount.kind == "hugetlbfs":
        return {**body, "Type": "volume", "VolumeOptions": _hugetlbfs(mount)}
    if mount.labels:
        body["VolumeOptions"] = {"Labels": {**mount.labels, LABEL_HOST: host}}
    return {**body, "Source": mount.source}


def _hugetlbfs(mount: RuntimeMount) -> dict[str, Any]:
    """Return the options of an anonymous volume in huge pages.

    Docker mounts the volume at each start, unmounts it at each stop, and removes it together with the container. Every
    user of the container may write there.
    """
    options = f"pagesize={mount.page_kib}K,size={mount.size_bytes},mode=1777"
    driver = {"Name": "local", "Options": {"type": "hugetlbfs", "device": "none", "o": options}}
    return {"NoCopy": True, "DriverConfig": driver}


def restart_policy(container: ContainerView, policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the runtime's form of ``policy``. With ``always`` the engine starts at its own start what a user stopped.

    A stopped member of a capsule stays stopped: it gets ``unless-stopped``.
    """
    name = policy.get("Name") or "no"
    if name == "always" and container.kind == Kind.MEMBER:
        name = "unless-stopped"
    # The row stores the count as text. Docker refuses a count with any other policy.
    count = _number("MaximumRetryCount", policy.get("MaximumRetryCount")) if name == "on-failure" else 0
    return {"Name": name, "MaximumRetryCount": int(count)}


def _healthcheck(check: Mapping[str, Any]) -> dict[str, Any]:
    """Return Docker's health check: 5 seconds are 5000000000 ns. A missing number is 0: Docker uses the image's."""
    start = int(_number("start_period", check.get("start_period")) * SECOND_NS)
    return {
        "Test": ["CMD-SHELL", check["test"]] if check.get("test") else [],
        "Interval": int(_number("interval", check.get("interval")) * SECOND_NS),
        "Timeout": int(_number("timeout", check.get("timeout")) * SECOND_NS),
        "Retries": int(_number("retries", check.get("retries"))),
        **({"StartPeriod": start} if start else {}),
    }


def _number(name: str, value: Any) -> float:
    try:
        return float(value or 0)
    except (TypeError, ValueError) as exc:
        raise exceptions.InvalidValue(f"'{value}' is no number, which {name} must be.") from exc
