# SPDX-License-Identifier: Apache-2.0
"""Weighers: one class in one file each, named with its multiplier in ``[scheduler] weighers``.

``weight = sum(multiplier * normalised)``, where the weights of each weigher are scaled to 0..1 over the hosts at hand.
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

# The best so many hosts are looked for one by one, which is quicker than sorting when the first will do.
PICKED = 16


class HostWeigher:
    """Base of the weighers: hosts of a higher weight are tried first.

    ``weigh`` is the definition; ``weigh_all`` is the same for all hosts at once, and optional.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """``conf`` is for weighers with options of their own."""

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        """Any number; the scale does not matter, weights are normalised over the hosts at hand."""
        raise NotImplementedError

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        """What ``weigh`` says of every host. What is returned is never written to.

        Answer ``table.nothing`` when the request means nothing to this weigher. A number that depends on the host
        alone and is costly is kept with the host by ``table.measured``.
        """
        return np.fromiter((self.weigh(host, spec) for host in table), np.float64, len(table))


@dataclass(frozen=True, slots=True)
class Weighted:
    weigher: HostWeigher
    multiplier: float


def load(settings: Sequence[str], conf: cfg.ConfigOpts) -> list[Weighted]:
    """The weighers of settings such as ``FreeCPUWeigher=1.0``. Raises Misconfigured for an unknown or malformed one."""
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
    """The rows that are ``admitted``, best first: by the falling sum of multiplier times weight (scaled to 0..1), then
    by name. Sorts only when many are wanted."""
    count = len(table) if admitted is table.everything else np.count_nonzero(admitted)
    rows = None if count == len(table) else np.flatnonzero(admitted)
    totals: Floats | None = None
    for weighted in weighers:
        part = _normalised(weighted, table, spec, rows) if count else None
        if part is not None:
            totals = part if totals is None else np.add(totals, part, out=totals)
    if totals is None:  # nothing tells one host from another
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
    """Multiplier times weight, scaled to 0..1 over the rows; None when all are equal."""
    weights = weighted.weigher.weigh_all(table, spec)
    if weights is table.nothing:
        return None
    weights = np.asarray(weights, np.float64)  # a weigher may answer with whole numbers
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
