# SPDX-License-Identifier: Apache-2.0
"""Weighers: one class in one file each, named with its multiplier in ``[scheduler] weighers``.

``weight = sum(multiplier * normalised)``, where the weights of each weigher are scaled to 0..1 over the admitted hosts.
Example: free CPUs of 4, 8 and 12 on three hosts are normalised to 0, 0.5 and 1.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from oslo_config import cfg

from zun.common import exceptions
from zun.scheduler import plugins
from zun.scheduler.columns import Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec

NAMESPACE = "zun.scheduler.weigher"

# The first 16 hosts are found one by one, because most requests take the first host and never need a sorted list.
PICKED = 16


class HostWeigher:
    """Base class of the weighers. The scheduler tries hosts with a higher weight first.

    ``weigh`` defines a weigher. ``weigh_all`` gives the same weights for all hosts at once, and is optional. A weigher
    that weighs a host beside the others is defined by ``weigh_all``.
    """

    # True if the weigher reads ``HostState.io_ops``, which costs the database a query each time hosts are compared.
    reads_io_ops = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Keep the options that the weigher needs. This base class needs none."""

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        """Return the weight of ``host``: any finite number, because weights are normalised over the admitted hosts."""
        raise NotImplementedError

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        """Return ``weigh`` of every host, by row. Callers never write to the result.

        Return ``table.nothing`` if the request does not concern this weigher. ``table.measured`` caches a costly
        number that depends on the host alone.
        """
        return np.fromiter((self.weigh(host, spec) for host in table), np.float64, len(table))


@dataclass(frozen=True, slots=True)
class Weighted:
    weigher: HostWeigher
    multiplier: float


def load(settings: Sequence[str], conf: cfg.ConfigOpts) -> list[Weighted]:
    """Return the weighers of settings like ``FreeCPUWeigher=1.0``. Raise Misconfigured for a wrong setting."""
    multipliers: dict[str, float] = {}
    for setting in settings:
        name, _, multiplier = setting.partition("=")
        try:
            multipliers[name.strip()] = float(multiplier or 1.0)
            if not math.isfinite(multipliers[name.strip()]):
                raise ValueError("no sum has it")
        except ValueError:
            raise exceptions.Misconfigured(f"[scheduler] weighers: '{setting}' is not NAME=MULTIPLIER") from None
    found = plugins.load(NAMESPACE, "weighers", list(multipliers), conf)
    return [Weighted(extension.obj, multipliers[extension.name]) for extension in found]


def best_first(
    table: Columns, spec: RequestSpec, weighers: Sequence[Weighted], admitted: np.typing.NDArray[np.bool_]
) -> Iterator[int]:
    """Yield the ``admitted`` rows, best first: by falling weighted sum (see the module), then by host name.

    The function sorts only if the caller takes more than ``PICKED`` rows.
    """
    count = len(table) if admitted is table.everything else np.count_nonzero(admitted)
    rows = None if count == len(table) else np.flatnonzero(admitted)
    totals: Floats | None = None
    for weighted in weighers:
        part = _normalised(weighted, table, spec, rows) if count else None
        if part is not None:
            totals = part if totals is None else np.add(totals, part, out=totals)
    if totals is None:  # no weigher distinguishes the hosts
        for place in range(count):
            yield place if rows is None else int(rows[place])
        return
    for _ in range(min(PICKED, count)):
        place = int(totals.argmax())
        totals[place] = -np.inf
        yield place if rows is None else int(rows[place])
    if count > PICKED:
        for place in np.argsort(-totals, kind="stable")[: count - PICKED]:
            yield int(place) if rows is None else int(rows[place])


def _normalised(
    weighted: Weighted, table: Columns, spec: RequestSpec, rows: np.typing.NDArray[np.intp] | None
) -> Floats | None:
    """Return the multiplier times the weights, scaled to 0..1 over the rows; None if all weights are equal."""
    weights = weighted.weigher.weigh_all(table, spec)
    if weights is table.nothing:
        return None
    weights = np.asarray(weights, np.float64)  # a weigher may return integers
    if rows is not None:
        weights = weights.take(rows)
    low, high = np.minimum.reduce(weights), np.maximum.reduce(weights)
    if not high > low:
        return None
    scaled: Floats = weights - low
    if weighted.multiplier != 1.0:
        scaled *= weighted.multiplier
    scaled /= high - low
    return scaled
