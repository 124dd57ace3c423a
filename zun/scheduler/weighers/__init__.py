# SPDX-License-Identifier: Apache-2.0
"""Weighers: one class in one file each, named with its multiplier in ``[scheduler] weighers``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stevedore import named

from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec

NAMESPACE = "zun.scheduler.weigher"


class HostWeigher:
    """Base of the weighers: hosts of a higher weight are tried first."""

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        """Any number; the scale does not matter, weights are normalised over the hosts at hand."""
        raise NotImplementedError

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        """The weights of ``hosts``; for a weigher that can say more, or say it faster, when it sees all of them."""
        return [self.weigh(host, spec) for host in hosts]


@dataclass(frozen=True, slots=True)
class Weighted:
    weigher: HostWeigher
    multiplier: float


def load(settings: Sequence[str]) -> list[Weighted]:
    """The weighers of settings such as ``FreeCPUWeigher=1.0``. Raises RuntimeError for an unknown or malformed one."""
    multipliers: dict[str, float] = {}
    for setting in settings:
        name, _, multiplier = setting.partition("=")
        try:
            multipliers[name.strip()] = float(multiplier or 1.0)
        except ValueError:
            raise RuntimeError(f"[scheduler] weighers: '{setting}' is not NAME=MULTIPLIER") from None
    manager: Any = named.NamedExtensionManager(NAMESPACE, list(multipliers), invoke_on_load=True, name_order=True)
    missing = multipliers.keys() - set(manager.names())
    if missing:
        raise RuntimeError(f"no such scheduler weigher: {', '.join(sorted(missing))}; see [scheduler] weighers")
    return [Weighted(extension.obj, multipliers[extension.name]) for extension in manager]


def order(hosts: Sequence[HostState], spec: RequestSpec, weighers: Sequence[Weighted]) -> list[HostState]:
    """``hosts`` best first: by the falling sum of multiplier times weight (scaled to 0..1), then by name."""
    totals = [0.0] * len(hosts)
    for weighted in weighers:
        weights = weighted.weigher.weigh_all(hosts, spec)
        low, high = min(weights, default=0.0), max(weights, default=0.0)
        if high > low:
            for index, weight in enumerate(weights):
                totals[index] += weighted.multiplier * (weight - low) / (high - low)
    ranked = sorted(zip(totals, hosts, strict=True), key=lambda pair: (-pair[0], pair[1].hostname))
    return [host for _, host in ranked]
