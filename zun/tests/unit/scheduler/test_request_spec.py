# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common.context import RequestContext
from zun.objects import Container
from zun.scheduler.request_spec import RequestSpec
from zun.topology import PlacementRequest

A, B, C = (f"00000000-0000-0000-0000-00000000000{letter}" for letter in "abc")
UUID = "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"
OWN = {"project_id": "demo", "image": "nginx"}
PLAIN = {**OWN, "cpu": 1.0, "memory": 64, "cpu_policy": "shared", "disk": 0, "runtime": None, "placement": {}}
PLAIN |= {"volume_disk": 0}


def asked(request=None, **fields):
    context = RequestContext(user_id="alice", project_id="demo")
    return Container(context, uuid=UUID, request=request or {}, **{**PLAIN, **fields})


@pytest.mark.parametrize(
    ("container", "tried", "expected"),
    [
        pytest.param(
            asked({"host": None, "departed": {"from": "h1", "to": "h2", "sent": True}}),
            {"h3": "full"},
            RequestSpec(
                UUID,
                PlacementRequest(1.0, 64, cpu_policy="shared"),
                **OWN,
                requested_host="h2",
                tried={"h1": "it has left this host", "h3": "full"},
            ),
            id="on-its-way",
        ),
        pytest.param(
            asked(),
            None,
            RequestSpec(UUID, PlacementRequest(1.0, 64, cpu_policy="shared"), **OWN),
            id="nothing-special",
        ),
        pytest.param(
            asked(
                {
                    "run": True,
                    "availability_zone": "z1",
                    "host": "h1",
                    "hints": {
                        "label:disk": "ssd",
                        "label:cores": 8,
                        "image:architecture": "arm64",
                        "image:trait:D": "required",
                        "image:trait:E": "forbidden",
                        "aggregate_instance_extra_specs:ssd": True,
                        "other_scope:key": "value",
                        "unscoped": "for nobody",
                        "same_host": [A, B],
                        "different_host": f"{C}, {A}",
                        "group": "g1",
                    },
                },
                cpu=4.0,
                cpu_policy="dedicated",
                disk=7,
                runtime="kata",
                placement={
                    "numa_nodes": 2,
                    "required_traits": ["A", "B"],
                    "forbidden_traits": ["C"],
                    "any_traits": [["F", "G"], ["H"]],
                    "member_of": [["u1", "u2"]],
                },
            ),
            {"h2": "full"},
            RequestSpec(
                UUID,
                PlacementRequest(4, 64, numa_nodes=2),
                disk=7,
                availability_zone="z1",
                runtime="kata",
                labels={"disk": "ssd", "cores": "8"},
                requested_host="h1",
                tried={"h2": "full"},
                same_host=frozenset({A, B}),
                different_host=frozenset({A, C}),
                extra_specs={"aggregate_instance_extra_specs:ssd": "True", "other_scope:key": "value"},
                image_properties={"architecture": "arm64", "trait:D": "required", "trait:E": "forbidden"},
                required_traits=frozenset("ABD"),
                forbidden_traits=frozenset("CE"),
                any_traits=(frozenset("FG"), frozenset("H")),
                member_of=(frozenset({"u1", "u2"}),),
                **OWN,
            ),
            id="everything",
        ),
        pytest.param(
            asked({"hints": None}), {}, RequestSpec(UUID, PlacementRequest(1.0, 64, "shared"), **OWN), id="null-hints"
        ),
    ],
)
def test_a_request_is_what_the_container_was_accepted_with(container, tried, expected):
    assert RequestSpec.of(container, tried) == expected


@pytest.mark.parametrize(("policy", "dedicated"), [("shared", False), ("dedicated", True)])
def test_dedicated(policy, dedicated):
    assert RequestSpec.of(asked(cpu_policy=policy)).dedicated is dedicated
