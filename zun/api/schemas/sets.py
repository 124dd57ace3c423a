# SPDX-License-Identifier: Apache-2.0
"""Arguments of the requests about container sets."""

from zun.api.schemas import Schema, containers, scalars

DELETE_QUERY = Schema({"force": scalars.BX, "stop": scalars.BX, "all_projects": scalars.ANYTHING})
STOP = containers.TIMEOUT
NONE = Schema({})
