# SPDX-License-Identifier: Apache-2.0
import threading
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.scheduler import kept_losses, weighers
from zun.scheduler.columns import Columns
from zun.scheduler.kept_losses import KeptLosses
from zun.scheduler.packing import by_rarity, kind_name
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers.stranded import SCALE, StrandedWeigher
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import busy_switching, proof
from zun.tests.unit.db.rows import together
from zun.tests.unit.scheduler.hosts import configuration, full, host, ranked, spec, used_hosts
from zun.tests.unit.scheduler.packing_oracle import stranded
from zun.tests.unit.topology.hosts import random_devices, random_topology
from zun.topology import PlacementRequest, Plan, Usage, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.devices import Device
from zun.topology.holes import holes

ONE, THREE, FOUR = (PlacementRequest(cpus, 64) for cpus in (1, 3, 4))

PACKING = ["StrandedWeigher=1000000.0", *configuration().scheduler.weighers]
WEIGHER = StrandedWeigher(configuration())


def first(hosts, wanted, settings):
    return ranked(hosts, wanted, weighers.load(settings, configuration()))[0].hostname


def weights(hosts, wanted):
    table = hosts if isinstance(hosts, Columns) else Columns(hosts)
    return WEIGHER.weigh_all(table, wanted).tolist()


@pytest.mark.parametrize(
    ("hosts", "wanted", "expected"),
    [
        pytest.param([host("a"), full("b", FOUR, ONE)], spec(1), "b", id="a-broken-cell-before-an-empty-host"),
        pytest.param([full("a", FOUR, ONE), full("b", FOUR, THREE)], spec(1), "b", id="the-tighter-of-two"),
        pytest.param([full("a", ONE), full("b", THREE, THREE)], spec(4), "a", id="where-it-fits-at-all"),
        pytest.param(
            [full("a", FOUR, PlacementRequest(1, 4000)), full("b", FOUR, ONE)],
            spec(1, 64),
            "a",
            id="cpus-whose-memory-is-gone",
        ),
        pytest.param([host("a"), full("b", FOUR, THREE)], spec(1.0, policy="shared"), "a", id="shared-ones-spread"),
    ],
)
def test_in_front_of_the_default_weighers_it_keeps_big_holes(hosts, wanted, expected):
    assert first(hosts, wanted, PACKING) == expected


@pytest.mark.parametrize(
    ("cells", "size", "counted"),
    [
        pytest.param({8: 30, 12: 10}, 12, 24.0, id="the-upper-part-of-a-rare-cell-counts-more"),
        pytest.param({8: 30, 12: 10}, 7, 7.0, id="what-every-cell-can-have-counts-once"),
        pytest.param({16: 3}, 5, 5.0, id="one-size-alone"),
        pytest.param({0: 9, 16: 3}, 16, 16.0, id="cells-with-nothing-are-none"),
        pytest.param({0: 9}, 0, 0.0, id="nothing"),
        pytest.param({}, 0, 0.0, id="no-host"),
    ],
)
def test_free_units_count_by_the_rarity_of_such_cells(cells, size, counted):
    assert by_rarity(cells).of(np.array([size])).tolist() == [counted]


def test_the_only_large_cells_are_kept():
    """Cells of 8 CPUs are rare among 40 hosts with cells of 4, and not among two hosts."""
    large = host("a", machine(cores=8, memory_mib=8192))
    ordinary = [host(f"b{number}", machine()) for number in range(40)]
    alone = weights([large, ordinary[0]], spec(3, 3000))
    many = weights([large, *ordinary], spec(3, 3000))
    assert many[0] - many[1] < alone[0] - alone[1]


def test_a_removed_host_has_no_large_cells():
    hosts = [host("a"), host("b"), host("c", machine(cores=8))]
    table = Columns(hosts)
    weights(table, spec(1))
    table.remove("c")
    assert weights(table, spec(1)) == weights(hosts[:2], spec(1))


def test_the_default_weighers_spread():
    assert first([host("a"), full("b", FOUR, ONE)], spec(1), configuration().scheduler.weighers) == "a"


def test_shared_containers_weigh_nothing():
    wanted = spec(1.0, policy="shared")
    assert weights([host("a"), full("b", THREE)], wanted) == [0.0, 0.0]
    assert WEIGHER.weigh(full("b", THREE), wanted) == 0.0


