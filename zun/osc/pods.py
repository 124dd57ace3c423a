# SPDX-License-Identifier: Apache-2.0
"""Make the template of a capsule from the manifest of a Kubernetes Pod. No I/O.

Source: the API reference of Kubernetes, Pod v1, and its pages on quantities and on the static policy of the kubelet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from fractions import Fraction
from typing import Any

from zun.osc import translation
from zun.osc.translation import ANYTHING, RANGES, Lost, Translated, listed, mapping

SIZE_OF_EMPTY = 1024
"""MiB of an ``emptyDir`` without ``sizeLimit``, which a capsule cannot leave open."""

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
GRACE = "terminationGracePeriodSeconds"
PERIODS = ("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold")

_UNITS = {
    **{"": Fraction(1), "m": Fraction(1, 1000)},
    **{unit: Fraction(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Fraction(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?)([A-Za-z]*)")
_REFERENCE = re.compile(r"\$?\$\(([^()]+)\)")

_PAGES = "ask for pages of memory with mem_page_size in the placement of the container of a capsule's template"
_OTHER_RESOURCES = "ask for devices by alias, and for disk by the size of a volume"
_NO_CONFIG = "there are no ConfigMaps and Secrets here: give the value"
_OF_CLUSTER: Mapping[str, Any] = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": ANYTHING,
    "nodeName": ANYTHING,
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
    "schedulerName": "default-scheduler",
    "serviceAccount": "default",
    "serviceAccountName": "default",
    "automountServiceAccountToken": False,
    "tolerations": ANYTHING,
    "hostNetwork": False,
    "hostPID": False,
    "hostIPC": False,
    "hostUsers": True,
    "os": {"name": "linux"},
    "shareProcessNamespace": False,
}
"""Members of a Pod that mean nothing here with these values: a cluster writes them into every Pod."""
_OF_CLUSTER_IN_CONTAINERS: Mapping[str, Any] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resizePolicy": ANYTHING,
    "stdinOnce": False,
}
_OF_CLUSTER_IN_METADATA: Mapping[str, Any] = {
    **dict.fromkeys(
        ("creationTimestamp", "generateName", "generation", "managedFields", "ownerReferences", "resourceVersion",
         "selfLink", "uid"),
        ANYTHING,
    ),
    "namespace": "default",
}  # fmt: skip
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_WHY: Mapping[str, str] = {
    "lifecycle": "a capsule has no hooks",
    "securityContext": "a capsule has no security contexts",
    "envFrom": _NO_CONFIG,
    "volumeDevices": "ask for devices by alias instead",
    "restartPolicyRules": "a container has one policy for all its ends",
    "grpc": "ask with exec, httpGet or tcpSocket",
    "namespace": "projects take the place of namespaces",
    **dict.fromkeys(("hostNetwork", "hostPID", "hostIPC"), "a capsule is apart from its host"),
    **dict.fromkeys(
        ("affinity", "nodeSelector", "topologySpreadConstraints"), "name traits or aggregates in spec.placement instead"
    ),
    **dict.fromkeys(("subPath", "subPathExpr"), "a whole volume is mounted"),
    **dict.fromkeys(("hostPort", "hostIP"), "the host chooses the port; published_ports of the capsule tells it"),
    GRACE: "that of the whole Pod counts",
    **dict.fromkeys(("serviceAccount", "serviceAccountName"), "there are no service accounts here"),
    "imagePullSecrets": "create a registry with its password instead",
}
_ONE = "a capsule is made of one Pod alone"
_OTHERS: Mapping[str, str] = {
    "Service": "ports of containers are published anyway; published_ports of the capsule tells where",
    **dict.fromkeys(("ConfigMap", "Secret"), _NO_CONFIG),
    "PersistentVolumeClaim": "create the volume before, under the name of the claim",
    "Namespace": "projects take the place of namespaces",
}
"""Kinds of objects that are in one file with a Pod."""
_TEMPLATED = {
    "Deployment": "its Pod is created once",
    "ReplicaSet": "its Pod is created once",
    "ReplicationController": "its Pod is created once",
    "StatefulSet": "its Pod is created once, without claims of volumes",
    "DaemonSet": "its Pod is created once, on one host",
    "Job": "its Pod is created once, and a failure is not counted",
    "CronJob": "its Pod is created once, now",
}


def is_manifest(given: Any) -> bool:
    """Return whether a document is a manifest of Kubernetes, of whatever kind."""
    return isinstance(given, Mapping) and "apiVersion" in given


def of_documents(documents: Sequence[Any]) -> Translated:
    """Return the capsule for the one Pod or workload among all objects of a file. ``lost`` names the other objects.

    Raise ValueError, naming the path, unless there is one.
    """
    objects = [each for document in documents for each in _objects(document)]
    pods = [each for each in objects if each.get("kind") in ("Pod", *_TEMPLATED)]
    if len(pods) > 1:
        raise ValueError(f"it has {len(pods)} Pods, {', '.join(map(_called, pods))}. Give each a file of its own")
    if not pods:
        kinds = ", ".join(str(each.get("kind")) for each in objects)
        raise ValueError(f"kind: {kinds or 'an empty list'} has no containers, a Pod has")
    template, lost = translated(pods[0])
    others = (each for each in objects if each is not pods[0])
    told = (f"{_called(each)}: {_OTHERS.get(str(each.get('kind')), _ONE)}" for each in others)
    return Translated(template, (*told, *lost))


def _objects(document: Any) -> Sequence[Mapping[str, Any]]:
    """Return the objects of a document, which may be a list of them."""
    if not isinstance(document, Mapping) or not isinstance(document.get("kind"), str):
        raise ValueError("kind: an object of Kubernetes has one, for example Pod")
    return _list(document, "items", "") if document["kind"].endswith("List") else [document]


def _called(given: Mapping[str, Any]) -> str:
    """Return an object as kubectl names it. Example: ``Service/web``."""
    name = mapping(given, "metadata", "").get("name")
    return f"{given.get('kind')}/{name}" if name else str(given.get("kind"))


def translated(manifest: Mapping[str, Any]) -> Translated:
    """Return the capsule for a Pod, or for the Pod of a workload such as a Deployment.

    A container of a Pod has CPUs of its own, as with the static policy of the kubelet, if every container requests
    whole CPUs and memory and has the same as limits. Raise ValueError, naming the path, for a document that is no Pod.
    """
    kind = manifest.get("kind")
    found = _Pod(Lost(_WHY))
    if kind in _TEMPLATED:
        found.lost.add("kind", f"of a {kind} {_TEMPLATED[kind]}")
        workload, at = mapping(manifest, "spec", ""), "spec."
        if kind == "CronJob":
            job = mapping(workload, "jobTemplate", at)
            workload, at = mapping(job, "spec", f"{at}jobTemplate."), f"{at}jobTemplate.spec."
        pod, at = mapping(workload, "template", at), f"{at}template."
        own = mapping(pod, "metadata", at)
        pod = {**pod, "metadata": {**own, "name": own.get("name") or mapping(manifest, "metadata", "").get("name")}}
        claims = _list(workload, "volumeClaimTemplates", at.removesuffix("template."))
        found.volume_names = {str(mapping(each, "metadata", "").get("name")) for each in claims}  # lost with the kind
        if workload.get("replicas") not in (None, 1):
            found.lost.add("spec.replicas", "a capsule is one")
    elif kind == "Pod":
        pod, at = manifest, ""
    else:
        raise ValueError(f"kind: {kind!r} has no containers, a Pod has")
    template = found.template(pod, at)
    return Translated(template, tuple(found.lost.told))


def amount(value: Any, path: str) -> Fraction:
    """Return a quantity of Kubernetes. Examples: 500m is 1/2, 1Gi is 1073741824. Raise ValueError, naming the path."""
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{path}: {value!r} is no quantity, for example 500m or 1Gi")
    return Fraction(match[1]) * _UNITS[match[2]]


class _Pod:
    """One translation."""

    def __init__(self, lost: Lost) -> None:
        self.lost = lost
        self.volume_names: Set[str] = frozenset()

    def template(self, pod: Mapping[str, Any], at: str) -> dict[str, Any]:
        metadata, spec = mapping(pod, "metadata", at), mapping(pod, "spec", at)
        self.lost.others(metadata, f"{at}metadata.", ("name", "labels", "annotations"), _OF_CLUSTER_IN_METADATA)
        kept = ("containers", "initContainers", "volumes", "restartPolicy", GRACE)
        self.lost.others(spec, f"{at}spec.", kept, _OF_CLUSTER)
        volumes_given = _list(spec, "volumes", f"{at}spec.")
        volumes = dict(self.volumes(volumes_given, f"{at}spec.volumes"))
        self.volume_names |= {str(each["name"]) for each in volumes_given}
        parts = {
            part: [
                self.container(each, f"{at}spec.{part}[{number}]", volumes)
                for number, each in enumerate(_list(spec, part, f"{at}spec."))
            ]
            for part in ("initContainers", "containers")
        }
        if not parts["containers"]:
            raise ValueError(f"{at}spec.containers: a Pod has one at least")
        members = [*parts["initContainers"], *parts["containers"]]
        used = {mount["name"] for each in members for mount in each.get("volumeMounts", ())}
        made: dict[str, Any] = {name: value for name, value in parts.items() if value}
        if spec.get("restartPolicy") is not None:
            made["restartPolicy"] = spec["restartPolicy"]
        if spec.get(GRACE) is not None:
            made[GRACE] = self.lost.within(spec[GRACE], f"{at}spec.{GRACE}", GRACE)
        if mounted := [{"name": _long(name), **volume} for name, volume in volumes.items() if _long(name) in used]:
            made["volumes"] = mounted
        self.dedicate(spec, at, made)
        about: dict[str, Any] = {"name": metadata["name"]} if metadata.get("name") else {}
        for part in ("labels", "annotations"):
            noted = mapping(metadata, part, f"{at}metadata.")
            texts = {name: text for name, text in noted.items() if name != _APPLIED}
            if texts:
                about[part] = {name: _text(text, f"{at}metadata.{part}.{name}") for name, text in texts.items()}
        return {"kind": "capsule", "capsuleVersion": "beta", "metadata": about, "spec": made}

    def container(self, given: Any, path: str, volumes: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(given, Mapping) or not given.get("image"):
            raise ValueError(f"{path}.image: it is missing")
        kept = ("name", "image", "command", "args", "workingDir", "imagePullPolicy", "env", "ports", "resources",
                "volumeMounts", "stdin", "tty", "restartPolicy", *PROBES)  # fmt: skip
        self.lost.others(given, f"{path}.", kept, _OF_CLUSTER_IN_CONTAINERS)
        made = {name: given[name] for name in ("name", "image", "stdin", "tty", "restartPolicy") if given.get(name)}
        for part in ("command", "args"):
            words = listed(given, part, f"{path}.")
            if words:
                made[part] = [_text(word, f"{path}.{part}[{number}]") for number, word in enumerate(words)]
        if len(str(made.get("name", ""))) == 1:  # the service wants two letters
            del made["name"]
        if given.get("workingDir"):
            made["workDir"] = given["workingDir"]
        if given.get("imagePullPolicy"):
            made["imagePullPolicy"] = given["imagePullPolicy"]
        env = dict(self.variables(_list(given, "env", f"{path}."), f"{path}.env"))
        if env:
            made["env"] = env
        self.references(given, env, path)
        if ports := list(self.ports(_list(given, "ports", f"{path}."), f"{path}.ports")):
            made["ports"] = ports
        for name in PROBES:
            probe = self.probe(mapping(given, name, f"{path}."), f"{path}.{name}", given.get("ports") or ())
            if probe:
                made[name] = probe
        if requests := self.requests(mapping(given, "resources", f"{path}."), f"{path}.resources"):
            made["resources"] = {"requests": requests}
        if mounts := list(self.mounts(_list(given, "volumeMounts", f"{path}."), f"{path}.volumeMounts", volumes)):
            made["volumeMounts"] = mounts
        return made

    def variables(self, given: Sequence[Any], path: str) -> Iterator[tuple[str, str]]:
        for number, each in enumerate(given):
            if each.get("valueFrom"):
                self.lost.add(f"{path}[{number}].valueFrom", _NO_CONFIG)
            else:
                value, where = each.get("value"), f"{path}[{number}]"
                text = "" if value is None else _text(value, f"{where}.value")
                yield _text(_named(each, where), f"{where}.name"), text

    def references(self, given: Mapping[str, Any], env: Mapping[str, str], path: str) -> None:
        """Note ``$(NAME)`` of a variable of the container, which a kubelet would replace. ``$$(NAME)`` is a text."""
        words = [
            *(
                (f"{path}.{part}[{at}]", word)
                for part in ("command", "args")
                for at, word in enumerate(given.get(part) or ())
            ),
            *((f"{path}.env: {name}", text) for name, text in env.items()),
        ]
        for where, word in words:
            for match in _REFERENCE.finditer(str(word)):
                if match[1] in env and not match[0].startswith("$$"):
                    self.lost.add(where, f"{match[0]} is not replaced by the variable: write its value")

    def ports(self, given: Sequence[Any], path: str) -> Iterator[dict[str, Any]]:
        for number, each in enumerate(given):
            where = f"{path}[{number}]"
            self.lost.others(each, f"{where}.", ("containerPort", "protocol", "name"))
            protocol = str(each.get("protocol") or "TCP").upper()
            port = translation.number(_named(each, where, "containerPort"), f"{where}.containerPort", "port")
            yield {"containerPort": port, "protocol": protocol}

    def probe(self, given: Mapping[str, Any], path: str, ports: Sequence[Any]) -> dict[str, Any]:
        """Return a probe, with numbers in the place of the names of ports. Empty without a probe that is kept."""
        tests = {"exec": ("command",), "httpGet": ("path", "port", "host", "scheme", "httpHeaders"),
                 "tcpSocket": ("port", "host")}  # fmt: skip
        self.lost.others(given, f"{path}.", (*tests, *PERIODS))
        # As in Kubernetes, 0 is the default. A text is refused.
        made: dict[str, Any] = {
            name: self.lost.within(given[name], f"{path}.{name}", name) for name in PERIODS if given.get(name)
        }
        for name, kept in tests.items():
            if given.get(name) is None:
                continue
            test = mapping(given, name, f"{path}.")
            self.lost.others(test, f"{path}.{name}.", kept)
            made[name] = {member: test[member] for member in kept if test.get(member) not in (None, "")}
            if name != "exec":
                made[name]["port"] = _port_number(test.get("port"), f"{path}.{name}.port", ports)
        return made if made.keys() & tests.keys() else {}

    def requests(self, given: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Return the CPUs and MiB that a container claims: memory up to its limit, because that is what it may use."""
        requests, limits = _amounts(given, "requests", f"{path}."), _amounts(given, "limits", f"{path}.")
        self.lost.others(given, f"{path}.", ("requests", "limits"))
        for part, found in (("requests", requests), ("limits", limits)):
            for name in sorted(found.keys() - {"cpu", "memory"}):
                of_pages = str(name).startswith("hugepages-")
                self.lost.add(f"{path}.{part}.{name}", _PAGES if of_pages else _OTHER_RESOURCES)
        made: dict[str, Any] = {}
        cpu = requests.get("cpu", limits.get("cpu"))
        if cpu is not None:
            cpus = amount(cpu, f"{path}: cpu")
            made["cpu"] = translation.cpus(cpus)
            if "cpu" in limits and amount(limits["cpu"], f"{path}.limits.cpu") > cpus:
                self.lost.add(f"{path}.limits.cpu", "a container gets the CPUs that it requests, and no more")
        memory = limits.get("memory", requests.get("memory"))
        if memory is not None:
            made["memory"] = translation.mib(amount(memory, f"{path}: memory"))
        return made

    def dedicate(self, spec: Mapping[str, Any], at: str, made: dict[str, Any]) -> None:
        """Give CPUs of their own to the containers of ``made`` that would have some in Kubernetes: to all together, or
        to single ones. Note the init containers that lose theirs.
        """
        places = [
            (f"{at}spec.{part}[{number}]", mapping(each, "resources", ""))
            for part in ("initContainers", "containers")
            for number, each in enumerate(_list(spec, part, f"{at}spec."))
        ]
        guaranteed = all(_is_guaranteed(resources) for _, resources in places)
        whole = [path for path, resources in places if guaranteed and _is_whole(resources)]
        if whole and len(whole) == len(places):
            made["placement"] = {"cpu_policy": "dedicated"}
            return
        for number, each in enumerate(made["containers"]):
            if f"{at}spec.containers[{number}]" in whole:
                each["placement"] = {"cpu_policy": "dedicated"}
        for path in whole:
            if path.startswith(f"{at}spec.initContainers"):
                self.lost.add(f"{path}.resources", "its CPUs are not its own: all containers must request whole ones")

    def volumes(self, given: Sequence[Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        names = [each.get("name") for each in given]
        for number, each in enumerate(given):
            where = f"{path}[{number}]"
            volume = _text(_named(each, where), f"{where}.name")
            if volume in names[:number]:
                raise ValueError(f"{where}.name: {volume} is given twice")
            kinds = [name for name in each if name != "name"]
            kind = kinds[0] if kinds else "emptyDir"
            value, at = mapping(each, kind, f"{where}."), f"{where}.{kind}"
            if kind == "emptyDir":
                self.lost.others(value, f"{at}.", ("sizeLimit", "medium"))
                mib = SIZE_OF_EMPTY
                if value.get("sizeLimit"):
                    mib = translation.mib(amount(value["sizeLimit"], f"{at}.sizeLimit"))
                    if mib < 1:
                        raise ValueError(f"{at}.sizeLimit must be more than 0, got {value['sizeLimit']!r}")
                else:
                    self.lost.add(at, f"it has no sizeLimit: it gets {SIZE_OF_EMPTY} MiB")
                medium = value.get("medium") or ""
                if medium not in ("", "Memory"):
                    self.lost.add(f"{at}.medium", f"{medium} is not known: it is a file system on disk")
                if medium == "Memory":
                    yield volume, {"emptyDir": {"medium": "Memory", "sizeLimit": f"{mib}M"}}
                else:  # which any release of the service knows
                    yield volume, {"local": {"size": f"{mib}M"}}
            elif kind == "persistentVolumeClaim":
                self.lost.others(value, f"{at}.", ("claimName", "readOnly"))
                yield volume, {"volume": {"name": _named(value, at, "claimName")}}
            elif kind == "cinder":
                self.lost.others(value, f"{at}.", ("volumeID", "readOnly", "fsType"))
                yield volume, {"cinder": {"volumeID": _named(value, at, "volumeID")}}
            elif kind != "projected" or not volume.startswith("kube-api-access"):
                of_config = kind in ("configMap", "secret", "projected")
                self.lost.add(at, _NO_CONFIG if of_config else "no such kind of volume")

    def mounts(self, given: Sequence[Any], path: str, volumes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the mounts of volumes that are kept. The volume of another mount is noted already, if there is one."""
        for number, each in enumerate(given):
            where = f"{path}[{number}]"
            if (volume := _text(_named(each, where), f"{where}.name")) not in self.volume_names:
                raise ValueError(f"{where}.name: there is no volume {volume}")
            if volume in volumes:
                usual = {"mountPropagation": "None", "recursiveReadOnly": "Disabled"}
                self.lost.others(each, f"{where}.", ("name", "mountPath", "readOnly"), usual)
                made = {"name": _long(volume), "mountPath": _named(each, where, "mountPath")}
                yield {**made, "readOnly": True} if each.get("readOnly") else made


def _port_number(port: Any, path: str, ports: Sequence[Any]) -> int:
    """Return the number of a port, which a probe may name."""
    named = next((each.get("containerPort") for each in ports if each.get("name") == port), port)
    lowest, highest = RANGES["port"]
    if str(named).isdecimal() and lowest <= int(named) <= highest:
        return int(named)
    raise ValueError(
        f"{path} must be a number from {lowest} to {highest} or the name of a port of the container, got {port!r}"
    )


def _amounts(resources: Mapping[str, Any], name: str, at: str) -> Mapping[str, Any]:
    """Return the requests or limits. As in Kubernetes, one that is null is not set."""
    return {kind: value for kind, value in mapping(resources, name, at).items() if value is not None}


def _is_guaranteed(resources: Mapping[str, Any]) -> bool:
    limits, requests = _amounts(resources, "limits", ""), _amounts(resources, "requests", "")
    return all(
        name in limits and amount(requests.get(name, limits[name]), name) == amount(limits[name], name) > 0
        for name in ("cpu", "memory")
    )


def _is_whole(resources: Mapping[str, Any]) -> bool:
    return amount(resources["limits"]["cpu"], "cpu") % 1 == 0


def _named(given: Mapping[str, Any], path: str, name: str = "name") -> Any:
    """Return a member that must be there."""
    if given.get(name) in (None, ""):
        raise ValueError(f"{path}.{name}: it is missing")
    return given[name]


def _text(value: Any, path: str) -> str:
    """Return a text, which may be a whole number. Raise ValueError for others: which text is ``yes`` or ``1.10``?"""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{path}: {json.dumps(value, ensure_ascii=False)} is not a text. Put it in quotes")
    return str(value)


def _long(name: str) -> str:
    """Return the name of a volume: Kubernetes allows one letter, the service wants two."""
    return name if len(name) > 1 else f"{name}-volume"


def _list(given: Mapping[str, Any], name: str, at: str) -> Sequence[Any]:
    value = given.get(name) or ()
    if not isinstance(value, list | tuple) or not all(isinstance(each, Mapping) for each in value):
        raise ValueError(f"{at}{name}: it must be a list of objects")
    return value
