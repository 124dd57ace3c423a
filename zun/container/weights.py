# SPDX-License-Identifier: Apache-2.0
"""CPU weights of containers: what a runtime makes of CPU shares, and which shares to ask for. Pure functions.

An engine takes shares: 1024 for one CPU. Control groups of version 1 have the same shares. Version 2 has weights from 1
to 10000, and each runtime turns shares into a weight by a curve. The weights of two containers are to each other as
their CPUs only if the shares are chosen for the runtime's curve.

Sources: Documentation/admin-guide/cgroup-v2.rst (cpu.weight), kernel/sched/sched.h (MAX_SHARES), and the manuals of the
runtimes: runc before 1.3.2 and crun before 1.23 have the linear curve, later ones the quadratic one.
"""

import bisect
import math
from collections.abc import Callable

SHARES_PER_CPU = 1024
#: The kernel's lowest and highest number of shares. Docker reads 0 as unset.
MINIMUM_SHARES, MAXIMUM_SHARES = 2, 262_144
_HIGHEST_WEIGHT = 10_000

Curve = Callable[[int], int]


def linear(shares: int) -> int:
    """Return the weight by the older curve: 1024 is 39, 4096 is 157."""
    return 1 + (_within(shares) - MINIMUM_SHARES) * (_HIGHEST_WEIGHT - 1) // (MAXIMUM_SHARES - MINIMUM_SHARES)


def quadratic(shares: int) -> int:
    """Return the weight by the newer curve, a parabola of logarithms: 1024 is 100, 4096 is 303."""
    if shares <= MINIMUM_SHARES:
        return 1
    if shares >= MAXIMUM_SHARES:
        return _HIGHEST_WEIGHT
    power = math.log2(shares)
    return math.ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34))


CURVES: tuple[Curve, ...] = (linear, quadratic)


def plain_shares(cpu: float) -> int:
    """Return the shares of version 1: 1536 for 1.5 CPUs. More than 256 CPUs have the shares of 256."""
    return _within(int(cpu * SHARES_PER_CPU))


def weight_of(cpu: float) -> int:
    """Return the weight that a container of ``cpu`` CPUs shall have: 39 for each CPU, in proportion.

    The unit is that of the linear curve, so containers from before an upgrade of the runtime keep their part. More than
    256 CPUs have the weight of 256.
    """
    return linear(plain_shares(cpu))


def shares_for(cpu: float, curve: Curve = linear) -> int:
    """Return the shares that ``curve`` turns into the weight of ``cpu`` CPUs."""
    if curve is linear:
        return plain_shares(cpu)  # exact on version 1, too
    every = range(MINIMUM_SHARES, MAXIMUM_SHARES + 1)
    return every[bisect.bisect_left(every, weight_of(cpu), key=curve)]


def curve_of(shares: int, weight: int) -> Curve | None:
    """Return the only known curve that turns ``shares`` into ``weight``, or None."""
    fitting = [curve for curve in CURVES if curve(shares) == weight]
    return fitting[0] if len(fitting) == 1 else None


def may_be(shares: int, cpu: float) -> bool:
    """Return whether ``shares`` are those of ``cpu`` CPUs by any known curve."""
    return any(shares == shares_for(cpu, curve) for curve in CURVES)


def _within(shares: int) -> int:
    return min(max(MINIMUM_SHARES, shares), MAXIMUM_SHARES)
