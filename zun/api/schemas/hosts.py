# SPDX-License-Identifier: Apache-2.0
"""Arguments of requests about a compute host, of the query or the body."""

from zun.api.schemas import Schema, scalars

AUDIT = Schema({"repair": scalars.B3})
