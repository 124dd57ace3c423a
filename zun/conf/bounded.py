# SPDX-License-Identifier: Apache-2.0
"""Options whose value is a number that is not too large for who uses it: that would only fail later."""

import functools

from oslo_config import cfg

LARGEST = 2**31 - 1
"""Every column of every database takes it, and as seconds it is 68 years: a clock takes 292."""
MOST_THREADS = 10_000
"""For each of them something is made at once."""

IntOpt = functools.partial(cfg.IntOpt, max=LARGEST)
FloatOpt = functools.partial(cfg.FloatOpt, max=LARGEST)
