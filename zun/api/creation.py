# SPDX-License-Identifier: Apache-2.0
"""Turn the checked body of a create request into the fields of a container. No I/O."""

import random
import shlex
from collections.abc import Mapping
from typing import Any

from zun.api import devices, microversion, networks
from zun.api import traits as asked_traits
from zun.api.microversion import Version, v1
from zun.api.mounts import mounts
from zun.api.numa import placement
from zun.api.parsing import whole_number
from zun.api.schemas import scalars
from zun.api.schemas.containers import ASKED, CREATE_GATES
from zun.api.settings import Settings
from zun.common import exceptions, hints, traits
from zun.common.mounts import disk_gib
from zun.common.states import Status
from zun.topology import CPUPolicy

# fmt: off
_GREEK = (
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu",
    "nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
)
# fmt: on

_MAX_HOSTNAME = 63  # what Docker and the kernel take


def generated_name(choose: random.Random) -> str:
    return f"{choose.choice(_GREEK)}-{choose.randint(1, 24)}-container"


def check_gates(given: Mapping[str, Any], version: Version) -> None:
    """Raise InvalidParamInVersion for a field that is newer than the request's version."""
    for gate in CREATE_GATES:
        if gate.asked(given.get(gate.field)):
            microversion.require_for(gate.field, version, gate.since)


