# SPDX-License-Identifier: Apache-2.0
"""Arguments of the requests about networks."""

import ipaddress

from zun.api import limits, microversion
from zun.api.schemas import Field, Schema, scalars
from zun.common import subnets

_IN_A_ROW = "a name with two letters, digits, '.', '_' or '-' in a row, the first of them a letter or a digit"
_LABEL = Field(
    {
        **scalars.IMAGE.schema,
        "type": ["string", "null"],
        "allOf": [{**each, "description": _IN_A_ROW} for each in scalars.IMAGE.schema["allOf"]],
        "description": _IN_A_ROW,
    }
)


def _subnets(value: list[dict[str, str]] | None) -> list[dict[str, str]]:
    """Return each subnet with its gateway. Raises ValueError for more than one of IPv4 or of IPv6."""
    made = [_subnet(each) for each in value or ()]
    versions = [subnets.version(each) for each in made]
    if len(set(versions)) != len(versions):
        raise ValueError("a network has at most one IPv4 and one IPv6 subnet")
    if made and 4 not in versions:
        raise ValueError("a network must have an IPv4 subnet")
    return made


def _subnet(given: dict[str, str]) -> dict[str, str]:
    block = subnets.block(given["cidr"])
    gateway = subnets.address(given.get("gateway", subnets.default_gateway(block)), block.version)
    if not subnets.is_host_address(block, ipaddress.ip_address(gateway)):
        raise ValueError(f"the gateway {gateway} is not an address of an interface in {block}")
    return {"cidr": str(block), "gateway": gateway}


_FIRST: dict[str, Field] = {"name": _LABEL, "neutron_net_id": _LABEL}
_NAMED = Schema(_FIRST, required=("name",))
_OWN = Schema(
    {
        **_FIRST,
        "project_id": scalars.LABEL,
        "shared": scalars.B3,
        "subnets": Field(
            {
                "type": ["array", "null"],
                "maxItems": limits.PARTS,
                "items": {
                    "type": "object",
                    "properties": {"cidr": scalars.ADDRESS.schema, "gateway": scalars.ADDRESS.schema},
                    "additionalProperties": False,
                    "required": ["cidr"],
                },
            },
            _subnets,
        ),
    },
    required=("name",),
)

# Versions that know what a network is made of have fields for it.
CREATE = {version: _OWN if version >= microversion.NETWORKS else _NAMED for version in microversion.EVERY}
