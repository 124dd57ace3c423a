# SPDX-License-Identifier: Apache-2.0
"""Say in Podman's words what Docker's request to create a container says, in pure functions.

Both engines run the same plan: :func:`zun.container.docker.create.request_body` makes it. Source of the members:
libpod's API, ``SpecGenerator``.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from zun.common.image_reference import Reference
from zun.container.docker.client import NOWHERE
from zun.container.docker.profile import DROPPED

#: Annotation with the devices of the request: Podman's description has what became of them.
DEVICES_ANNOTATION = "zun.devices"
_NO_LIMIT = 1 << 64  # -1 is the largest number below
#: What Docker sets in each network of a container, so that images run alike: any user may listen on any port, and ping.
_SYSCTL = {"net.ipv4.ip_unprivileged_port_start": "0", "net.ipv4.ping_group_range": "0 2147483647"}
_SIZES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def specification(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the body of POST /libpod/containers/create for the body of Docker's request."""
    host = body["HostConfig"]
    environment = [each.partition("=") for each in body.get("Env") or ()]
    spec: dict[str, Any] = {
        "name": name,
        "image": full_name(body["Image"]),
        "image_volume_mode": "anonymous",
        "labels": body["Labels"],
        "terminal": body["Tty"],
        "stdin": body["OpenStdin"],
        "env": {name: value for name, equals, value in environment if equals},
        "unsetenv": [name for name, equals, _ in environment if not equals],
        "remove": host["AutoRemove"],
        "privileged": host["Privileged"],
        "resource_limits": limits(host),
        "no_new_privileges": "no-new-privileges" in host.get("SecurityOpt", ()),
        "cap_add": _added(host),
        "cap_drop": host.get("CapDrop", []),
        "groups": host.get("GroupAdd", []),
        "r_limits": [
            {
                "type": each["Name"],
                "soft": each["Soft"] % (1 << 64),
                "hard": each["Hard"] % (1 << 64),
            }
            for each in host.get("Ulimits", ())
        ],
        "devices": [{"path": each} for each in _devices(host)],
        "mounts": [_mount(each) for each in host.get("Mounts", ()) if not is_volume(each)],
        "volumes": [
            {"Name": each["Source"], "Dest": each["Target"], "Options": ["ro"] if each["ReadOnly"] else []}
            for each in host.get("Mounts", ())
            if is_volume(each)
        ],
        "annotations": {
            DEVICES_ANNOTATION: json.dumps({each: host.get(each) for each in ("Devices", "DeviceRequests")})
        },
        **_network(body),
    }
    members = {
        "command": body.get("Cmd"),
        "entrypoint": body.get("Entrypoint"),
        "work_dir": body.get("WorkingDir"),
        "hostname": body.get("Hostname"),
        "healthconfig": body.get("Healthcheck"),
        "expose": {int(port): protocol for port, protocol in map(_port, body.get("ExposedPorts") or ())},
        "oci_runtime": host.get("Runtime"),
        "storage_opts": host.get("StorageOpt"),
        "dns_server": host.get("Dns"),
        "restart_policy": host.get("RestartPolicy", {}).get("Name"),
        "restart_tries": host.get("RestartPolicy", {}).get("MaximumRetryCount"),
        "log_configuration": _log(host),
    }
    spec |= {member: value for member, value in members.items() if value}
    if body.get("WorkingDir"):
        spec["create_working_dir"] = True
    return spec


