# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common import exceptions
from zun.db import containers, quotas
from zun.tests.unit.db.rows import CPUSET, container, node, together, values

pytestmark = pytest.mark.usefixtures("database")

DEFAULTS = {"containers": 40, "memory": 51200, "cpu": 20, "disk": 100}
UNLIMITED = dict.fromkeys(DEFAULTS, -1)


def test_the_nearest_limit_counts():
    assert quotas.limits("demo", DEFAULTS) == quotas.default_limits(DEFAULTS) == DEFAULTS
    quotas.set_class_limits("default", {"containers": 10, "cpu": 11})
    quotas.set_class_limits("gold", {"containers": 99})
    quotas.set_limits("demo", {"cpu": -1})
    assert quotas.limits("demo", DEFAULTS) == {**DEFAULTS, "containers": 10, "cpu": -1}
    assert quotas.limits("other", DEFAULTS) == {**DEFAULTS, "containers": 10, "cpu": 11}
    assert quotas.class_limits("gold", DEFAULTS) == {**DEFAULTS, "containers": 99}
    assert quotas.class_limits("silver", DEFAULTS) == DEFAULTS
    quotas.set_limits("demo", {"cpu": 5, "disk": 0})
    assert quotas.limits("demo", DEFAULTS) == {**DEFAULTS, "containers": 10, "cpu": 5, "disk": 0}
    quotas.reset("demo")
    quotas.reset("demo")
    assert quotas.limits("demo", DEFAULTS) == {**DEFAULTS, "containers": 10, "cpu": 11}


def test_usage_is_the_sum_of_the_projects_containers():
    assert quotas.usage("demo") == {"containers": 0, "memory": 0, "cpu": 0, "disk": 0}
    first = container(cpu=0.5, memory=100, disk=3)
    container(cpu=2, memory=28, status="Error")
    container(project_id="other", cpu=9)
    assert quotas.usage("demo") == {"containers": 2, "memory": 128, "cpu": 2.5, "disk": 3}
    containers.destroy(first["uuid"])
    assert quotas.usage("demo") == {"containers": 1, "memory": 28, "cpu": 2.0, "disk": 0}


# (limits, what exists, what is asked, what is too much)
CASES = [
    ({"containers": 1}, [], {}, []),
    ({"containers": 0}, [], {}, ["containers"]),
    ({"containers": 1}, [{}], {}, ["containers"]),
    ({"cpu": 3}, [{"cpu": 1.5}], {"cpu": 1.5}, []),
    ({"cpu": 3}, [{"cpu": 1.5}], {"cpu": 1.6}, ["cpu"]),
    ({"cpu": 1}, [{"cpu": 0.1}] * 9, {"cpu": 0.1}, []),
    ({"memory": 128}, [{"memory": 64}], {"memory": 64}, []),
    ({"memory": 127}, [{"memory": 64}], {"memory": 64}, ["memory"]),
    ({"disk": 0}, [{"disk": 5}], {"disk": 0}, []),
    ({"disk": 5}, [{"disk": 5}], {"disk": 1}, ["disk"]),
    ({"containers": 0, "cpu": 0}, [], {"cpu": 1}, ["containers", "cpu"]),
]


@pytest.mark.parametrize(("limits", "existing", "asked", "over"), CASES)
def test_a_container_more(limits, existing, asked, over):
    for fields in existing:
        container(**fields)
    quotas.set_limits("demo", {**UNLIMITED, **limits})
    if not over:
        containers.insert(values(**asked), DEFAULTS)
        return
    with pytest.raises(exceptions.OverQuota) as caught:
        containers.insert(values(**asked), DEFAULTS)
    assert [name for name in DEFAULTS if f"{name}: limit" in str(caught.value)] == over
    assert quotas.usage("demo")["containers"] == len(existing)


def test_other_projects_do_not_count():
    container(project_id="other", cpu=20)
    containers.insert(values(cpu=20), DEFAULTS)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"cpu": 3.0}, False),
        ({"cpu": 3.1}, True),
        ({"memory": 101}, True),
        ({"cpu": 1.0, "memory": 50}, False),
        ({"cpu": 1.0, "memory": 101}, True),
        ({"status": "Stopped"}, False),
    ],
)
def test_a_changed_size(change, refused):
    node("h1")
    row = container(cpu=2, memory=100, status="Running", host="h1", cpuset=CPUSET)
    container(cpu=1)
    quotas.set_limits("demo", {**UNLIMITED, "cpu": 4, "memory": 164})
    if refused:
        with pytest.raises(exceptions.OverQuota):
            containers.change_claim(row["uuid"], "h1", change, DEFAULTS)
        assert containers.get(row["uuid"]) == row
    else:
        containers.change_claim(row["uuid"], "h1", change, DEFAULTS)
        after = containers.get(row["uuid"])
        assert {name: after[name] for name in change} == change


def test_what_is_over_the_limit_already_may_shrink():
    node("h1")
    row = container(cpu=8, status="Running", host="h1", cpuset=CPUSET)
    containers.change_claim(row["uuid"], "h1", {"cpu": 7.0}, {**DEFAULTS, "cpu": 2})
    assert containers.get(row["uuid"])["cpu"] == 7


def test_parallel_creates_end_exactly_at_the_limit():
    def create(_number):
        made = 0
        for _ in range(10):
            try:
                containers.insert(values(), {**UNLIMITED, "containers": 50})
            except exceptions.OverQuota:
                continue
            made += 1
        return made

    made = together(20, create)
    assert sum(made) == 50
    assert quotas.usage("demo")["containers"] == 50


def test_parallel_growth_ends_exactly_at_the_limit():
    node("h1")
    rows = [container(cpu=1, status="Running", host="h1", cpuset=CPUSET) for _ in range(16)]
    limits = {**UNLIMITED, "cpu": 16 + 5}

    def grow(number):
        containers.change_claim(rows[number]["uuid"], "h1", {"cpu": 2.0}, limits)

    answers = together(len(rows), grow)
    assert [type(answer) for answer in answers if answer is not None] == [exceptions.OverQuota] * 11
    assert quotas.usage("demo")["cpu"] == 21


def test_parallel_writes_of_one_limit():
    assert together(8, lambda number: quotas.set_limits("demo", {"cpu": number, "disk": number})) == [None] * 8
    written = quotas.limits("demo", DEFAULTS)
    assert written["cpu"] in range(8) and written["disk"] in range(8)
