# SPDX-License-Identifier: Apache-2.0
"""The query parameter ``all_projects``: include other projects, if policy permits it to the caller."""

from collections.abc import Mapping

from zun.api import paging
from zun.api.request import Call
from zun.api.schemas import Schema

_NAME = "all_projects"

OF_LIST = paging.parameters(all_projects=paging.FLAG)
OF_ONE = Schema({_NAME: paging.FLAG})


def wanted(call: Call) -> bool:
    """Return whether the query asks for all projects. Raises InvalidValue for a malformed boolean."""
    return paging.boolean(_NAME, call.query.get(_NAME))


def permitted(call: Call, rule: str) -> bool:
    """Return ``wanted``, or raise PolicyNotAuthorized if all projects are asked for and ``rule`` denies it."""
    asked = wanted(call)
    if asked:
        call.access.require(rule)
    return asked


def carried(asked: bool) -> Mapping[str, str]:
    """Return the parameters that the link to the next page repeats."""
    return {_NAME: "true"} if asked else {}