def test_a_host_without_room_comes_after_all_others():
    found = weights([full("a", THREE, THREE), host("b"), full("c", ONE)], spec(2))
    assert found[0] < min(found[1:])


def test_alone_as_among_one():
    state = full("a", THREE)
    assert WEIGHER.weigh(state, spec(1)) == pytest.approx(weights([state], spec(1))[0])


def test_what_is_usual_elsewhere_decides():
    """Whether two CPUs of four are better taken than two of three depends on what the others ask for."""
    both = [full("a", FOUR, ONE), full("b", FOUR)]
    small, large = [weights([*both, full("c", *held)], spec(2))[:2] for held in ([ONE] * 8, [FOUR] * 2)]
    assert small != large


@proof(100)
@given(states=st.lists(used_hosts(plain=True), min_size=1, max_size=4), cpus=st.integers(1, 4), data=st.data())
def test_what_is_remembered_of_the_hosts_changes_no_weight(states, cpus, data):
    """A table that saw every change gives what a new one gives."""
    hosts = [replace(state, hostname=f"h{number}") for number, state in enumerate(states)]
    table, wanted = Columns(hosts), spec(cpus, 1)
    weights(table, wanted)
    changed = data.draw(st.integers(0, len(hosts) - 1))
    answer = plan(hosts[changed].topology, hosts[changed].usage, PlacementRequest(1, 1))
    usage = hosts[changed].usage.with_claim("new", answer) if isinstance(answer, Plan) else hosts[changed].usage
    hosts[changed] = replace(hosts[changed], usage=usage.without("c0"))
    table.put(hosts[changed])
    assert weights(table, wanted) == weights(hosts, wanted)
    table.remove(hosts[0].hostname)
    assert weights(table, wanted) == weights(hosts[1:], wanted)


@proof(60)
@given(random=st.randoms(use_true_random=False), steps=st.integers(1, 12))
def test_kept_losses_equal_fresh_ones(random, steps):
    """Claims, releases and changes of machines between requests of several kinds, some for devices."""
    wishes = [
        PlacementRequest(1, 1), PlacementRequest(3, 7), PlacementRequest(4, 2, numa_nodes=2), gpus(1), gpus(2, cpus=2),
        PlacementRequest(5, 4, numa_affinity="prefer"), PlacementRequest(2, 0, numa_nodes=2, numa_affinity="none"),
    ]

    def any_machine():
        made = machine(cells=random.randint(1, 3), cores=random.randint(1, 4), memory_mib=random.choice((16, 200)))
        return replace(made, devices=with_gpus(random.choice((0, 0, 2, 3))).devices[: 2 * len(made.cells)])

    hosts = {name: host(name, any_machine()) for name in ("a", "b", "c", "d")}
    table = Columns(hosts.values())
    for number in range(steps):
        for _ in range(random.randint(0, 3)):
            name, wish = random.choice(sorted(hosts)), random.choice(wishes)
            state = hosts[name]
            answer = plan(state.topology, state.usage, wish)
            kind = random.random()
            if kind < 0.1:
                state = host(name, any_machine())
            elif kind < 0.4 and state.usage.owners:
                state = replace(state, usage=state.usage.without(random.choice(state.usage.owners)))
            elif isinstance(answer, Plan):
                state = replace(state, usage=state.usage.with_claim(f"u{number}-{len(state.usage.owners)}", answer))
            hosts[name] = state
            table.put(state)
        wanted = RequestSpec("u", random.choice(wishes))
        assert weights(table, wanted) == weights(list(hosts.values()), wanted)


def test_kinds_that_are_no_longer_usual_give_way_to_new_ones():
    """Each kind of containers is usual for a while. More of them than a table keeps are seen in all."""
    table, asked = Columns([host("a", machine(cores=64, memory_mib=100_000)), host("b")]), spec(1, 2)
    for size in range(1, 3 * kept_losses.KINDS):
        state = full("a", *[PlacementRequest(1, size)] * 9, topology=machine(cores=64, memory_mib=100_000))
        table.put(state)
        assert weights(table, asked) == weights([state, host("b")], asked)


