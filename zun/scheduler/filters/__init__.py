# SPDX-License-Identifier: Apache-2.0
"""Filters: one class in one file each, named in ``[scheduler] enabled_filters`` by entry point.

A filter says of one host why it is unfit for one request, or None. It is pure: the values it gets are never changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg
from stevedore import named

from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.topology import Refusal

NAMESPACE = "zun.scheduler.filter"


class HostFilter:
    """Base of the filters. What it does not define lets every host pass and sets no limit."""

    # True for filters whose rejections mean "not enough left". Their hosts are asked for the nearest miss.
    measures_capacity = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """``conf`` is for filters with options of their own."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        """Why ``host`` is unfit, or None. Called for every host: keep it cheap."""
        return None

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any] | Refusal:
        """What the claim on ``host`` must keep to, by kind of resource; or a Refusal after an exact look.

        Called for the best hosts only, until enough of them are found.
        """
        return {}


def load(names: Sequence[str], conf: cfg.ConfigOpts) -> list[HostFilter]:
    """The filters called ``names``, in that order. Raises RuntimeError for an unknown one."""
    manager: Any = named.NamedExtensionManager(
        NAMESPACE, list(names), invoke_on_load=True, invoke_args=(conf,), name_order=True
    )
    missing = set(names) - set(manager.names())
    if missing:
        raise RuntimeError(f"no such scheduler filter: {', '.join(sorted(missing))}; see [scheduler] enabled_filters")
    return [extension.obj for extension in manager]
