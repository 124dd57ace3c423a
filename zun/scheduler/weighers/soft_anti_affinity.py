# SPDX-License-Identifier: Apache-2.0
from zun.common.groups import Policy
from zun.scheduler.weighers.soft_affinity import SoftAffinityWeigher


class SoftAntiAffinityWeigher(SoftAffinityWeigher):
    """Prefer hosts with fewer members of the request's group, if the group's policy is soft-anti-affinity."""

    policy = Policy.SOFT_ANTI_AFFINITY
    sign = -1.0
