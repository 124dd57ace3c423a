# SPDX-License-Identifier: Apache-2.0
import decimal
import json

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oslo_utils import timeutils

from zun.common import exceptions
from zun.db import compute_nodes, containers, models, quotas, session
from zun.tests.unit.db.rows import CPUSET, clear, container, group, node, together, values, written

pytestmark = pytest.mark.usefixtures("database")

DEFAULTS = {"containers": 40, "memory": 51200, "cpu": 20, "disk": 100}
NOTHING = dict.fromkeys(quotas.RESOURCES, 0)
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
    quotas.set_limits("other", {"cpu": 7})
    quotas.reset("demo")
    quotas.reset("demo")
    assert quotas.limits("demo", DEFAULTS) == {**DEFAULTS, "containers": 10, "cpu": 11}
    assert quotas.limits("other", DEFAULTS) == {**DEFAULTS, "containers": 10, "cpu": 7}


def test_usage_is_the_sum_of_the_projects_containers():
    assert quotas.usage("demo") == NOTHING
    first = container(cpu=0.5, memory=100, disk=3)
    container(cpu=2, memory=28, status="Error")
    container(project_id="other", cpu=9)
    assert quotas.usage("demo") == {**NOTHING, "containers": 2, "memory": 128, "cpu": 2.5, "disk": 3}
    containers.destroy(first["uuid"])
    assert quotas.usage("demo") == {**NOTHING, "containers": 1, "memory": 28, "cpu": 2.0}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cpus=st.lists(st.decimals("0.000001", 64, places=6), min_size=1, max_size=25))
def test_usage_of_cpus_is_written_exactly(cpus):
    clear()
    for each in cpus:
        container(cpu=float(each), host="h1", cpuset=CPUSET)
    used = (quotas.usage("demo")["cpu"], compute_nodes.usage()["h1"].cpu)
    assert [decimal.Decimal(json.dumps(each)) for each in used] == [sum(cpus)] * 2


def test_a_refusal_writes_numbers_in_full():
    container(memory=1_048_576, cpu=0.3)
    quotas.set_limits("demo", {"memory": 1_048_600, "cpu": 1})
    with pytest.raises(exceptions.OverQuota, match="limit 1048600, in use 1048576, asked for 100 more") as memory:
        quotas.check("demo", {"memory": 100}, DEFAULTS)
    assert "e+" not in str(memory.value)
    with pytest.raises(exceptions.OverQuota, match=r"limit 1, in use 0\.3, asked for 0\.8 more"):
        quotas.check("demo", {"cpu": 0.9 - 0.1}, DEFAULTS)


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
    assert quotas.usage("demo")["cpu"] == 20


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


SIZES = {"cpu": st.sampled_from([0.1, 0.5, 1.0, 2.0]), "memory": st.integers(1, 8), "disk": st.integers(0, 2)}
LIMITS = st.fixed_dictionaries({name: st.integers(-1, 8) for name in DEFAULTS})
STEPS = st.one_of(
    st.tuples(st.just("create"), st.fixed_dictionaries(SIZES)),
    st.tuples(st.just("create"), st.fixed_dictionaries(SIZES)),
    st.tuples(st.just("create unasked"), st.fixed_dictionaries(SIZES)),
    st.tuples(st.just("resize"), st.fixed_dictionaries({"cpu": SIZES["cpu"], "memory": SIZES["memory"]})),
    st.tuples(st.just("default disk"), st.integers(1, 2)),
    st.tuples(st.just("delete"), st.none()),
    st.tuples(st.just("limit"), LIMITS),
    st.tuples(st.just("default limit"), LIMITS),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=25), pick=st.randoms(use_true_random=False))
def test_what_fits_is_let_through_and_nothing_else(database, steps, pick):
    """The answer is always that of the sum over the containers, and the ceiling is never below the sum."""
    clear()
    node("h1")
    limits, defaults, sizes = dict.fromkeys(DEFAULTS, 8), DEFAULTS, {}

    def total(name):
        return len(sizes) if name == "containers" else sum(each[name] for each in sizes.values())

    def tried(growth, change, *arguments):
        """Return the result of ``change``, or None if it is refused, and check that the result is right."""
        fits = all(
            more <= 0 or limits[name] < 0 or round(total(name) + more, 6) <= limits[name]
            for name, more in growth.items()
        )
        try:
            found = change(*arguments, defaults)
        except exceptions.OverQuota:
            assert not fits, (growth, limits)
            return None
        assert fits, (growth, limits)
        return found

    quotas.set_limits("demo", limits)
    for step, given_ in steps:
        uuid = pick.choice(sorted(sizes)) if sizes else None
        if step == "create":
            row = tried({"containers": 1, **given_}, containers.insert, values(**given_, host="h1", cpuset=CPUSET))
            if row is not None:
                sizes[row["uuid"]] = given_
        elif step == "create unasked":
            sizes[container(**given_)["uuid"]] = given_
        elif step == "limit":
            quotas.set_limits("demo", given_)
            limits = given_
        elif step == "default limit":
            quotas.reset("demo")
            limits = defaults = given_
        elif uuid is not None and step == "resize":
            growth = {name: size - sizes[uuid][name] for name, size in given_.items()}
            if tried(growth, containers.change_claim, uuid, "h1", given_) is not None:
                sizes[uuid] = {**sizes[uuid], **given_}
        elif uuid is not None and step == "default disk":
            sizes[uuid] = {**sizes[uuid], "disk": sizes[uuid]["disk"] + given_}
            containers.claim(uuid, "h1", {"disk": sizes[uuid]["disk"]}, added_disk=("demo", given_))
        elif uuid is not None:
            containers.destroy(uuid)
            del sizes[uuid]
        with session.reader() as connection:
            ceiling = session.first(connection, sa.select(models.quota_locks)) or {}
        used = quotas.usage("demo")
        for name in DEFAULTS:
            assert used[name] == pytest.approx(total(name))
            assert ceiling.get(name) is None or ceiling[name] >= used[name] - 1e-6


