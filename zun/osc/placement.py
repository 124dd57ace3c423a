# SPDX-License-Identifier: Apache-2.0
"""The placement options of ``appcontainer create`` and ``run``, and the request fields they become."""

import argparse
from collections.abc import Mapping
from typing import Any

from zunclient.api_versions import APIVersion

from zun import nouns
from zun.nouns.container import Container
from zun.osc import mounts, pairs, versions
from zun.osc.explanation import option


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the placement options. The default None means that the option was not given."""
    group = parser.add_argument_group(
        "placement",
        "CPUs and cells of the container, and its group. Any of these options needs a server with microversion "
        "1.41; those about CPUs and cells need --cpu-policy dedicated or mixed.",
    )
    for name, settings in _OPTIONS.items():
        group.add_argument(option(name), **settings)
    for name, (flag, settings) in _TRAITS.items():
        group.add_argument(flag, dest=name, action="append", **settings)
    for name, (flag, settings) in _DEVICES.items():
        group.add_argument(flag, dest=name, **settings)
    group.add_argument(
        "--group",
        metavar="<group>",
        help="Name or uuid of the group that the container joins (needs a server with microversion 1.42, as do the "
        "hints same_host and different_host).",
    )


def all_hints(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return all given hints, with ``--group`` as the hint ``group``."""
    given = pairs.hints(parsed_args.hint)
    if parsed_args.group:
        given["group"] = parsed_args.group
    return given


