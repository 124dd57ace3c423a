# SPDX-License-Identifier: Apache-2.0
"""The collector of a host that is not there."""

from zun.compute.host.host_metrics import HostCollector
from zun.topology import Usage


def collector(name, topology, usage=None, *, work=0, up=True, findings=None, readings=None):
    state = (topology, usage or Usage())
    return HostCollector(name, lambda: state, lambda: work, lambda: up, lambda: findings or {}, lambda: readings or {})