def sums(statements):
    return [statement for statement in statements if "count(" in statement or "sum(" in statement]


def test_a_disk_that_a_claim_adds_is_counted_whatever_the_limit():
    node("h1")
    limits = {**UNLIMITED, "disk": 25}
    rows = [containers.insert(values(), limits) for _ in range(3)]
    for row in rows:
        containers.claim(row["uuid"], "h1", {"cpuset": CPUSET, "disk": 10}, added_disk=("demo", 10))
    assert quotas.usage("demo")["disk"] == 30
    containers.insert(values(), limits)
    with pytest.raises(exceptions.OverQuota, match="disk: limit 25, in use 30"):
        containers.insert(values(disk=1), limits)
    containers.destroy(rows[0]["uuid"])
    containers.insert(values(disk=5), limits)


def test_a_disk_that_a_claim_adds_is_one_statement_and_no_sum():
    node("h1")
    containers.insert(values(disk=1), DEFAULTS)  # counts
    plain, given_one = (containers.insert(values(), DEFAULTS)["uuid"] for _ in range(2))
    with written() as without:
        containers.claim(plain, "h1", {"cpuset": CPUSET}, added_disk=("demo", 0))
    with written() as with_it:
        containers.claim(given_one, "h1", {"cpuset": CPUSET, "disk": 10}, added_disk=("demo", 10))
    assert not any("quota" in statement for statement in without)
    (more,) = [statement for statement in with_it if "quota" in statement]
    assert more.startswith("UPDATE quota_locks") and len(with_it) == len(without) + 1
    with written() as afterwards:
        containers.insert(values(disk=1), DEFAULTS)
    assert not sums(afterwards)


def test_a_claim_that_is_refused_adds_no_disk():
    row = containers.insert(values(disk=1), DEFAULTS)
    containers.destroy(row["uuid"])
    with pytest.raises(exceptions.ContainerNotFound):
        containers.claim(row["uuid"], "h1", {"cpuset": CPUSET, "disk": 10}, added_disk=("demo", 10))
    with session.reader() as connection:
        assert connection.execute(sa.select(models.quota_locks.c.disk)).scalar() == 1


def test_concurrent_claims_and_creates_in_a_group_count_all_disk():
    node("h1")
    team = group("affinity")["uuid"]
    limits = {**UNLIMITED, "disk": 1000}
    rows = [containers.insert(values(group_uuid=team), limits) for _ in range(8)]

    def work(number):
        if number % 2:
            return containers.insert(values(group_uuid=team, disk=1), limits)["disk"]
        changed = {"cpuset": CPUSET, "disk": 10}
        uuid = rows[number // 2]["uuid"]
        return containers.claim(uuid, "h1", changed, group_uuid=team, added_disk=("demo", 10)).event_id

    assert together(16, work) == [None, 1] * 8
    with session.reader() as connection:
        assert connection.execute(sa.select(models.quota_locks.c.disk)).scalar() == 88
    assert quotas.usage("demo")["disk"] == 88


def test_many_containers_are_not_added_up_while_there_is_room(database):
    """A create costs the same however many there are: sums are for what comes near a limit."""
    limits = {**UNLIMITED, "containers": 8, "memory": 1000, "cpu": 20}
    with written() as statements:
        rows = [containers.insert(values(), limits) for _ in range(8)]
        assert len(sums(statements)) == 1  # of the first: nobody had counted before
        with pytest.raises(exceptions.OverQuota):
            containers.insert(values(), limits)
        assert len(sums(statements)) == 2
        for row in rows[:3]:
            containers.destroy(row["uuid"])
        for _ in range(3):
            containers.insert(values(), limits)
        assert len(sums(statements)) == 3  # the next, which found room for three


def test_a_limit_that_is_written_has_the_containers_counted_anew(database):
    containers.insert(values(), DEFAULTS)
    with session.writer() as connection:
        connection.execute(models.containers.insert().values(**values(cpu=19), created_at=timeutils.utcnow()))
    quotas.set_limits("demo", {"memory": -1})
    with pytest.raises(exceptions.OverQuota, match="in use 20,"):
        containers.insert(values(), DEFAULTS)
