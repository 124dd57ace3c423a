# SPDX-License-Identifier: Apache-2.0
"""Filters: one class in one file each, named in ``[scheduler] enabled_filters`` by entry point.

A filter says of one host why it is unfit for one request, or None. It is pure: the values it gets are never changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from oslo_config import cfg

from zun.scheduler import plugins
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.topology import Refusal

NAMESPACE = "zun.scheduler.filter"


class HostFilter:
    """Base of the filters. What it does not define lets every host pass and sets no limit.

    ``reject`` is the definition of a filter. ``admit`` says the same of all hosts at once.
    """

    # True for filters whose rejections mean "not enough left". Their hosts are asked for the nearest miss.
    measures_capacity = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """``conf`` is for filters with options of their own."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        """Why ``host`` is unfit, or None. Called for every host: keep it cheap.

        Users may read it: it names no host, and tells what was asked of the host and not what the host has instead.
        """
        return None

    def found(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        """What ``host``, which ``reject`` has something against, has instead: JSON-able, by name.

        For those who may see hosts. Asked of a few of them, when an explanation is written.
        """
        return {}

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        """The hosts that ``reject`` has nothing against, as an array: the optional fast form.

        A filter without one is asked host by host, for the hosts that all others let pass. Answer
        ``table.everything`` when the request asks nothing of this filter. What is returned is never written to.
        """
        reasons = (self.reject(host, spec) for host in table)
        return np.fromiter((reason is None for reason in reasons), np.bool_, len(table))

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any] | Refusal:
        """What the claim on ``host`` must keep to, by kind of resource; or a Refusal after an exact look.

        Called for the best hosts only, until enough of them are found.
        """
        return {}


def load(names: Sequence[str], conf: cfg.ConfigOpts) -> list[HostFilter]:
    """The filters called ``names``, in that order. Raises Misconfigured."""
    return [extension.obj for extension in plugins.load(NAMESPACE, "enabled_filters", names, conf)]