def limits(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the runtime's ``LinuxResources`` for the limits of Docker's ``HostConfig``. Unset ones are left out."""
    cpu = {
        "cpus": host.get("CpusetCpus"),
        "mems": host.get("CpusetMems"),
        "shares": host.get("CpuShares"),
        "quota": host.get("CpuQuota"),
        "period": host.get("CpuPeriod"),
    }
    memory = {"limit": host.get("Memory"), "swap": host.get("MemorySwap")}
    return {
        "cpu": {name: value for name, value in cpu.items() if value},
        "memory": {name: value for name, value in memory.items() if value},
        "pids": {"limit": host.get("PidsLimit") or -1},  # without a limit Podman sets one of its own
    }


def full_name(image: str) -> str:
    """Return the name of an image in full: Podman would look for a short name at several registries. Ids stay."""
    try:
        return Reference.parse(image).whole
    except ValueError:
        return image


def _added(host: Mapping[str, Any]) -> list[str]:
    """Return the capabilities beyond those that Podman gives: those that were asked for, and Docker's that stay."""
    asked, dropped = host.get("CapAdd", []), host.get("CapDrop", [])
    if host["Privileged"] or "ALL" in dropped:
        return list(asked)
    return [*asked, *(each for each in DROPPED if each not in (*asked, *dropped))]


def is_volume(mount: Mapping[str, Any]) -> bool:
    """Return whether a member of Docker's ``Mounts`` is a volume with a name."""
    return mount["Type"] == "volume" and "Source" in mount


def _mount(mount: Mapping[str, Any]) -> dict[str, Any]:
    kind, options = mount["Type"], ["ro" if mount["ReadOnly"] else "rw"]
    if kind == "bind":
        return _of("bind", mount["Source"], mount, ["rbind", "rprivate", *options])
    if kind == "tmpfs":
        size = mount["TmpfsOptions"]["SizeBytes"]
        return _of(
            "tmpfs", "tmpfs", mount, ["nosuid", "nodev", "noexec", *options, *([f"size={size}"] if size else [])]
        )
    driver = mount["VolumeOptions"]["DriverConfig"]["Options"]  # huge pages
    return _of(driver["type"], driver["device"], mount, [*options, *driver["o"].split(",")])


def _of(kind: str, source: str, mount: Mapping[str, Any], options: list[str]) -> dict[str, Any]:
    return {"type": kind, "source": source, "destination": mount["Target"], "options": options}


def _devices(host: Mapping[str, Any]) -> Iterator[str]:
    for each in host.get("Devices", ()):
        yield f"{each['PathOnHost']}:{each['PathInContainer']}:{each['CgroupPermissions']}"
    for request in host.get("DeviceRequests", ()):
        yield from request["DeviceIDs"]  # names of CDI


def _network(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members about namespaces and networks. A container is in its first network from the beginning.

    Podman connects a container without a network to none later.
    """
    host = body["HostConfig"]
    mode, ipc = host.get("NetworkMode"), host.get("IpcMode")
    spec: dict[str, Any] = {"ipcns": _namespace(ipc or "private")}
    if mode and mode != NOWHERE:
        return {**spec, "netns": _namespace(mode)}
    spec["sysctl"] = _SYSCTL
    endpoints = (body.get("NetworkingConfig") or {}).get("EndpointsConfig", {})
    if mode == NOWHERE and not endpoints:
        return {**spec, "netns": {"nsmode": "none"}}
    return {
        **spec,
        "netns": {"nsmode": "bridge"},
        "networks": {name: _endpoint(each) for name, each in endpoints.items()},
        "portmappings": list(_published(host.get("PortBindings") or {})),
    }


def _endpoint(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return Podman's options of one network for the arguments with which docker-py connects a container."""
    addresses = [each for each in (options.get("ipv4_address"), options.get("ipv6_address")) if each]
    return {"static_ips": addresses, "aliases": list(options.get("aliases") or ())}


def _namespace(mode: str) -> dict[str, str]:
    kind, _, value = mode.partition(":")
    return {"nsmode": kind, "value": value} if value else {"nsmode": kind}


def _published(bindings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for port, places in bindings.items():
        number, protocol = _port(port)
        for place in places:
            yield {
                "container_port": int(number),
                "protocol": protocol,
                "host_port": int(place["HostPort"]),
                "host_ip": place["HostIp"],
            }


def _port(text: str) -> tuple[str, str]:
    number, _, protocol = text.partition("/")
    return number, protocol or "tcp"


def _log(host: Mapping[str, Any]) -> dict[str, Any] | None:
    log = host.get("LogConfig")
    if log is None:
        return None
    size = log["Config"]["max-size"]
    return {"driver": log["Type"], "size": int(size.rstrip("kmg")) * _SIZES.get(size[-1], 1)}