def hints(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return all given hints if one of them needs a version that python-zunclient does not know, else no hints.

    Such a hint names a group, a container, or what an image needs. Older versions ignore it.
    """
    given = all_hints(parsed_args)
    newer = given.keys() & {"group", "same_host", "different_host"}
    return given if newer or any(name.startswith(_IMAGE) for name in given) else {}


def fields(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return the members of the request body for the given options."""
    given = {name: getattr(parsed_args, name) for name in (*_OPTIONS, *_TRAITS, *_DEVICES)}
    return {name: value for name, value in given.items() if value is not None}


def options(fields: Mapping[str, Any]) -> list[str]:
    """Return the options of a request's members: ``--cpu-policy`` for ``cpu_policy``."""
    flags = {name: flag for name, (flag, _) in (*_TRAITS.items(), *_DEVICES.items())}
    return [flags.get(name, option(name)) for name in fields]


def version_for(fields: Mapping[str, Any], least: APIVersion) -> APIVersion:
    """Return the first version that knows each member of a request and each of its hints, and at least ``least``."""
    hinted = fields.get("hints", ())
    found = [least, versions.of(nouns.since(Container, fields))]
    if mounts.newest(fields.get("mounts", ())):
        found.append(versions.CINDER_VERSION)
    if not _IMAGE_DEVICES.isdisjoint(hinted):
        found.append(versions.DEVICE_REQUESTS_VERSION)
    if any(name.startswith(_IMAGE_TRAIT) for name in hinted):
        found.append(versions.TRAITS_VERSION)
    return max(found)


def at_least_one(text: str) -> int:
    """Parse a whole number of 1 or more, as a type of argparse."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def _one_each(text: str) -> list[int]:
    """Parse a number for each cell, for example ``2,2``, as a type of argparse."""
    try:
        return [at_least_one(part.strip()) for part in text.split(",")]
    except argparse.ArgumentTypeError as exc:
        raise argparse.ArgumentTypeError(f"{exc}; give one for each cell, for example 2,2") from None


def _page_size(text: str) -> str | int:
    """Parse a page size, which is ``small``, ``large``, ``any`` or a size in KiB, as a type of argparse."""
    if text in ("small", "large", "any"):
        return text
    try:
        return at_least_one(text)
    except argparse.ArgumentTypeError:
        words = "small, large, any or a size in KiB, for example 2048"
        raise argparse.ArgumentTypeError(f"{text!r} is none of {words}") from None


def _alternatives(text: str) -> list[str]:
    """Parse alternative names, for example ``A,B``, as a type of argparse."""
    names = [part.strip() for part in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name; give names with commas between, for example A,B")
    return names


def _device(text: str) -> dict[str, Any]:
    """Parse ``NAME``, ``NAME=2`` or ``NAME=2,TRAIT,...`` as a type of argparse."""
    wanted, *traits = _alternatives(text)
    name, equals, count = wanted.partition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} names no device; write its alias and a number, for example gpu=2")
    entry: dict[str, Any] = {"count": at_least_one(count) if equals else 1}
    of_class = name.removeprefix(_CLASS)
    entry |= {"alias": name} if of_class == name else {"resource_class": of_class}
    return {**entry, "traits": traits} if traits else entry


_CLASS = "class:"  # prefix of a resource class in place of an alias
_IMAGE = "image:"  # prefix of a hint about what the image needs
_IMAGE_TRAIT = "image:trait:"  # prefix of a hint that names a trait of the image

#: Hints about the devices that an image needs.
_IMAGE_DEVICES = {
    "image:pci_passthrough:alias",
    "image:hw_pci_numa_affinity_policy",
    "image:pci_numa_affinity_policy",
}

#: Member of a request about devices -> its option and its settings.
_DEVICES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "devices": (
        "--device",
        {
            "metavar": "<alias>[=<n>][,<trait>,...]",
            "action": "append",
            "type": _device,
            "help": "Devices of the host, by an alias of the operator and their number (default 1), for example gpu=2, "
            "and traits that each must have. class:CUSTOM_GPU in place of the alias asks for a resource class. May be "
            "repeated for other devices (needs a server with microversion 1.45, as do the next two).",
        },
    ),
    "device_numa_policy": (
        "--device-numa-policy",
        {
            "choices": ("none", "preferred", "required", "socket"),
            "help": "Cells whose devices may be given. required: the container's cells. socket: cells of its sockets. "
            "preferred (default): any cell, the nearest first. none: any cell.",
        },
    ),
    "device_same": (
        "--device-same",
        {
            "choices": ("none", "link", "switch", "cell", "host"),
            "help": "Part of the host that a device of each kind share: their PCIe switch or their cell. link: all "
            "GPUs of the container are linked to each other, by NVLink or xGMI (needs a server with microversion "
            "1.47).",
        },
    ),
}

#: Member of a request about the host's traits and aggregates -> its option, which may be repeated, and its settings.
_TRAITS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "required_traits": (
        "--required-trait",
        {
            "metavar": "<trait>",
            "help": "Trait that the host must have, for example HW_CPU_X86_AVX2 (needs a server with microversion "
            "1.44, as do the next three). May be repeated: the host must have all.",
        },
    ),
    "forbidden_traits": (
        "--forbidden-trait",
        {"metavar": "<trait>", "help": "Trait that the host must not have. May be repeated."},
    ),
    "any_traits": (
        "--any-trait",
        {
            "metavar": "<trait,trait,...>",
            "type": _alternatives,
            "help": "Traits of which the host must have at least one. May be repeated: at least one of each list.",
        },
    ),
    "member_of": (
        "--member-of",
        {
            "metavar": "<aggregate,aggregate,...>",
            "type": _alternatives,
            "help": "Names or uuids of aggregates of which the host must be in at least one. May be repeated: at least "
            "one of each list.",
        },
    ),
}

#: Member of a request about placement -> the settings of its option.
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "cpu_policy": {
        "choices": ("dedicated", "shared", "mixed"),
        "help": "dedicated: CPUs of its own, for which --cpu must be a whole number and --memory be given. "
        "shared (the server's default): the host's shared pool. mixed: --dedicated-cpus of its own and for the rest of "
        "--cpu the shared pool of the same cell (needs a server with microversion 1.46).",
    },
    "dedicated_cpus": {
        "metavar": "<n>",
        "type": at_least_one,
        "help": "The number of CPUs of its own of a mixed container, less than --cpu. Its programs find their list in "
        "the environment variable ZUN_DEDICATED_CPUS (needs a server with microversion 1.46).",
    },
    "cpu_thread_policy": {
        "choices": ("prefer", "isolate", "require"),
        "help": "Hardware threads of the dedicated CPUs. prefer (default): whole cores where they fit. "
        "isolate: one CPU a core, its siblings kept idle. require: whole cores of a host that has siblings.",
    },
    "cpu_isolation": {
        "choices": ("thread", "core", "l3", "node", "isolated"),
        "help": "What nobody else may run on beside the dedicated CPUs. thread (default): nothing more. core: their "
        "sibling threads. l3: every CPU that shares an L3 cache with them. node: every CPU of their cells. "
        "isolated: as thread, on CPUs that the host's kernel isolates.",
    },
    "numa_nodes": {
        "metavar": "<n>",
        "type": at_least_one,
        "help": "Spread CPUs and memory over exactly this many cells (default 1). A cell is a memory node of the "
        "kernel with its CPUs.",
    },
    "numa_affinity": {
        "choices": ("require", "prefer", "none"),
        "help": "require (default): --numa-nodes is a condition. prefer: as few and as close cells as possible. "
        "none: any cells.",
    },
    "numa_cpus": {
        "metavar": "<cpus,cpus,...>",
        "type": _one_each,
        "help": "CPUs in each cell, for example 1,3,4. The sum is --cpu.",
    },
    "numa_mem": {
        "metavar": "<mib,mib,...>",
        "type": _one_each,
        "help": "MiB in each cell, for example 512,1024,1024. The sum is --memory.",
    },
    "numa_mempolicy": {
        "choices": ("strict", "preferred"),
        "help": "strict (default): memory only from the chosen cells. preferred: local first, spill allowed.",
    },
    "cpu_partition": {
        "choices": ("none", "root", "isolated"),
        "help": "Make the CPUs of a dedicated container a cpuset partition of the kernel, on which nothing else of the "
        "host can run. root: the kernel balances threads over the CPUs. isolated: it does not; the program places its "
        "threads itself (needs a server with microversion 1.51, as do the next three).",
    },
    "interrupts": {
        "choices": ("away", "own", "any"),
        "help": "Device interrupts on the container's own CPUs. away: none. own: only those of its own devices, which "
        "come nowhere else. any: those that the host has there. Without it the host chooses.",
    },
    "power_profile": {
        "metavar": "<profile>",
        "help": "Power profile of the container's own CPUs: clock and sleep states under a name that the operator "
        "gave. 'openstack appcontainer host show' lists those of a host as traits CUSTOM_ZUN_POWER_PROFILE_<NAME>.",
    },
    "cpuset_signal": {
        "metavar": "<signal>",
        "help": "Send this signal, for example SIGHUP, to the container's first process after a resize or a move has "
        "changed its CPUs. The file /run/zun/cpuset.json in the container has the new ones then.",
    },
    "cache_ways": {
        "metavar": "<ways>",
        "type": int,
        "help": "Ways of each L3 cache that its own CPUs use, for the container alone (1.51, as the next two).",
    },
    "cache_mib": {
        "metavar": "<MiB>",
        "type": int,
        "help": "The same in MiB, rounded up to whole ways of the host.",
    },
    "memory_bandwidth": {
        "metavar": "<percent>",
        "type": int,
        "help": "Percent of the memory bandwidth of each such cache.",
    },
    "mem_page_size": {
        "metavar": "{small,large,any,<KiB>}",
        "type": _page_size,
        "help": "Size of the memory pages to account for.",
    },
}
