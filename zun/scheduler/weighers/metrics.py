# SPDX-License-Identifier: Apache-2.0
import math
from collections.abc import Sequence

from oslo_config import cfg

from zun.common import exceptions
from zun.scheduler.columns import Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher

LARGEST = 1e15
"""Largest number of a label, and largest ratio. Sums of their products stay finite, also when they are scaled."""


class MetricsWeigher(HostWeigher):
    """Prefer hosts by numbers that their labels have, each with a ratio: ``[metrics] weight_setting``.

    Example: with ``rating=1.0,price=-2.0``, a host with the labels ``rating`` 7 and ``price`` 3 has the weight 1. A
    host without one of the numbers has the weight ``[metrics] weight_of_unavailable``.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._ratios = _ratios(conf.metrics.weight_setting)
        self._without: float = conf.metrics.weight_of_unavailable

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return self._weight(host)

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        return table.measured("metrics", self._weight) if self._ratios else table.nothing

    def _weight(self, host: HostState) -> float:
        weight = 0.0
        for name, ratio in self._ratios.items():
            number = _number(host.labels.get(name, ""))
            if number is None:
                return self._without
            weight += ratio * number
        return weight


def _ratios(settings: Sequence[str]) -> dict[str, float]:
    """Return the ratios of settings like ``rating=1.0`` by name. Raise Misconfigured for a wrong setting."""
    ratios: dict[str, float] = {}
    for setting in settings:
        name, _, text = (part.strip() for part in setting.rpartition("="))
        ratio = _number(text)
        if not name or ratio is None or name in ratios:
            raise exceptions.Misconfigured(
                f"[metrics] weight_setting: '{setting}' must be NAME=RATIO, once for each NAME, for example price=-2.0"
            )
        ratios[name] = ratio
    return ratios


def _number(text: str) -> float | None:
    """Return the number of a text, or None for any other text, for NaN, and beyond ``LARGEST``."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.fabs(number) <= LARGEST else None
