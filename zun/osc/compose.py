# SPDX-License-Identifier: Apache-2.0
"""Make the template of a capsule from a compose file: its services are the containers. No I/O.

Source: the Compose Specification (compose-spec) and its schema.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil
from types import MappingProxyType
from typing import Any

from zun.osc import translation
from zun.osc.translation import ANYTHING, Lost, Translated, listed, mapping

_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?:(?P<end>\})|(?P<how>:?[-?+])))", re.ASCII
)
_ASSIGNMENT = re.compile(r"(?:export\s+)?(?P<name>[^\s=#'\"]+)\s*(?:=\s*(?P<value>.*))?", re.DOTALL)
_QUOTED = re.compile(r"""(?P<quote>['"])(?P<text>(?:\\.|(?!(?P=quote)).)*)(?P=quote)\s*(?:#.*)?""", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "$": "$$"}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([bkmgBKMG]?)[bB]?")
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_CPUS = re.compile(f"-?{_NUMBER}")
_DURATION = re.compile("".join(f"(?:{_NUMBER}{unit})?" for unit in ("h", "m(?!s)", "s", "ms", "us")))
_LENGTHS = (Fraction(3600), Fraction(60), Fraction(1), Fraction(1, 1000), Fraction(1, 1000000))
_PERIODS = {
    "interval": "periodSeconds",
    "timeout": "timeoutSeconds",
    "start_period": "initialDelaySeconds",
}
"""Times of a health check, with the name of each in a probe."""
MOST_PORTS = 1000
"""Ports of one range: each is exposed by itself."""
_PORT = re.compile(r"(?:(?P<published>.*):)?(?P<target>\d+(?:-\d+)?)(?:/(?P<protocol>\w+))?")
_RESTARTS = {"no": "Never", "always": "Always", "unless-stopped": "Always", "on-failure": "OnFailure"}

_KEPT = (
    "image", "command", "entrypoint", "environment", "working_dir", "stdin_open", "tty", "ports", "expose", "volumes",
    "deploy", "cpus", "mem_limit", "restart", "depends_on", "container_name", "pull_policy", "cpuset",
    "healthcheck", "stop_grace_period", "env_file", "profiles",
)  # fmt: skip
"""Members that are translated, or mean nothing in a capsule: ``expose`` is for the other services alone."""
_WHY: Mapping[str, str] = {
    "build": "an image is not built here: build it, push it to a registry and name it",
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
_TOP = ("services", "volumes", "name", "version")


def of_document(
    document: Mapping[str, Any],
    values: Mapping[str, str],
    read: Callable[[str], str],
    project: str,
    name: str | None = None,
) -> Translated:
    """Return the capsule of a compose file. ``values`` are those of variables, ``read`` returns the text of a file.

    ``name`` is that of the capsule; without it, ``name`` of the document, else ``project``. Raise ValueError as
    ``translated``.
    """
    unset: dict[str, str] = {}
    written = interpolated(document, values, unset=unset)
    if name:
        written = {**written, "name": name}
    template, lost = translated(written, project, read, values)
    told = (f"{path}: the variable {name} is not set: its value is empty" for name, path in unset.items())
    return Translated(template, (*told, *lost))


def interpolated(
    value: Any, environment: Mapping[str, str], path: str = "", unset: dict[str, str] | None = None
) -> Any:
    """Return a document with ``$NAME`` and ``${NAME:-default}`` replaced. ``$$`` is a dollar sign.

    A variable that is not set is empty, as the specification has it; ``unset`` gets its name and the first path. Raise
    ValueError, naming the path, for a variable that must be set and for another ``$``.
    """
    if isinstance(value, Mapping):
        return {
            key: interpolated(each, environment, f"{path}.{key}".lstrip("."), unset) for key, each in value.items()
        }
    if isinstance(value, list):
        return [interpolated(each, environment, f"{path}[{number}]", unset) for number, each in enumerate(value)]
    if not isinstance(value, str):
        return value
    text, rest = _Interpolation(environment, path, {} if unset is None else unset).replaced(value, inside=False)
    assert not rest  # only a text inside of braces has an end before its end
    return text


class _Interpolation:
    """Replaces the variables of one text, whose ``path`` errors name. Without an environment every variable is set."""

    def __init__(self, environment: Mapping[str, str] | None, path: str, unset: dict[str, str]) -> None:
        self._environment, self._path, self._unset = environment, path, unset

    def replaced(self, text: str, *, inside: bool) -> tuple[str, str]:
        """Return the text without variables, and what follows the brace that ends it if it is ``inside`` of braces."""
        made: list[str] = []
        while text:
            if text[0] == "}" and inside:
                return "".join(made), text[1:]
            if text[0] != "$":
                found = re.match(r"[^$}]+|\}", text)
                assert found is not None
                made.append(found[0])
                text = text[found.end() :]
                continue
            match = _VARIABLE.match(text)
            if match is None:
                raise ValueError(f"{self._path}: {text[:20]!r} is no variable. Write $$ for a dollar sign")
            text = text[match.end() :]
            if match["dollar"]:
                made.append("$")
            elif match["how"]:
                other, text = self._with_other(match["name"], match["how"], text)
                made.append(other)
            else:
                made.append(self._value(match["plain"] or match["name"]))
        if inside:
            raise ValueError(f"{self._path}: the brace of a variable is not closed")
        return "".join(made), ""

    def _with_other(self, name: str, how: str, text: str) -> tuple[str, str]:
        """Return the value of a variable with ``:-``, ``:+`` or ``:?``, and the text after its brace."""
        value = self._found(name)
        given = value is not None and (value != "" or not how.startswith(":"))
        takes = given if how.endswith("+") else not given
        reader = self if takes else _Interpolation(None, self._path, {})  # a default that nobody needs may be unset
        other, rest = reader.replaced(text, inside=True)
        if how.endswith("?") and not given:
            raise ValueError(f"{self._path}: the variable {name} is not set: {other or 'it must be'}")
        return (other if takes else "" if how.endswith("+") else str(value)), rest

    def _found(self, name: str) -> str | None:
        return "set" if self._environment is None else self._environment.get(name)

    def _value(self, name: str) -> str:
        value = self._found(name)
        if value is None:
            self._unset.setdefault(name, self._path)
        return value or ""


def variables_of(text: str, path: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an ``.env`` file. One can name those before, and first those of ``environment``.

    ``#`` begins a comment after a blank, quotes are taken off, and within single quotes nothing is replaced. A name
    without ``=`` has its value from ``environment``. Raise ValueError, with the line, for what is no assignment.
    """
    made: dict[str, str] = {}
    lines = text.splitlines()
    while lines:
        at = len(text.splitlines()) - len(lines) + 1
        line = lines.pop(0).strip()
        if not line or line.startswith("#"):
            continue
        match = _ASSIGNMENT.fullmatch(line)
        if match is None:
            raise ValueError(f"{path}: line {at} is no NAME=value")
        name, value = match["name"], match["value"]
        if value is None:
            made.update({name: environment[name]} if name in environment else {})
            continue
        if value[:1] in ("'", '"'):
            while (quoted := _QUOTED.fullmatch(value)) is None and lines:
                value = f"{value}\n{lines.pop(0)}"
            if quoted is None:
                raise ValueError(f"{path}: line {at}: the quote is not closed")
            if quoted["quote"] == "'":
                made[name] = quoted["text"]
                continue
            value = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), quoted["text"])
        else:
            value = re.split(r"(?:^|\s)#", value, maxsplit=1)[0].rstrip()
        made[name] = interpolated(value, {**made, **environment}, f"{path}: line {at}")
    return made


def translated(
    document: Mapping[str, Any],
    project: str,
    read: Callable[[str], str] | None = None,
    values: Mapping[str, str] = MappingProxyType({}),
) -> Translated:
    """Return the capsule of a compose file, whose values are interpolated. ``project`` is its name without ``name``.

    Services of profiles are left out, as docker compose does. ``read`` returns the text of a file of ``env_file``,
    whose variables can name those of ``values``. Raise ValueError, naming the path, for a document that is no compose
    file.
    """
    given = document.get("services")
    if not given or not isinstance(given, Mapping):
        raise ValueError(f"services: {'it must be a mapping' if given else 'a compose file has one at least'}")
    services = {str(name): each for name, each in given.items() if not _profiled(each)}
    if not services:
        raise ValueError("services: all have profiles, and nothing is started")
    found = _Project(Lost(_WHY, extensions="x-"), mapping(document, "volumes", ""), read, values)
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
    metadata = {"name": document.get("name") or _project_name(project)}
    template = {"kind": "capsule", "capsuleVersion": "beta", "metadata": metadata, "spec": spec}
    return Translated(template, tuple(found.lost.told))


def _project_name(folder: str) -> str:
    """Return the name of a project that is called as its folder. Example: ``My Shop`` is ``myshop``."""
    name = re.sub(r"[^a-z0-9_-]", "", folder.lower()).lstrip("_-")
    if len(name) < 2:
        raise ValueError(f"name: {folder!r}, the folder, has none for a capsule. Give --project-name")
    return name


def _profiled(service: Any) -> bool:
    return isinstance(service, Mapping) and bool(service.get("profiles"))


class _Project:
    """One translation. ``volumes`` are those of the document by name."""

    def __init__(
        self, lost: Lost, volumes: Mapping[str, Any], read: Callable[[str], str] | None, values: Mapping[str, str]
    ) -> None:
        self.lost, self._volumes, self._read, self._values = lost, volumes, read, values
        self._mounted: set[str] = set()

    def in_order(self, services: Mapping[str, Any]) -> list[str]:
        """Return the services, each after those that it depends on. Raise ValueError for a circle."""
        done: list[str] = []

        def visit(name: str, above: tuple[str, ...]) -> None:
            if name in above:
                raise ValueError(f"services.{name}.depends_on: it depends on itself")
            if name in done:
                return
            if name not in services:
                raise ValueError(f"services.{above[-1]}.depends_on: there is no service {name}, or it has profiles")
            service = mapping(services, name, "services.")
            path = f"services.{name}.depends_on"
            needs = service.get("depends_on") or ()
            if not isinstance(needs, Mapping):
                needs = {str(other): None for other in listed(service, "depends_on", f"services.{name}.")}
            for other in needs:
                how = mapping(needs, other, f"{path}.")
                if how.get("required") is False and other not in services:
                    continue
                if (how.get("condition") or "service_started") != "service_started":
                    self.lost.add(f"{path}.{other}", "it is started before, and not waited for")
                self.lost.others(how, f"{path}.{other}.", ("condition", "required"), {"restart": False})
                visit(other, (*above, name))
            done.append(name)

        for name in services:
            visit(name, ())
        return done

    def grace(self, services: Mapping[str, Any]) -> int | None:
        """Return the longest time that a service has to end: a capsule has one. None if no service says it."""
        given = {f"services.{name}.stop_grace_period": each.get("stop_grace_period") for name, each in services.items()}
        found = {path: seconds(text, path) for path, text in given.items() if text is not None}
        ours = "terminationGracePeriodSeconds"
        return max((self.lost.within(asked, path, ours) for path, asked in found.items()), default=None)

    def probe(self, given: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Return the readiness probe of a health check: it is asked the same, and nothing is restarted for it."""
        self.lost.others(given, f"{path}.", ("test", *_PERIODS, "retries", "disable"))
        test = given.get("test")
        words = ["CMD-SHELL", test] if isinstance(test, str) else list(listed(given, "test", f"{path}."))
        if _flag(given, "disable", f"{path}.") or words[:1] in ([], ["NONE"]):
            return {}
        if words[0] not in ("CMD", "CMD-SHELL") or len(words) < 2:
            raise ValueError(f"{path}.test: it must be a text, or a list that begins with CMD or CMD-SHELL")
        command = words[1:] if words[0] == "CMD" else ["/bin/sh", "-c", words[1]]
        made: dict[str, Any] = {"exec": {"command": command}, "periodSeconds": 30, "timeoutSeconds": 30}
        for name, ours in _PERIODS.items():  # 0 is the default, as for Docker
            if given.get(name) is not None and (asked := seconds(given[name], f"{path}.{name}")):
                made[ours] = self.lost.within(asked, f"{path}.{name}", ours)
        if retries := _whole(given.get("retries")):
            made["failureThreshold"] = self.lost.within(retries, f"{path}.retries", "failureThreshold")
        return made

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
            words = given.get(theirs)
            if words in ("", []):
                self.lost.add(f"{path}.{theirs}", "it is empty, and that of the image is taken")
            elif isinstance(words, str):
                made[ours] = _words(words, f"{path}.{theirs}")
            elif words is not None:
                parts = enumerate(listed(given, theirs, f"{path}."))
                made[ours] = [_scalar(word, f"{path}.{theirs}[{number}]") for number, word in parts]
        environment = dict(self.files_of(given.get("env_file"), f"{path}.env_file"))
        environment |= self.variables(given.get("environment"), f"{path}.environment")
        if environment:
            made["env"] = environment
        if given.get("working_dir"):
            made["workDir"] = given["working_dir"]
        for ours, theirs in (("stdin", "stdin_open"), ("tty", "tty")):
            if _flag(given, theirs, f"{path}."):
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
        if isinstance(given, list):
            given = dict(_pair(_scalar(each, f"{path}[{number}]")) for number, each in enumerate(given))
        elif given is not None and not isinstance(given, Mapping):
            raise ValueError(f"{path}: it must be a mapping, or a list of NAME=value")
        for name, value in (given or {}).items():
            if value is None:
                self.lost.add(f"{path}: {name}", "its value would come from this shell: write it")
            else:
                yield str(name), _scalar(value, f"{path}: {name}")

    def files_of(self, given: Any, path: str) -> Iterator[tuple[str, str]]:
        """Yield the variables of the files of ``env_file``, which is a name or a list of names."""
        for number, each in enumerate(given if isinstance(given, list) else [] if given is None else [given]):
            about = each if isinstance(each, Mapping) else {"path": each}
            where = f"{path}[{number}]" if isinstance(given, list) else path
            self.lost.others(about, f"{where}.", ("path", "required"))
            if self._read is None or not isinstance(about.get("path"), str):
                raise ValueError(f"{where}: it must be the name of a file")
            try:
                text = self._read(about["path"])
            except FileNotFoundError:
                if about.get("required", True):
                    raise ValueError(f"{where}: there is no file {about['path']}") from None
                continue
            except (OSError, UnicodeDecodeError) as exc:
                raise ValueError(f"{where}: {about['path']} cannot be read: {exc}") from None
            yield from variables_of(text, about["path"], self._values).items()

    def pull(self, made: dict[str, Any], policy: Any, path: str) -> None:
        kept = {"always": "Always", "never": "Never", "missing": "IfNotPresent", "if_not_present": "IfNotPresent"}
        if ours := kept.get(str(policy)):
            made["imagePullPolicy"] = ours
        else:
            self.lost.add(f"{path}.pull_policy", f"{policy} is not known")

    def ports(self, given: Mapping[str, Any], path: str) -> Iterator[dict[str, Any]]:
        for number, each in enumerate(listed(given, "ports", f"{path}.")):
            where = f"{path}.ports[{number}]"
            if isinstance(each, Mapping):
                target, published = each.get("target", ""), each.get("published")
                protocol = str(each.get("protocol") or "tcp")
                kept = ("target", "published", "protocol", "name", "app_protocol", "mode", "host_ip")
                self.lost.others(each, f"{where}.", kept)
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
            if _CPUS.fullmatch(str(cpus)) is None:
                raise ValueError(f"{path}: cpus must be a number, got {cpus!r}")
            if (amount := Fraction(str(cpus))) <= 0:
                raise ValueError(f"{path}: cpus must be more than 0, got {cpus!r}")
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
                readonly = _flag(each, "read_only", f"{where}.")
                if kind == "volume":
                    own = mapping(each, "volume", f"{where}.")
                    self.lost.others(each, f"{where}.", ("type", "source", "target", "read_only", "volume"))
                    self.lost.others(own, f"{where}.volume.", ())
                    source = source and _scalar(source, f"{where}.source")
            else:
                source, target, options = _parts(_scalar(each, where))
                kind = "bind" if source.startswith((".", "/", "~", "\\")) or source[1:2] == ":" else "volume"
                readonly = "ro" in options
                if kind == "volume" and (others := [*{*options} - {"ro", "rw", "z", "Z", ""}]):
                    self.lost.add(where, f"a mount has no option {', '.join(sorted(others))}")
            if kind != "volume" or not source or not target:
                self.lost.add(where, "only named volumes are mounted: folders of this machine are not on the host")
                continue
            if source not in self._volumes:
                raise ValueError(f"{where}: there is no volume {source} under the top-level volumes")
            if source not in self._mounted:
                self._mounted.add(source)
                usual = {"driver": "local", "labels": ANYTHING, "external": ANYTHING}
                self.lost.others(mapping(self._volumes, source, "volumes."), f"volumes.{source}.", ("name",), usual)
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
    lowest, highest = int(first), int(last or first)
    if not 0 <= highest - lowest < MOST_PORTS:
        raise ValueError(f"{path}: {target!r} is no range of 1 to {MOST_PORTS} ports")
    for port in range(lowest, highest + 1):
        yield {"containerPort": translation.number(port, path, "port"), "protocol": protocol.upper()}


def _whole(value: Any) -> Any:
    """Return a number that is written as a text, which a variable leaves, as a number, and anything else as it is."""
    return int(value) if str(value).isdecimal() else value


def _words(text: str, path: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as exc:
        raise ValueError(f"{path}: {str(exc)[:1].lower()}{str(exc)[1:]} in {text!r}") from None


def _scalar(value: Any, path: str) -> str:
    """Return a text of a list or mapping of texts, which may be a number or a boolean in YAML."""
    if not isinstance(value, str | int | float):
        raise ValueError(f"{path}: it must be a text")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flag(given: Mapping[str, Any], name: str, at: str) -> bool:
    """Return a boolean, which may be the text of a variable."""
    value = given.get(name)
    word = str(value).lower()
    if word not in ("true", "yes", "on", "y", "1", "false", "no", "off", "n", "0", "none", ""):
        raise ValueError(f"{at}{name}: {value!r} is neither true nor false")
    return word in ("true", "yes", "on", "y", "1")


def _parts(mount: str) -> tuple[str, str, Sequence[str]]:
    """Return source, target and options of a mount. Only a target makes a volume without a name."""
    drive, rest = (mount[:2], mount[2:]) if re.match(r"[A-Za-z]:[\\/]", mount) else ("", mount)
    source, _, behind = rest.partition(":")
    target, _, options = behind.partition(":")
    return (drive + source, target, options.split(",")) if behind else ("", mount, ())


def _pair(text: str) -> tuple[str, str | None]:
    name, sign, value = text.partition("=")
    return name, value if sign else None


def _bytes(value: Any, path: str) -> Fraction:
    match = _SIZE.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{path}: memory must be a size, for example 512m, got {value!r}")
    return Fraction(match[1]) * _UNITS[match[2].lower()]
