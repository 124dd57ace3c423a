# SPDX-License-Identifier: Apache-2.0
"""Arguments of requests about a compute host, of the query or the body."""

from zun.api.schemas import Schema, scalars, traits

EVACUATE = Schema({"host_is_down": scalars.B3, "dry_run": scalars.B3})
DRAIN = Schema({"dry_run": scalars.B3, "parallel": scalars.whole(1, 100), "discard_layer": scalars.B3})
AUDIT = Schema({"repair": scalars.B3})
TRAITS = Schema({"traits": scalars.bounded("traits", traits.NAMES)}, required=("traits",))
