# SPDX-License-Identifier: Apache-2.0
"""Two libraries ask the same question about our functions at every request; here they learn the answer once.

pecan takes a controller's signature apart about seven times a request, half a millisecond in all. oslo.policy
does it for each node of each rule, a quarter of a millisecond a check. Both look a module-level name up,
which is what we replace. A test fails when either library no longer goes through that name.
"""

import functools
import inspect
from collections.abc import MutableMapping
from typing import Any

from oslo_policy import _checks
from pecan import util as pecan_util


@functools.cache
def _takes_current_rule(kind: type) -> bool:
    return len(inspect.getfullargspec(kind.__call__).args) > 4


def _check(rule: Any, target: Any, creds: MutableMapping[str, Any], enforcer: Any, current_rule: str | None) -> Any:
    """oslo.policy's own function but for the memory: checks of old plug-ins take no ``current_rule``."""
    if _takes_current_rule(rule.__class__):
        return rule(target, creds, enforcer, current_rule)
    return rule(target, creds, enforcer)


def install() -> None:
    """Replace both names. Calling it again changes nothing."""
    if not hasattr(pecan_util._getargspec, "cache_info"):
        pecan_util._getargspec = functools.cache(pecan_util._getargspec)
    _checks._check = _check
