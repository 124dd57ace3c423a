# SPDX-License-Identifier: Apache-2.0
"""Make the template of a capsule from a compose file: its services are the containers. No I/O.

Source: the Compose Specification (compose-spec) and its schema.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any

from zun.osc import translation
from zun.osc.translation import Lost, Translated, listed, mapping

_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?:(?P<how>:?[-?+])(?P<other>[^}]*))?\})"
)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([bkmgBKMG]?)[bB]?")
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?(?:(\d+)us)?")
_LENGTHS = (Fraction(3600), Fraction(60), Fraction(1), Fraction(1, 1000), Fraction(1, 1000000))
_PERIODS = {
    "interval": ("periodSeconds", 1, 86400),
    "timeout": ("timeoutSeconds", 1, 60),
    "start_period": ("initialDelaySeconds", 0, 86400),
}
"""Times of a health check, with our name and the range of each."""
MOST_PORTS = 1000
"""Ports of one range: each is exposed by itself."""
_PORT = re.compile(r"(?:(?P<published>.*):)?(?P<target>\d+(?:-\d+)?)(?:/(?P<protocol>\w+))?")
_RESTARTS = {"no": "Never", "always": "Always", "unless-stopped": "Always", "on-failure": "OnFailure"}

_KEPT = (
    "image", "command", "entrypoint", "environment", "working_dir", "stdin_open", "tty", "ports", "expose", "volumes",
    "deploy", "cpus", "mem_limit", "restart", "depends_on", "container_name", "pull_policy", "cpuset",
    "healthcheck", "stop_grace_period",
)  # fmt: skip
"""Members that are translated, or mean nothing in a capsule: ``expose`` is for the other services alone."""
_WHY: Mapping[str, str] = {
    "build": "an image is not built here: build it, push it to a registry and name it",
    "env_file": "write the values into environment",
    "networks": "all services share the one network of the capsule",
    "network_mode": "all services share the one network of the capsule",
    **dict.fromkeys(("secrets", "configs"), "there are none here: give the value in environment"),
    **dict.fromkeys(
        ("cap_add", "cap_drop", "privileged", "security_opt", "user", "userns_mode"),
        "a capsule has no security contexts",
    ),
    "devices": "ask for devices by alias instead",
}
_CPUSET = (
    "it names CPUs of a host, which the service chooses here: ask for CPUs of your own with a top-level 'x-placement: "
    "{cpu_policy: dedicated}'"
)
_TOP = ("services", "volumes", "name", "version", "x-placement")


def interpolated(value: Any, environment: Mapping[str, str], path: str = "") -> Any:
    """Return a document with ``$NAME`` and ``${NAME:-default}`` replaced. Raise ValueError for a needed variable.

    ``$$`` is a dollar sign. A variable that is not set is empty, as the specification has it.
    """
    if isinstance(value, Mapping):
        return {key: interpolated(each, environment, f"{path}.{key}".lstrip(".")) for key, each in value.items()}
    if isinstance(value, list):
        return [interpolated(each, environment, f"{path}[{number}]") for number, each in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replaced(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        name, how, other = match["plain"] or match["name"], match["how"] or "", match["other"] or ""
        text = environment.get(name)
        given = text is not None and (text != "" or not how.startswith(":"))
        if how.endswith("-"):
            return text if given and text is not None else other
        if how.endswith("+"):
            return other if given else ""
        if how.endswith("?") and not given:
            raise ValueError(f"{path}: the variable {name} is not set: {other or 'it must be'}")
        return text or ""

    return _VARIABLE.sub(replaced, value)


def translated(document: Mapping[str, Any], project: str) -> Translated:
    """Return the capsule of a compose file, whose values are interpolated. ``project`` is its name without ``name``.

    Raise ValueError, naming the path, for a document that is no compose file.
    """
    services = document.get("services")
    if not isinstance(services, Mapping) or not services:
        raise ValueError("services: a compose file has one at least")
    found = _Project(Lost(_WHY), mapping(document, "volumes", ""))
    found.lost.others(document, "", _TOP)
    if len(services) > 1:
        found.lost.add("services", "they reach each other at 127.0.0.1, not by their names")
    containers = [found.container(name, mapping(services, name, "services.")) for name in found.in_order(services)]
    spec: dict[str, Any] = {"containers": containers}
    if len({each["restartPolicy"] for each in containers}) == 1:  # any release of the service knows the one of all
        for each in containers:
            spec["restartPolicy"] = each.pop("restartPolicy")
    if (seconds := found.grace(services)) is not None:
        spec["terminationGracePeriodSeconds"] = seconds
    used = {mount["name"] for each in containers for mount in each.get("volumeMounts", ())}
    if used:
        spec["volumes"] = [{"name": name, "volume": {"name": found.real_name(name)}} for name in sorted(used)]
    if placement := mapping(document, "x-placement", ""):
        spec["placement"] = dict(placement)
    metadata = {"name": document.get("name") or project}
    template = {"kind": "capsule", "capsuleVersion": "beta", "metadata": metadata, "spec": spec}
    return Translated(template, tuple(found.lost.told))


class _Project:
    """One translation. ``volumes`` are those of the document by name."""

    def __init__(self, lost: Lost, volumes: Mapping[str, Any]) -> None:
        self.lost, self._volumes = lost, volumes

    def in_order(self, services: Mapping[str, Any]) -> list[str]:
        """Return the services, each after those that it depends on. Raise ValueError for a circle."""
        done: list[str] = []

        def visit(name: str, above: tuple[str, ...]) -> None:
            if name in above:
                raise ValueError(f"services.{name}.depends_on: it depends on itself")
            if name in done:
                return
            if name not in services:
                raise ValueError(f"services.{above[-1]}.depends_on: there is no service {name}")
            service = mapping(services, name, "services.")
            needs = service.get("depends_on") or ()
            if not isinstance(needs, Mapping):
                needs = listed(service, "depends_on", f"services.{name}.")
            for other in needs:
                how = needs[other] if isinstance(needs, Mapping) else None
                if (how or {}).get("condition", "service_started") != "service_started":
                    self.lost.add(f"services.{name}.depends_on.{other}", "it is started before, and not waited for")
                visit(other, (*above, name))
            done.append(name)

        for name in services:
            visit(name, ())
        return done

    def grace(self, services: Mapping[str, Any]) -> int | None:
        """Return the longest time that a service has to end: a capsule has one. None if no service says it."""
        path = "services.{}.stop_grace_period"
        given = {name: (each or {}).get("stop_grace_period") for name, each in services.items()}
        return max((seconds(text, path.format(name)) for name, text in given.items() if text is not None), default=None)

    def probe(self, given: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Return the readiness probe of a health check: it is asked the same, and nothing is restarted for it."""
        self.lost.others(given, f"{path}.", ("test", *_PERIODS, "retries", "disable"))
        test = given.get("test")
        words = ["CMD-SHELL", test] if isinstance(test, str) else list(listed(given, "test", f"{path}."))
        if given.get("disable") or words[:1] in ([], ["NONE"]):
            return {}
        if words[0] not in ("CMD", "CMD-SHELL") or len(words) < 2:
            raise ValueError(f"{path}.test: it must be a text, or a list that begins with CMD or CMD-SHELL")
        command = words[1:] if words[0] == "CMD" else ["/bin/sh", "-c", words[1]]
        made: dict[str, Any] = {"exec": {"command": command}, "periodSeconds": 30, "timeoutSeconds": 30}
        for name, (ours, lowest, highest) in _PERIODS.items():
            if given.get(name) is not None:
                made[ours] = max(lowest, min(seconds(given[name], f"{path}.{name}"), highest))
        retries = given.get("retries")
        if retries and not str(retries).isdecimal():
            raise ValueError(f"{path}.retries: {retries!r} is not a whole number")
        return {**made, "failureThreshold": int(retries)} if retries else made

    def real_name(self, name: str) -> str:
        return str((self._volumes.get(name) or {}).get("name") or name)

    def container(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        path = f"services.{name}"
        if not given.get("image"):
            why = _WHY["build"] if given.get("build") else "it is missing"
            raise ValueError(f"{path}.image: {why}")
        if given.get("cpuset"):
            raise ValueError(f"{path}.cpuset: {_CPUSET}")
        self.lost.others(given, f"{path}.", _KEPT)
        restart = str(given.get("restart") or "no").partition(":")[0]  # YAML reads a bare no as false
        if restart not in _RESTARTS:
            raise ValueError(f"{path}.restart: {restart!r} is none of {', '.join(_RESTARTS)}")
        made: dict[str, Any] = {"image": given["image"], "restartPolicy": _RESTARTS[restart]}
        if probe := self.probe(mapping(given, "healthcheck", f"{path}."), f"{path}.healthcheck"):
            made["readinessProbe"] = probe
        if len(name) > 1:  # the service wants two letters
            made["name"] = name
        for ours, theirs in (("command", "entrypoint"), ("args", "command")):
            if words := given.get(theirs):
                text = isinstance(words, str)
                made[ours] = _words(words, f"{path}.{theirs}") if text else [*listed(given, theirs, f"{path}.")]
        if environment := dict(self.variables(given.get("environment") or (), f"{path}.environment")):
            made["env"] = environment
        if given.get("working_dir"):
            made["workDir"] = given["working_dir"]
        for ours, theirs in (("stdin", "stdin_open"), ("tty", "tty")):
            if given.get(theirs):
                made[ours] = True
        if given.get("pull_policy"):
            self.pull(made, given["pull_policy"], path)
        if ports := [*self.ports(given, path)]:
            made["ports"] = ports
        if requests := self.requests(given, path):
            made["resources"] = {"requests": requests}
        if mounts := list(self.mounts(listed(given, "volumes", f"{path}."), f"{path}.volumes")):
            made["volumeMounts"] = mounts
        return made

    def variables(self, given: Any, path: str) -> Iterator[tuple[str, str]]:
        """Yield the variables of either form, ``{A: b}`` or ``[A=b]``."""
        pairs = given if isinstance(given, Mapping) else dict(_pair(str(each)) for each in given)
        for name, value in pairs.items():
            if value is None:
                self.lost.add(f"{path}: {name}", "its value would come from this shell: write it")
            else:
                yield str(name), str(value).lower() if isinstance(value, bool) else str(value)

    def pull(self, made: dict[str, Any], policy: str, path: str) -> None:
        kept = {"always": "Always", "never": "Never", "missing": "IfNotPresent", "if_not_present": "IfNotPresent"}
        if policy in kept:
            made["imagePullPolicy"] = kept[policy]
        else:
            self.lost.add(f"{path}.pull_policy", f"{policy} is not known")

    def ports(self, given: Mapping[str, Any], path: str) -> Iterator[dict[str, Any]]:
        for number, each in enumerate(listed(given, "ports", f"{path}.")):
            where = f"{path}.ports[{number}]"
            if isinstance(each, Mapping):
                target, published = each.get("target"), each.get("published")
                protocol = each.get("protocol", "tcp")
                self.lost.others(each, f"{where}.", ("target", "published", "protocol", "name", "app_protocol"))
            else:
                match = _PORT.fullmatch(str(each))
                if match is None:
                    raise ValueError(f"{where}: {each!r} is no port, for example 8080:80")
                target, published, protocol = match["target"], match["published"], match["protocol"] or "tcp"
            if published:
                self.lost.add(where, "the host chooses the port; published_ports of the capsule tells it")
            yield from _numbers(target, protocol, where)

    def requests(self, given: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Return the CPUs and MiB of a service: its limits, because that is what it may use, else its reservations."""
        deploy = mapping(given, "deploy", f"{path}.")
        self.lost.others(deploy, f"{path}.deploy.", ("resources",), {"mode": "replicated", "replicas": 1})
        resources = mapping(deploy, "resources", f"{path}.deploy.")
        parts = {part: mapping(resources, part, f"{path}.deploy.resources.") for part in ("limits", "reservations")}
        for part, found in parts.items():
            self.lost.others(found, f"{path}.deploy.resources.{part}.", ("cpus", "memory"))
        limits, reserved = parts.values()
        made: dict[str, Any] = {}
        cpus = given.get("cpus") or limits.get("cpus") or reserved.get("cpus")
        if cpus:
            try:
                amount = Fraction(str(cpus))
            except (ValueError, ZeroDivisionError):
                raise ValueError(f"{path}: cpus must be a number, got {cpus!r}") from None
            made["cpu"] = translation.cpus(amount)
        memory = given.get("mem_limit") or limits.get("memory") or reserved.get("memory")
        if memory:
            made["memory"] = translation.mib(_bytes(memory, path))
        return made

    def mounts(self, given: Sequence[Any], path: str) -> Iterator[dict[str, Any]]:
        for number, each in enumerate(given):
            where = f"{path}[{number}]"
            if isinstance(each, Mapping):
                kind, source, target = each.get("type", "volume"), each.get("source"), each.get("target")
                readonly = bool(each.get("read_only"))
            else:
                source, _, rest = str(each).partition(":")
                target, _, options = rest.partition(":")
                kind = "bind" if source.startswith((".", "/", "~")) and target else "volume"
                readonly = "ro" in options.split(",")
            if kind != "volume" or not source or not target:
                self.lost.add(where, "only named volumes are mounted: folders of this machine are not on the host")
                continue
            if source not in self._volumes:
                raise ValueError(f"{where}: there is no volume {source} under the top-level volumes")
            yield {"name": source, "mountPath": target, **({"readOnly": True} if readonly else {})}


def seconds(text: Any, path: str) -> int:
    """Return a duration in whole seconds, rounded up. Example: ``1m30s`` is 90. Raise ValueError, naming the path."""
    parts = _DURATION.fullmatch(str(text).strip())
    if parts is None or not parts[0]:
        raise ValueError(f"{path}: {text!r} is no duration, for example 1m30s")
    pairs = zip(parts.groups(), _LENGTHS, strict=True)
    return ceil(sum((Fraction(each) * unit for each, unit in pairs if each), Fraction(0)))


def _numbers(target: Any, protocol: str, path: str) -> Iterator[dict[str, Any]]:
    """Yield each port of a range."""
    first, _, last = str(target).partition("-")
    if not first.isdecimal() or not (last or first).isdecimal():
        raise ValueError(f"{path}: {target!r} is no port")
    ports = range(int(first), int(last or first) + 1)
    if not 1 <= len(ports) <= MOST_PORTS:
        raise ValueError(f"{path}: {target!r} is no range of 1 to {MOST_PORTS} ports")
    for port in ports:
        yield {"containerPort": port, "protocol": protocol.upper()}


def _words(text: str, path: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as exc:
        raise ValueError(f"{path}: {str(exc)[:1].lower()}{str(exc)[1:]} in {text!r}") from None


def _pair(text: str) -> tuple[str, str | None]:
    name, sign, value = text.partition("=")
    return name, value if sign else None


def _bytes(value: Any, path: str) -> Fraction:
    match = _SIZE.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{path}: memory must be a size, for example 512m, got {value!r}")
    return Fraction(match[1]) * _UNITS[match[2].lower()]