def test_memory_of_kept_losses_is_bounded(monkeypatch):
    """With room for two kinds of requests, the one that was asked for longest ago is dropped. No weight changes."""
    hosts = [host("a"), full("b", THREE)]
    table = Columns(hosts)
    weights(table, spec(1))
    kept = KeptLosses.of(table)
    monkeypatch.setattr(kept_losses, "KEPT_BYTES", 2 * kept.bytes)
    for cpus in (1, 2, 1, 3, 4, 1, 2):
        assert weights(table, spec(cpus)) == weights(hosts, spec(cpus))
        assert kept.bytes <= kept_losses.KEPT_BYTES


def empty_cells(hosts):
    return [hole for each in hosts for hole in holes(each.topology, Usage())]


REQUESTS = st.builds(
    lambda cpus, mib, nodes, affinity: PlacementRequest(
        max(cpus, nodes), mib, numa_nodes=nodes, numa_affinity=affinity
    ),
    st.integers(1, 9),
    st.integers(0, 20),
    st.integers(1, 3),
    st.sampled_from(("require", "require", "prefer", "none")),
)
UNEQUAL = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), min_size=2, max_size=3).map(
    lambda parts: PlacementRequest(
        sum(cpus for cpus, _ in parts),
        sum(mib for _, mib in parts),
        numa_nodes=len(parts),
        numa_cpus=tuple(cpus for cpus, _ in parts),
        numa_mem=tuple(mib for _, mib in parts),
    )
)


@proof(80)
@given(random=st.randoms(use_true_random=False), requests=st.lists(REQUESTS | UNEQUAL, min_size=1, max_size=6))
def test_all_hosts_at_once_weigh_as_the_oracle(random, requests):
    """Odd machines that hold some of the requests, weighed for the last."""
    hosts = []
    for number in range(random.randint(1, 5)):
        topology = random_topology(random, most_cpus=12)
        usage = Usage()
        for owner in range(random.randint(0, 4)):
            answer = plan(topology, usage, random.choice(requests))
            usage = usage.with_claim(str(owner), answer) if isinstance(answer, Plan) else usage
        hosts.append(host(f"h{number}", topology, usage=usage))
    table = Columns(hosts)
    wanted = RequestSpec("u", requests[-1])
    demand, cloud = table.demand(requests[-1]), empty_cells(hosts)
    found = [stranded(each.topology, each.room.cells, requests[-1], demand, cloud=cloud) for each in hosts]
    expected = [0.0 if loss is None else 1 / (1 + loss / SCALE) for loss in found]
    together = WEIGHER.weigh_all(table, wanted).tolist()
    assert together == pytest.approx(expected, abs=1e-7)
    assert [weight > 0 for weight in together] == [weight > 0 for weight in expected]


def with_gpus(count, cores=4):
    """A host of two cells with GPUs on both."""
    return replace(machine(cores=cores), devices=tuple(
        Device(f"0000:0{number}:00.0", vendor_id="10de", cell=number % 2) for number in range(count)
    ))


def gpus(count, cpus=1):
    return PlacementRequest(cpus, 64, devices=(DeviceRequest("gpu", count, (DeviceMatch("10de"),)),))


@pytest.mark.parametrize(
    ("hosts", "wanted", "expected"),
    [
        pytest.param(
            [("a", with_gpus(4), ()), ("b", with_gpus(4), (gpus(1),))], gpus(1), "b", id="a-broken-group-of-gpus-first"
        ),
        pytest.param(
            [("a", with_gpus(4), ()), ("b", with_gpus(2), ())], gpus(1), "b", id="large-groups-stay-whole"
        ),
        pytest.param([("a", with_gpus(2), ()), ("b", with_gpus(0), ())], ONE, "b", id="cpus-beside-gpus-stay-free"),
        pytest.param([("a", with_gpus(0), ()), ("b", with_gpus(1), ())], gpus(1), "b", id="where-there-is-one"),
    ],
)
def test_gpus_are_not_stranded(hosts, wanted, expected):
    """A third host holds containers with four GPUs, so these are usual."""
    made = [full(name, *held, topology=topology) for name, topology, held in hosts]
    busy = full("z", gpus(4), PlacementRequest(1, 64), topology=with_gpus(4, cores=1))
    wanted = RequestSpec("u", wanted)
    order = ranked([*made, busy], wanted, weighers.load(PACKING, configuration()))
    assert order[0].hostname == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(gpus(1), "b", id="one-cpu"),
        pytest.param(gpus(1, cpus=3), "b", id="most-cpus-of-a-small-cell"),
        pytest.param(gpus(1, cpus=8), "a", id="where-it-fits-at-all"),
    ],
)
def test_large_cells_are_kept_when_gpus_run_out(wanted, expected):
    """Host a has the only cells of 8 CPUs. Most other GPUs of the cloud are held, with half of the CPUs."""
    large, ordinary = host("a", with_gpus(2, cores=8)), host("b", with_gpus(2))
    busy = [full(f"z{number}", gpus(1, 2), gpus(1, 2), topology=with_gpus(2)) for number in range(20)]
    order = ranked([large, ordinary, *busy], RequestSpec("u", wanted), weighers.load(PACKING, configuration()))
    assert order[0].hostname == expected


