# SPDX-License-Identifier: Apache-2.0
"""Say in Docker's words what libpod answers, in pure functions. Members that both name alike stay as they are."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from zun.common.image_reference import Reference, join
from zun.container.podman.create import DEVICES_ANNOTATION

#: libpod's actions that Docker names otherwise.
_ACTIONS = {"died": "die", "remove": "destroy"}
#: libpod's states that Docker names otherwise. A container that Podman prepared has a runtime and no process.
_STATES = {"configured": "created", "initialized": "created", "stopped": "exited", "stopping": "running"}
#: Folders of CDI files that Podman reads, the lowest priority first.
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")


def container(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return libpod's description of a container as Docker's.

    Podman keeps the error of a refused operation in the state, also after later successes, so it is left out. Between
    two attempts of a restart policy the state is ``stopped``; a container that stays as it is becomes ``exited``.
    """
    state, host = found["State"], found["HostConfig"]
    waits = state["Status"] == "stopped" and host["RestartPolicy"]["Name"] not in ("", "no")
    status = "restarting" if waits else _STATES.get(state["Status"], state["Status"])
    asked = json.loads(((found["Config"].get("Annotations") or {}).get(DEVICES_ANNOTATION)) or "{}")
    return {
        **found,
        "Image": f"sha256:{found['Image']}",
        "HostConfig": {**host, **asked},
        "NetworkSettings": {"Networks": {}, **(found.get("NetworkSettings") or {})},
        "State": {
            **state,
            "Status": status,
            "Restarting": waits,
            "Running": status in ("running", "paused", "restarting"),
            "Paused": status == "paused",
            "Error": "",
        },
    }


def command(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return libpod's description of a command: it has ended if it can be removed, and then has an exit code."""
    return {**found, "ExitCode": found["ExitCode"] if found["CanRemove"] else None}


def image(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return libpod's description of an image, or its member of a list, as Docker's."""
    return {
        **found,
        "Id": f"sha256:{found['Id']}",
        "RepoTags": [*map(listed_name, found.get("RepoTags") or ())],
        "RepoDigests": [*map(listed_name, found.get("RepoDigests") or ())],
    }


def listed_name(name: str) -> str:
    """Return the name of an image as Docker lists it: ``nginx:1`` for ``docker.io/library/nginx:1``."""
    try:
        reference = Reference.parse(name)
    except ValueError:
        return name
    return join(reference.listed, reference.version)


def event(told: Mapping[str, Any]) -> dict[str, Any]:
    action = told.get("Action") or ""
    return {**told, "Action": _ACTIONS.get(action, action)}


def actions(named: Iterable[str]) -> list[str]:
    """Return libpod's names of Docker's actions."""
    theirs = {docker: libpod for libpod, docker in _ACTIONS.items()}
    return [theirs.get(each, each) for each in named]


def found_image(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return one result of a search as Docker's."""
    return {
        "name": entry["Name"].removeprefix("docker.io/"),
        "description": entry["Description"],
        "star_count": entry["Stars"],
        "is_official": entry["Official"] == "[OK]",
    }


def info(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return libpod's facts as Docker's. Podman tells one runtime, its default one."""
    host, store = told["host"], told["store"]
    status = (store.get("graphStatus") or {}).items()
    system = host["distribution"]
    return {
        "MemTotal": host["memTotal"],
        "NCPU": host["cpus"],
        "Runtimes": {host["ociRuntime"]["name"]: {}},
        "DefaultRuntime": host["ociRuntime"]["name"],
        "Architecture": host["arch"],
        "OSType": host["os"],
        "OperatingSystem": f"{system['distribution']} {system['version']}",
        "KernelVersion": host["kernel"],
        "CDISpecDirs": list(CDI_FOLDERS),
        "Driver": store["graphDriverName"],
        "DriverStatus": [[name, value] for name, value in status],
        "DockerRootDir": store["graphRoot"],
        "LoggingDriver": host["logDriver"],
        "CgroupVersion": host["cgroupVersion"].removeprefix("v"),
        "LiveRestoreEnabled": True,  # a container needs no service
    }


def version(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return libpod's facts as Docker's answer about versions: ``crun version 1.21`` and more lines are 1.21."""
    runtime, own = told["host"]["ociRuntime"], told["version"]
    number = runtime["version"].partition("version ")[2].split()
    return {
        "Version": own["Version"],
        "ApiVersion": own["APIVersion"],
        "Components": [{"Name": runtime["name"], "Version": number[0] if number else ""}],
    }
