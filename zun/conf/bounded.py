# SPDX-License-Identifier: Apache-2.0
"""Option types for numbers with an upper bound, so that a number that is too large is rejected at start-up."""

import functools

from oslo_config import cfg

LARGEST = 2**31 - 1
"""Largest value of a 32-bit column. As seconds it is 68 years; Python's clocks overflow after 292 years."""
MOST_THREADS = 10_000
"""Largest size of a thread pool; some pools allocate an entry for each thread at start-up."""

IntOpt = functools.partial(cfg.IntOpt, max=LARGEST)
FloatOpt = functools.partial(cfg.FloatOpt, max=LARGEST)

MOST_RATIO = 1_000_000
"""Largest allocation ratio. Schedulers take no larger one from a host (``zun.topology.ranges.RATIO``)."""

RatioOpt = functools.partial(cfg.FloatOpt, max=MOST_RATIO)
