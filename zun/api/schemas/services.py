# SPDX-License-Identifier: Apache-2.0
"""Arguments, in the query or the body, of requests that change a service."""

from zun.api.schemas import Schema, scalars

_SERVICE = {"host": scalars.HOST, "binary": scalars.LABEL}
_REQUIRED = tuple(_SERVICE)

ENABLE = Schema({**_SERVICE, "disabled_reason": scalars.OPTIONAL_LABEL}, required=_REQUIRED)
DISABLE = ENABLE
FORCE_DOWN = Schema({**_SERVICE, "forced_down": scalars.B3}, required=(*_REQUIRED, "forced_down"))
DELETE = Schema(_SERVICE, required=_REQUIRED)
