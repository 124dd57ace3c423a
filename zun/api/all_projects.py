# SPDX-License-Identifier: Apache-2.0
"""``all_projects`` of a query: what other projects have as well, for those whom policy permits it."""

from collections.abc import Mapping

from zun.api import paging
from zun.api.request import Call
from zun.api.schemas import Schema
from zun.common.context import RequestContext, admin_context

_NAME = "all_projects"

OF_LIST = paging.parameters(all_projects=paging.FLAG)
OF_ONE = Schema({_NAME: paging.FLAG})


def wanted(call: Call) -> bool:
    """Whether it is asked for. Raises InvalidValue for what is no truth value."""
    return paging.boolean(_NAME, call.query.get(_NAME))


def permitted(call: Call, rule: str) -> bool:
    """As ``wanted``. Raises PolicyNotAuthorized when it is and ``rule`` does not permit it."""
    asked = wanted(call)
    if asked:
        call.access.require(rule)
    return asked


def context(call: Call, rule: str) -> RequestContext:
    """Who looks for one row: an administrator where it is asked for, else who calls. Raises as ``permitted``."""
    return admin_context(call.context.request_id) if permitted(call, rule) else call.context


def carried(asked: bool) -> Mapping[str, str]:
    """What of it the link to the next page has."""
    return {_NAME: "true"} if asked else {}
