# SPDX-License-Identifier: Apache-2.0
import re
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zun.scheduler import filters, weighers
from zun.scheduler.explain import NEAREST_MISS_HOSTS, Rejection
from zun.scheduler.host_state import Aggregate
from zun.scheduler.select import Choice, NoValidHost, select
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import ALL_FILTERS, UP, configuration, full, host, placements, spec, used_hosts
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan, plan

FILTERS = filters.load([name for name in ALL_FILTERS if name != "ComputeFilter"], configuration())
WEIGHERS = weighers.load(["FreeCPUWeigher", "FreeRAMWeigher"], configuration())


def selected(hosts, wanted, count=3):
    return select(hosts, wanted, FILTERS, WEIGHERS, count)


def message(hosts, wanted):
    answer = selected(hosts, wanted)
    assert isinstance(answer, NoValidHost)
    return answer.explanation.message


def dedicated(cpus, memory=64):
    return PlacementRequest(cpus, memory)


# who is chosen


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
def test_select_returns_requested_number_of_hosts_best_first(count):
    """Fewer hosts are returned if fewer can hold the request."""
    hosts = [full(f"h{held}", *[dedicated(1)] * held) for held in (3, 0, 6, 2, 7)]
    answer = selected(hosts, spec(2), count)
    # h7 has one CPU left; h6 has two, but on two cells of which one is full.
    assert [choice.hostname for choice in answer] == ["h0", "h2", "h3", "h6"][:count]


def test_choice_carries_limits_of_filters_and_an_exact_plan():
    ratios = {"cpu_allocation_ratio": "0.5", "ram_allocation_ratio": "0.25"}
    state = full("h1", dedicated(1, 100), generation=4, aggregates=(Aggregate("u", "name", ratios),))
    wanted = spec(2, 64, policy="shared")
    (choice,) = selected([state], wanted)
    answer = plan(state.topology, state.usage, wanted.placement)
    expected = {"cpu_allocation_ratio": "1/2", "ram_allocation_ratio": "1/4"}
    assert choice == Choice("h1", {**expected, "cpuset": replace(answer, generation=4).to_dict()})
    assert state.usage.fits(state.topology, Plan.from_dict(choice.limits["cpuset"])) is None


@pytest.mark.parametrize(
    ("subset", "drawn", "expected"),
    [
        (1, [0, 0, 0], "abc"),
        (2, [1, 1, 1], "bcd"),
        (3, [2, 0, 1], "cad"),
        (3, [0, 0, 0], "abc"),
        (9, [3, 2, 1], "dcb"),
    ],
)
def test_each_host_is_drawn_among_the_best(subset, drawn, expected):
    hosts = [full(name, *[dedicated(1)] * held) for held, name in enumerate("abcd")]
    asked = []

    def draw(count):
        asked.append(count)
        return drawn[len(asked) - 1]

    answer = select(hosts, spec(1), FILTERS, WEIGHERS, 3, subset=subset, draw=draw)
    assert "".join(choice.hostname for choice in answer) == expected
    assert all(count <= subset for count in asked)


def test_filter_without_fast_form_checks_only_remaining_hosts():
    asked = []

    class Odd(filters.HostFilter):
        def reject(self, state, wanted):
            asked.append(state.hostname)
            return "its name is not odd" if state.hostname in ("b", "d") else None

    hosts = [host("a"), host("b"), host("c", runtimes=()), host("d")]
    chosen = select(hosts, spec(1, runtime="runc"), [Odd(configuration()), *FILTERS], WEIGHERS, 4)
    assert [choice.hostname for choice in chosen] == ["a"]
    assert asked == ["a", "b", "d"]
    none = select(hosts[1:], spec(1, runtime="runc"), [Odd(configuration()), *FILTERS], WEIGHERS, 4)
    assert [each.filter for each in none.rejections] == ["Odd", "RuntimeFilter", "Odd"]


def exactly(cpus, cell):
    return Plan({cell: CellShare(cpus=CpuSet(cpus))})


def test_host_with_better_weight_loses_without_an_exact_plan():
    scattered = full("a", exactly("0-2", 0), exactly("4-6", 1))
    small = host("b", machine(cells=1, cores=2))
    assert len(scattered.topology.dedicated_cpus - scattered.usage.held_cpus) == 2
    answer = selected([scattered, small], spec(2))
    assert [choice.hostname for choice in answer] == ["b"]


@proof(80)
@given(
    hosts=st.lists(used_hosts(), min_size=1, max_size=4),
    wanted=placements(),
    count=st.integers(1, 4),
)
def test_what_is_chosen_fits_and_what_is_not_has_a_reason(hosts, wanted, count):
    hosts = [replace(each, hostname=f"h{number}") for number, each in enumerate(hosts)]
    asked = replace(spec(), placement=wanted)
    able = {each.hostname for each in hosts if isinstance(plan(each.topology, each.usage, wanted), Plan)}
    answer = selected(hosts, asked, count)
    if isinstance(answer, NoValidHost):
        assert able == set()
        assert sorted(rejection.hostname for rejection in answer.rejections) == sorted(each.hostname for each in hosts)
        return
    names = [choice.hostname for choice in answer]
    assert len(names) == len(set(names)) == min(count, len(able)) and set(names) <= able
    by_name = {each.hostname: each for each in hosts}
    for choice in answer:
        state = by_name[choice.hostname]
        assert state.usage.fits(state.topology, Plan.from_dict(choice.limits["cpuset"])) is None


