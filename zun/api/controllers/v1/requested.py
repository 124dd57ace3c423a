# SPDX-License-Identifier: Apache-2.0
"""What a create request, and a question about one, may ask for only under conditions."""

from collections.abc import Mapping
from typing import Any

from zun.api.policy import Access
from zun.common import exceptions
from zun.db import compute_nodes as db_nodes


def check_policies(access: Access, given: Mapping[str, Any]) -> None:
    """Some fields are not for everybody, whatever else the request says."""
    if given.get("runtime") is not None:
        access.require("container:create:runtime")
    if "privileged" in given:
        access.require("container:create:privileged")
    if given.get("image_pull_policy"):
        access.require("container:create:image_pull_policy")
    if given.get("host") is not None:
        access.require("container:create:requested_destination")


def check_host(given: Mapping[str, Any]) -> None:
    """Raise RequestedHostNotFound for a ``host`` that is none of ours."""
    host = given.get("host")
    if host is None:
        return
    try:
        db_nodes.find(host)
    except exceptions.ComputeNodeNotFound:
        raise exceptions.RequestedHostNotFound(host=host) from None
