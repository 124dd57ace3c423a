# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common.groups import Group

AFFINITY = "the containers of group web are on another host, and its policy is affinity"


def group(policy, **rules):
    return {"uuid": "g1", "name": "web", "policy": policy, "rules": rules}


@pytest.mark.parametrize(
    ("row", "members", "reason"),
    [
        pytest.param(group("affinity"), {}, None, id="first"),
        pytest.param(group("affinity"), {"here": 3}, None, id="beside-the-others"),
        pytest.param(group("affinity"), {"there": 1}, AFFINITY, id="away-from-the-others"),
        # Two hosts have members only if a rule was broken before. It is not broken further.
        pytest.param(group("affinity"), {"here": 1, "there": 1}, AFFINITY, id="already-broken"),
        pytest.param(group("anti-affinity"), {}, None, id="nobody"),
        pytest.param(group("anti-affinity"), {"there": 9}, None, id="elsewhere"),
        pytest.param(
            group("anti-affinity"),
            {"here": 1},
            "it has 1 container of group web, whose policy anti-affinity allows 1 per host",
            id="one-already",
        ),
        pytest.param(group("anti-affinity", max_per_host=3), {"here": 2}, None, id="below-the-limit"),
        pytest.param(
            group("anti-affinity", max_per_host=3),
            {"here": 3},
            "it has 3 containers of group web, whose policy anti-affinity allows 3 per host",
            id="at-the-limit",
        ),
        pytest.param({**group("anti-affinity"), "rules": None}, {"here": 0}, None, id="no-rules"),
        pytest.param(group("soft-affinity"), {"there": 5}, None, id="soft-affinity"),
        pytest.param(group("soft-anti-affinity"), {"here": 5}, None, id="soft-anti-affinity"),
    ],
)
def test_one_more_member(row, members, reason):
    assert Group.of(row).broken_by(members, "here") == reason