# what is said when nobody can

DOWN = {**UP, "forced_down": True}
COMPUTE = filters.load(["ComputeFilter"], configuration())


@pytest.mark.parametrize(
    ("hosts", "wanted", "expected"),
    [
        pytest.param(
            [], spec(2), "No valid host was found: no compute host has registered yet.", id="there-is-no-host"
        ),
        pytest.param(
            [host("a"), host("b")],
            spec(2, availability_zone="gpu"),
            "No valid host was found. Of 2 hosts, AvailabilityZoneFilter rejected 2. "
            "Most common reason: it is in zone nova, not gpu.",
            id="another-zone",
        ),
        pytest.param(
            [host("a")],
            spec(6),
            "No valid host was found. Of 1 host, CpuSetFilter rejected 1. Nearest miss: no cell has 6 CPUs free: "
            "best is cell 0 with 4. A request for 4 CPUs and 64 MiB would fit now.",
            id="too-large-for-a-cell",
        ),
        pytest.param(
            [host("a"), full("b", *[dedicated(1)] * 4), host("c", runtimes=())],
            spec(9, runtime="runc"),
            "No valid host was found. Of 3 hosts, CPUFilter rejected 2, RuntimeFilter rejected 1. Nearest miss: "
            "no cell has 9 CPUs free: best is cell 0 with 4. A request for 4 CPUs and 64 MiB would fit now.",
            id="of-several-misses-the-nearest",
        ),
        pytest.param(
            [full("a", dedicated(1, 4000)), full("b", dedicated(1, 4000), dedicated(1, 4090))],
            spec(1, 4097),
            "No valid host was found. Of 2 hosts, CpuSetFilter rejected 1, RamFilter rejected 1. Nearest miss: "
            "no cell has 4097 MiB free: best is cell 1 with 4096. A request for 1 CPU and 4096 MiB would fit now.",
            id="too-much-memory",
        ),
        pytest.param(
            [host("a", disk_used=95)],
            spec(1, disk=6),
            "No valid host was found. Of 1 host, DiskFilter rejected 1. "
            "Nearest miss: a host has the CPUs and the memory, but not the disk.",
            id="only-the-disk-is-short",
        ),
        pytest.param(
            [host("a", aggregates=(Aggregate("u", "n", {"ram_allocation_ratio": "0.5"}),))],
            spec(1, 4097, "shared"),
            "No valid host was found. Of 1 host, RamFilter rejected 1. Nearest miss: all cells together have 4096 MiB "
            "free: 4097 are wanted. A request for 1 CPU and 4096 MiB would fit now.",
            id="only-the-ratio-of-an-aggregate-is-short",
        ),
        pytest.param(
            [full("a", *[dedicated(1)] * 8)],
            spec(1),
            "No valid host was found. Of 1 host, CPUFilter rejected 1. "
            "Nearest miss: no cell has 1 CPU free: best is cell 0 with 0.",
            id="nothing-like-it-would-fit",
        ),
    ],
)
def test_message_counts_rejections_and_names_the_nearest_miss(hosts, wanted, expected):
    """The message also gives the most common reason, or a request that would fit."""
    assert message(hosts, wanted) == expected


def test_every_host_that_dropped_out_leaves_a_reason():
    hosts = [host("a", runtimes=()), host("b", availability_zone="gpu"), full("c", *[dedicated(3)] * 2)]
    answer = selected(hosts, spec(2, runtime="runc", availability_zone="nova"))
    assert answer.rejections == (
        Rejection("a", "RuntimeFilter", "it has no runtime runc"),
        Rejection("b", "AvailabilityZoneFilter", "it is in zone gpu, not nova"),
        Rejection("c", "CpuSetFilter", "no cell has 2 CPUs free: best is cell 0 with 1"),
    )


SECRET = "rack7-u12.example.org"


@pytest.mark.parametrize(
    ("hosts", "wanted"),
    [
        pytest.param([host(SECRET)], spec(9), id="full"),
        pytest.param([host(SECRET)], spec(9, 9999), id="full-of-everything"),
        pytest.param([host(SECRET, disk_total=0)], spec(1, disk=1), id="no-disk"),
        pytest.param([host(SECRET, runtimes=())], spec(1, runtime="kata"), id="no-runtime"),
        pytest.param([host(SECRET)], spec(1, labels={"disk": "ssd"}), id="no-label"),
        pytest.param([host(SECRET)], spec(1, availability_zone="gpu"), id="another-zone"),
        pytest.param([host(SECRET)], spec(1, requested_host="h9"), id="another-host-was-asked-for"),
        pytest.param(
            [host(SECRET, runtimes=()), host("b"), host("c")],
            spec(1, runtime="runc", requested_host=SECRET),
            id="the-host-of-its-volume-has-no-place",
        ),
        pytest.param([host(SECRET, enable_cpu_pinning=False)], spec(1), id="no-pinning"),
        pytest.param(
            [host(SECRET)],
            spec(1, tried={SECRET: "no cell has 1 CPU free"}),
            id="it-refused-before",
        ),
    ],
)
def test_no_host_is_named_to_the_user(hosts, wanted):
    assert SECRET not in message(hosts, wanted)


