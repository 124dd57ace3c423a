# SPDX-License-Identifier: Apache-2.0
"""Filters: one class in one file each, named in ``[scheduler] enabled_filters`` by entry point.

A filter tells why one host is unfit for one request, or returns None. A filter never changes its arguments.
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
    """Base class of the filters. Its own methods let every host pass and set no limit.

    ``reject`` defines a filter. ``admit`` gives the same answers for all hosts at once.
    """

    # True if a rejection means that the host has too little left. Explanations name the nearest miss of these hosts.
    measures_capacity = False
    # True if the filter reads ``HostState.io_ops``, which costs the database a query each time hosts are compared.
    reads_io_ops = False

    def __init__(self, conf: cfg.ConfigOpts | None = None) -> None:
        """Keep the options that the filter needs. This base class needs none."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        """Return why ``host`` is unfit, or None. Keep this method cheap: it runs for every host.

        Users may read the reason. It must not name the host or tell its actual values (``found`` does): "its label
        rack is not 'r1'", where 'r1' comes from the request.
        """
        return None

    def found(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        """Return the actual values of a rejected host in JSON types, for example ``{"labels": {"rack": "r2"}}``.

        Only callers that may see hosts read them. Explanations ask for the values of a few hosts.
        """
        return {}

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        """Return an array with True for each host that ``reject`` lets pass. This fast form is optional.

        A filter without it runs ``reject`` on each host that all other filters let pass. Return ``table.everything``
        if the request does not concern this filter. Callers never write to the result.
        """
        reasons = (self.reject(host, spec) for host in table)
        return np.fromiter((reason is None for reason in reasons), np.bool_, len(table))

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any] | Refusal:
        """Return the limits of the claim on ``host``, or a Refusal if an exact check finds no room.

        Example: ``{"cpu_allocation_ratio": 4.0}``. Runs for the best hosts only, until enough hosts are found.
        """
        return {}


def load(names: Sequence[str], conf: cfg.ConfigOpts) -> list[HostFilter]:
    """Return the filters of these names, in this order. Raise Misconfigured if one is unknown or cannot be made."""
    return [extension.obj for extension in plugins.load(NAMESPACE, "enabled_filters", names, conf)]
