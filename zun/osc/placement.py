# SPDX-License-Identifier: Apache-2.0
"""The placement options of ``appcontainer create`` and ``run``, and the request fields they become."""

import argparse
from collections.abc import Mapping
from typing import Any

from zunclient.common.utils import format_args

from zun.osc.explanation import option


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the placement options; each defaults to None, which means "not asked"."""
    group = parser.add_argument_group(
        "placement",
        "CPUs and memory nodes of the container, and its group. Any of these options needs a server with microversion "
        "1.41; those about CPUs and memory nodes need --cpu-policy dedicated.",
    )
    for name, settings in _OPTIONS.items():
        group.add_argument(option(name), **settings)
    group.add_argument(
        "--group",
        metavar="<group>",
        help="Name or uuid of the group that the container joins (needs a server with microversion 1.42, as do the "
        "hints same_host and different_host).",
    )


def all_hints(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """All hints that were given, ``--group`` among them."""
    given: dict[str, Any] = format_args(parsed_args.hint)
    if parsed_args.group:
        given["group"] = parsed_args.group
    return given


def hints(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """All hints if one of them names a group or a container, ``--group`` among them; else none."""
    given = all_hints(parsed_args)
    return given if given.keys() & {"group", "same_host", "different_host"} else {}


def fields(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """The members of the request body that were asked for; empty when none was."""
    given = {name: getattr(parsed_args, name) for name in _OPTIONS}
    return {name: value for name, value in given.items() if value is not None}


def at_least_one(text: str) -> int:
    """Argparse type: a whole number of 1 or more."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def _one_each(text: str) -> list[int]:
    """Argparse type: a number for each memory node, separated by commas, in the order given."""
    try:
        return [at_least_one(part.strip()) for part in text.split(",")]
    except argparse.ArgumentTypeError as exc:
        raise argparse.ArgumentTypeError(f"{exc}; give one for each memory node, for example 2,2") from None


def _page_size(text: str) -> str | int:
    """Argparse type: one of the server's words, or a size in KiB."""
    if text in ("small", "large", "any"):
        return text
    try:
        return at_least_one(text)
    except argparse.ArgumentTypeError:
        words = "small, large, any or a size in KiB, for example 2048"
        raise argparse.ArgumentTypeError(f"{text!r} is none of {words}") from None


#: The members of a request that say how it is placed, and their options.
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "cpu_policy": {
        "choices": ("dedicated", "shared"),
        "help": "dedicated: CPUs of its own, for which --cpu must be a whole number and --memory be given. "
        "shared (the server's default): the host's shared pool.",
    },
    "cpu_thread_policy": {
        "choices": ("prefer", "isolate", "require"),
        "help": "Hardware threads of the dedicated CPUs. prefer (default): whole cores where they fit. "
        "isolate: one CPU a core, its siblings kept idle. require: whole cores of a host that has siblings.",
    },
    "cpu_isolation": {
        "choices": ("thread", "core", "l3", "node", "isolated"),
        "help": "What nobody else may run on beside the dedicated CPUs. thread (default): nothing more. core: their "
        "sibling threads. l3: every CPU that shares an L3 cache with them. node: every CPU of their memory nodes. "
        "isolated: as thread, on CPUs that the host's kernel isolates.",
    },
    "numa_nodes": {
        "metavar": "<n>",
        "type": at_least_one,
        "help": "Spread CPUs and memory over exactly this many memory nodes (default 1).",
    },
    "numa_affinity": {
        "choices": ("require", "prefer", "none"),
        "help": "require (default): --numa-nodes is a condition. prefer: as few and as close nodes as possible. "
        "none: any nodes.",
    },
    "numa_cpus": {
        "metavar": "<cpus,cpus,...>",
        "type": _one_each,
        "help": "CPUs in each memory node, for example 1,3,4. The sum is --cpu.",
    },
    "numa_mem": {
        "metavar": "<mib,mib,...>",
        "type": _one_each,
        "help": "MiB in each memory node, for example 512,1024,1024. The sum is --memory.",
    },
    "numa_mempolicy": {
        "choices": ("strict", "preferred"),
        "help": "strict (default): memory only from the chosen nodes. preferred: local first, spill allowed.",
    },
    "mem_page_size": {
        "metavar": "{small,large,any,<KiB>}",
        "type": _page_size,
        "help": "Size of the memory pages to account for.",
    },
}
