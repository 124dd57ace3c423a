# SPDX-License-Identifier: Apache-2.0
"""The placement options of ``appcontainer create`` and ``run``, and the request fields they become."""

import argparse
from collections.abc import Callable
from typing import Any

from zunclient.common.utils import format_args


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the placement options; each defaults to None, which means "not asked"."""
    group = parser.add_argument_group(
        "placement",
        "CPUs and memory nodes of the container, and its group. Any of these options needs a server with microversion "
        "1.41; those about CPUs and memory nodes need --cpu-policy dedicated.",
    )
    group.add_argument(
        "--cpu-policy",
        choices=("dedicated", "shared"),
        help="dedicated: CPUs of its own, for which --cpu must be a whole number and --memory be given. "
        "shared (the server's default): the host's shared pool.",
    )
    group.add_argument(
        "--cpu-thread-policy",
        choices=("prefer", "isolate", "require"),
        help="Hardware threads of the dedicated CPUs. prefer (default): whole cores where they fit. "
        "isolate: one CPU a core, its siblings kept idle. require: whole cores of a host that has siblings.",
    )
    group.add_argument(
        "--cpu-isolation",
        choices=("thread", "core", "l3", "node", "isolated"),
        help="What nobody else may run on beside the dedicated CPUs. thread (default): nothing more. core: their "
        "sibling threads. l3: every CPU that shares an L3 cache with them. node: every CPU of their memory nodes. "
        "isolated: as thread, on CPUs that the host's kernel isolates.",
    )
    group.add_argument(
        "--numa-nodes",
        metavar="<n>",
        type=at_least_one,
        help="Spread CPUs and memory over exactly this many memory nodes (default 1).",
    )
    group.add_argument(
        "--numa-affinity",
        choices=("require", "prefer", "none"),
        help="require (default): --numa-nodes is a condition. prefer: as few and as close nodes as possible. "
        "none: any nodes.",
    )
    group.add_argument(
        "--numa-cpus",
        metavar="<cpus,cpus,...>",
        type=_list_of(at_least_one),
        help="CPUs in each memory node, for example 1,3,4. The sum is --cpu.",
    )
    group.add_argument(
        "--numa-mem",
        metavar="<mib,mib,...>",
        type=_list_of(at_least_one),
        help="MiB in each memory node, for example 512,1024,1024. The sum is --memory.",
    )
    group.add_argument(
        "--numa-mempolicy",
        choices=("strict", "preferred"),
        help="strict (default): memory only from the chosen nodes. preferred: local first, spill allowed.",
    )
    group.add_argument(
        "--mem-page-size",
        metavar="{small,large,any,<KiB>}",
        type=_page_size,
        help="Size of the memory pages to account for.",
    )
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
    names = (
        "cpu_policy",
        "cpu_thread_policy",
        "cpu_isolation",
        "numa_nodes",
        "numa_affinity",
        "numa_cpus",
        "numa_mem",
        "numa_mempolicy",
        "mem_page_size",
    )
    given = {name: getattr(parsed_args, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def at_least_one(text: str) -> int:
    """Argparse type: a whole number of 1 or more."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def _list_of(item: Callable[[str], int]) -> Callable[[str], list[int]]:
    """Argparse type: items separated by commas, in the order given."""

    def parse(text: str) -> list[int]:
        try:
            return [item(part.strip()) for part in text.split(",")]
        except argparse.ArgumentTypeError as exc:
            raise argparse.ArgumentTypeError(f"{exc}; give one for each memory node, for example 2,2") from None

    return parse


def _page_size(text: str) -> str | int:
    """Argparse type: one of the server's words, or a size in KiB."""
    if text in ("small", "large", "any"):
        return text
    try:
        return at_least_one(text)
    except argparse.ArgumentTypeError:
        words = "small, large, any or a size in KiB, for example 2048"
        raise argparse.ArgumentTypeError(f"{text!r} is none of {words}") from None
