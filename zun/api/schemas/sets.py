# SPDX-License-Identifier: Apache-2.0
"""Arguments of the requests about container sets."""

from zun.api.schemas import Schema, containers

DELETE_QUERY = containers.DELETE_QUERY
STOP = containers.TIMEOUT
NONE = Schema({})
