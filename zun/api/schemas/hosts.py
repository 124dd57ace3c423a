# SPDX-License-Identifier: Apache-2.0
"""Arguments of requests about a compute host, of the query or the body."""

from zun.api.schemas import Schema, scalars, traits

AUDIT = Schema({"repair": scalars.B3})
TRAITS = Schema({"traits": scalars.bounded("traits", traits.NAMES)}, required=("traits",))
