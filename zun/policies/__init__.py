# SPDX-License-Identifier: Apache-2.0
"""The default policy: one module for each noun, named like the noun's controller, schema and view."""

from oslo_policy import policy

from zun.policies import (
    aggregates,
    availability_zones,
    capsules,
    container_actions,
    containers,
    groups,
    hosts,
    images,
    networks,
    placement,
    quota_classes,
    quotas,
    registries,
    roles,
    services,
    sets,
    volumes,
)

NOUNS = (
    roles,
    containers,
    container_actions,
    capsules,
    groups,
    sets,
    images,
    networks,
    hosts,
    aggregates,
    services,
    availability_zones,
    placement,
    quotas,
    quota_classes,
    registries,
    volumes,
)


def list_rules() -> list[policy.RuleDefault]:
    """Return every rule, for the enforcer and for oslo.policy's generators."""
    return [rule for noun in NOUNS for rule in noun.RULES]