def host_hints(settings: Settings, healthcheck: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return the hints that keep a container from hosts which cannot do what it needs."""
    said = {traits.NEUTRON: "required"} if settings.neutron else {}
    if healthcheck:
        said[traits.NO_HEALTHCHECKS] = "forbidden"
    return {f"{hints.IMAGE_TRAIT}{name}": word for name, word in said.items()}


def container_fields(given: Mapping[str, Any], *, run: bool, version: Version, settings: Settings) -> dict[str, Any]:
    """Return the fields of the new container, without its owner and without a generated name.

    ``given`` has passed the schema of ``version``. Raises InvalidValue or ValidationError, naming the field.
    """
    if not settings.neutron and set(given.get("security_groups") or ()) - {networks.EVERYBODYS_GROUP}:
        raise networks.no_security_groups("security_groups")
    ports = _ports(given)
    memory = _or(given.get("memory"), settings.default_memory)
    mounted = mounts(
        given.get("mounts"), version=version, memory_mib=memory, disk=settings.disk, cinder=settings.cinder
    )
    return {
        **{name: given[name] for name in _ASKED if given.get(name) is not None},
        "cpu": _or(given.get("cpu"), settings.default_cpu),
        "memory": memory,
        "disk": given.get("disk") or 0,
        "volume_disk": disk_gib(mounted),
        "mounts": [mount.to_dict() for mount in mounted] or None,
        "cpu_policy": given.get("cpu_policy", CPUPolicy.SHARED),
        "placement": {
            **placement(given),
            **asked_traits.asked(given),
            **devices.asked(given, settings.device_aliases),
            **({} if given.get("movable") is None else {"movable": given["movable"]}),
        },
        "command": _command(given.get("command")),
        "image_driver": given.get("image_driver") or settings.default_image_driver,
        "restart_policy": _restart_policy(given.get("restart_policy")),
        "hostname": _hostname(given.get("hostname")),
        "tty": _tty(given, version),
        "healthcheck": _healthcheck(given.get("healthcheck"), version),
        "exposed_ports": {port: {} for port in ports} or None,
        "ports": sorted(set(ports.values())) or None,
        "status": str(Status.CREATING),
        "request": {
            "run": run,
            "hints": given.get("hints") or {},
            "availability_zone": given.get("availability_zone") or settings.default_schedule_zone,
            "host": given.get("host"),
        },
    }


# Those that have no rule below are stored as they were given.
_ASKED = tuple(each.name for each in ASKED if each.is_stored)


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _command(command: list[str] | str | None) -> list[str] | None:
    """Return a list unchanged; split the text of versions below 1.20 as a shell does."""
    if not isinstance(command, str):
        return command
    return split(command, "command")


def split(text: str, field: str) -> list[str]:
    """Split ``text`` into words by the rules of a POSIX shell. Raises InvalidValue.

    python-zunclient's own commands put each argument between double quotes without escaping the quotes in it.
    """
    try:
        return shlex.split(text)
    except ValueError as exc:
        raise exceptions.InvalidValue(
            f"{field}: it cannot be split into words: {exc}. Check the quotes. The plain client ('zun exec', and "
            "'openstack appcontainer exec' without the commands of this service) loses quotes inside an argument; the "
            "commands of this service keep them."
        ) from None


def _tty(given: Mapping[str, Any], version: Version) -> bool:
    if v1(20) <= version <= v1(35) and "interactive" in given:
        return bool(given["interactive"])
    return bool(given.get("tty"))


def _hostname(hostname: str | None) -> str | None:
    if hostname is not None and len(hostname) > _MAX_HOSTNAME:
        raise exceptions.InvalidValue(f"hostname: it has {len(hostname)} characters and may have {_MAX_HOSTNAME}.")
    return hostname


def _restart_policy(policy: Mapping[str, Any] | None) -> dict[str, str] | None:
    if policy is None:
        return None
    name, count = policy["Name"], int(policy.get("MaximumRetryCount") or 0)
    if count and name in ("always", "unless-stopped"):
        raise exceptions.InvalidValue(
            f"restart_policy: MaximumRetryCount is for 'on-failure'; with '{name}' it must be 0 or left out."
        )
    return {"Name": name, "MaximumRetryCount": "0" if name == "no" else str(count)}


def _ports(given: Mapping[str, Any]) -> dict[str, int]:
    """Return the exposed ports in full form with their numbers: ``{"80/tcp": 80}``."""
    exposed = given.get("exposed_ports")
    if exposed is None:
        return {}
    if given.get("security_groups") is not None:
        raise exceptions.InvalidValue(
            "exposed_ports: it makes a security group of its own, so security_groups cannot be given too; choose one."
        )
    ports = {}
    for key in exposed:
        number, slash, protocol = key.partition("/")
        if slash and protocol not in scalars.PROTOCOLS:
            raise exceptions.InvalidValue(
                f"exposed_ports: the protocol of '{key[:64]}' must be one of {', '.join(scalars.PROTOCOLS)}."
            )
        port = whole_number(number, 5)
        if port is None or not 1 <= port <= 65535:
            raise exceptions.InvalidValue(f"exposed_ports: '{key[:64]}' has no port from 1 to 65535.")
        ports[f"{port}/{protocol or 'tcp'}"] = port
    return ports


def _healthcheck(check: Mapping[str, Any] | None, version: Version) -> dict[str, Any] | None:
    """Return the stored form: ``cmd`` of the request becomes ``test``.

    Up to 1.40 unknown members are dropped, as in Zun. Raises InvalidValue for ``start_interval`` in
    every version: engines know it, but not all of them.
    """
    if not check:
        return None
    known = {"cmd", "test", *_COUNTS}
    for name in check.keys() - known:
        if version >= microversion.STRICT or name == "start_interval":
            raise exceptions.InvalidValue(
                f"healthcheck: there is no {name[:64]}; possible are cmd, {', '.join(sorted(_COUNTS))}."
            )
    command = check.get("cmd", check.get("test"))
    if not isinstance(command, str) or not command:
        raise exceptions.InvalidValue("healthcheck: cmd, the command that tests the container's health, is missing.")
    return {"test": command, **{name: _count(name, check[name]) for name in _COUNTS if check.get(name) is not None}}


_COUNTS = ("interval", "retries", "timeout", "start_period")


def _count(name: str, value: Any) -> int:
    number = None if isinstance(value, bool) else whole_number(str(value), 9)
    if number is None:
        raise exceptions.InvalidValue(
            f"healthcheck: {name} must be a whole number from 0 to 999999999, got {str(value)[:64]!r}."
        )
    return number