def test_a_host_that_takes_no_dedicated_ones_is_no_miss_by_disk():
    told = message([host("a", enable_cpu_pinning=False)], spec(1))
    assert "disk" not in told
    assert "takes no dedicated containers" in told


def test_a_host_that_takes_no_dedicated_ones_is_no_near_miss():
    """It has room for 4 CPUs, and would refuse them as well."""
    told = message([host("a", enable_cpu_pinning=False), full("b", *[dedicated(3)] * 2)], spec(5))
    assert "A request for 1 CPU and 64 MiB would fit now." in told


def test_the_nearest_miss_has_the_disk_as_well():
    """The larger host has the CPUs, but neither host has what is asked for, and only one has the disk."""
    without_disk = host("a", disk_total=0)
    told = message([without_disk, full("b", dedicated(2), dedicated(4))], spec(5, disk=10))
    assert "A request for 2 CPUs and 64 MiB would fit now." in told


NEAR = re.compile(r"A request for ([\d.e+]+) CPUs? and (\d+) MiB(?: on (\d+) cells?)? would fit now")


def stated(told, asked):
    """The request that the text says would fit, when it names amounts only: every condition is as it was asked for."""
    found = NEAR.search(told)
    if found is None:
        return None
    cpus, memory, nodes = found.groups()
    amounts = {"cpus": float(cpus), "memory_mib": int(memory), "numa_nodes": int(nodes or 1)}
    return replace(asked, placement=replace(asked.placement, **amounts))


@proof(120)
@given(hosts=st.lists(used_hosts(), min_size=1, max_size=3), wanted=placements())
def test_the_stated_request_truly_fits_now(hosts, wanted):
    hosts = [replace(each, hostname=f"h{number}") for number, each in enumerate(hosts)]
    asked = replace(spec(), placement=wanted)
    answer = selected(hosts, asked)
    assume(isinstance(answer, NoValidHost))
    nearest = stated(answer.explanation.message, asked)
    assume(nearest is not None)
    assert nearest != asked
    assert isinstance(selected(hosts, nearest), list)


@pytest.mark.parametrize(
    ("state", "wanted", "condition"),
    [
        pytest.param(host(), spec(2, placement={"thread_policy": "require"}), "thread", id="threads"),
        pytest.param(host(), spec(2, placement={"page_size": 2048}), "page", id="pages"),
        pytest.param(full("h1", *[dedicated(3)] * 2), spec(2), "cells", id="more-cells"),
        pytest.param(
            full("h1", *[dedicated(1)] * 3, *[dedicated(3)]), spec(3, 9), "cells", id="any-cells"
        ),
    ],
)
def test_what_would_fit_on_other_conditions_says_on_which(state, wanted, condition):
    """'A request for 2 CPUs and 64 MiB would fit' is no help to who asked for 2 CPUs and 64 MiB."""
    told = message([state], wanted)
    assert "would fit now" in told
    nearest = stated(told, wanted)
    assert condition in told.partition("A request for")[2] or isinstance(selected([state], nearest), list)


@pytest.mark.parametrize(
    ("state", "placement", "amounts", "parts"),
    [
        pytest.param(full("h1", dedicated(3)), {"numa_cpus": (5, 1)}, (5, 64), "4 + 1 CPUs", id="cpus"),
        pytest.param(
            full("h1", dedicated(1, 4080), topology=machine(cores=5)),
            {"numa_cpus": (5, 1), "numa_mem": (34, 30)},
            (6, 50),
            "34 + 16 MiB",
            id="memory",
        ),
    ],
)
def test_what_would_fit_says_how_it_is_parted(state, placement, amounts, parts):
    """Evenly it would not fit."""
    told = message([state], spec(6, placement=placement))
    cpus, memory = amounts
    assert f"A request for {cpus} CPUs and {memory} MiB on 2 cells with {parts} would fit now." in told
    assert isinstance(selected([state], spec(cpus, memory, placement={"numa_nodes": 2})), NoValidHost)


def test_only_so_many_hosts_are_asked_what_would_have_fitted():
    hosts = [full(f"h{number:04}", *[dedicated(1)] * 8) for number in range(NEAREST_MISS_HOSTS)]
    assert "best is cell 0 with 0" in message([*hosts, host("z")], spec(5))
    assert "best is cell 0 with 4" in message([*hosts[1:], host("z")], spec(5))