@proof(80)
@given(random=st.randoms(use_true_random=False), requests=st.lists(REQUESTS | UNEQUAL, min_size=1, max_size=6))
def test_hosts_with_devices_weigh_as_the_oracle(random, requests):
    """Odd machines with devices that hold some of the requests, weighed for the last."""
    requests = [
        replace(each, devices=tuple(
            DeviceRequest(
                name, random.randint(0, 3), (DeviceMatch(random.choice(("10de", "8086"))),),
                numa_policy=random.choice(("required", "preferred")), traits=random.choice(((), (), ("FAST",))),
            )
            for name in random.choice((("a",), ("a", "b"), ()))
        ))
        for each in requests
    ]
    hosts = []
    for number in range(random.randint(1, 5)):
        topology = random_topology(random, most_cpus=12)
        if random.random() < 0.8:
            topology = replace(topology, devices=random_devices(random, topology))
        usage = Usage()
        for owner in range(random.randint(0, 4)):
            answer = plan(topology, usage, random.choice(requests))
            usage = usage.with_claim(str(owner), answer) if isinstance(answer, Plan) else usage
        hosts.append(host(f"h{number}", topology, usage=usage))
    table = Columns(hosts)
    wanted = RequestSpec("u", requests[-1])
    demand = table.demand(requests[-1])
    expected = []
    for each in hosts:
        free = Counter(map(kind_name, each.usage.free_devices(each.topology)))
        loss = stranded(each.topology, each.room.cells, requests[-1], demand, free, empty_cells(hosts))
        expected.append(0.0 if loss is None else 1 / (1 + loss / SCALE))
    found = WEIGHER.weigh_all(table, wanted).tolist()
    assert found == pytest.approx(expected, abs=1e-7)


def test_a_host_without_devices_weighs_as_the_oracle():
    """Also for a request without devices, where others of the cloud have some."""
    busy = full("z", gpus(1), PlacementRequest(1, 64), topology=with_gpus(4))
    plain = full("a", PlacementRequest(1, 64), topology=replace(with_gpus(4), devices=()))
    table = Columns([plain, busy])
    request = PlacementRequest(1, 64, cpu_policy="dedicated")
    cloud = empty_cells([plain, busy])
    loss = stranded(plain.topology, plain.room.cells, request, table.demand(request), Counter(), cloud)
    assert WEIGHER.weigh_all(table, RequestSpec("u", request)).tolist()[0] == pytest.approx(1 / (1 + loss / SCALE))


def test_a_changed_machine_is_noticed():
    state = host("a", machine(cores=1))
    table = Columns([state])
    weights(table, spec(2))
    hosts = [replace(state, topology=machine()), host("b")]
    for each in hosts:
        table.put(each)
    assert weights(table, spec(2)) == weights(hosts, spec(2))


def test_threads_share_it_while_it_meets_new_machines():
    """A create and a dry run have tables of their own, and one weigher."""
    weigher, known = StrandedWeigher(configuration()), Columns([host("a"), full("b", THREE)])
    met = [host(f"h{number}", machine(memory_mib=1000 + number)) for number in range(1200)]
    weigher.weigh_all(Columns(met[:600]), spec(2))
    ended = threading.Event()

    def weigh(thread):
        if thread:
            for start in range(600, len(met), 20):
                weigher.weigh_all(Columns(met[start : start + 20]), spec(2))
            ended.set()
            return None
        while not ended.is_set():
            assert weigher.weigh_all(known, spec(2)).tolist() == weights(known, spec(2))
        return None

    with busy_switching():
        assert together(2, weigh) == [None, None]
