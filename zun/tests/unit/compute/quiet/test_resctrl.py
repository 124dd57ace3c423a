# SPDX-License-Identifier: Apache-2.0
"""Groups of resctrl, over a made file system: see ``resctrls``."""

import errno
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zun.compute.quiet.quiet import NoQuiet, QuietKernel
from zun.compute.quiet.resctrl import CacheUse, Resctrl
from zun.compute.quiet.rules import Claimed
from zun.objects.wishes import Wishes
from zun.tests.unit.compute.quiet.kernels import made, write
from zun.tests.unit.compute.quiet.resctrls import TOP, Kernel, Killed, caches, state
from zun.topology import CpuSet
from zun.topology.files import Tree
from zun.topology.resctrl_files import schemata_in

ONE, TWO, THREE = (f"6a0c4a52-0000-0000-0000-00000000000{number}" for number in (1, 2, 3))
KEPT = 0xE0000
"""The three of 20 ways that stay for everybody else."""


def claim(uuid, cpus, ways=0, percent=0, kept=""):
    return Claimed(CpuSet(cpus), Wishes(), (), uuid, CpuSet(kept), ways, percent)


@pytest.fixture
def host(tmp_path):
    caches(tmp_path)
    Kernel.mounted(tmp_path)
    return tmp_path


def resctrl(root, **options):
    kernel = Kernel(root, **options)
    return Resctrl(root, kernel), kernel


def settle(root, *claims):
    made, kernel = resctrl(root)
    return made.settle(claims), kernel.changes


def schemata(root, uuid=None):
    text = Tree(root).text(f"{TOP}/schemata" if uuid is None else f"{TOP}/zun-{uuid}/schemata")
    read = schemata_in(text)
    return [[f"{value:x}" for value in read["L3"].values()], list(read.get("MB", {}).values())]


def cpus(root, folder=""):
    return str(Tree(root).cpu_list(f"{TOP}/{folder}/cpus_list"))


def test_container_gets_ways_and_bandwidth_of_its_cache_and_gives_them_back(host):
    before = state(host)
    failed, _ = settle(host, claim(ONE, "2-3", 4, 30, kept="1"))
    assert failed == {}
    assert schemata(host, ONE) == [["f", "fffff"], [30, 100]]
    assert schemata(host) == [["ffff0", "fffff"], [70, 100]]
    assert (cpus(host, f"zun-{ONE}"), cpus(host)) == ("1-3", "0,4-7")
    assert settle(host)[0] == {}
    assert state(host) == before


def test_bandwidth_alone_shares_the_ways_of_everybody_else(host):
    settle(host, claim(ONE, "0", 0, 20), claim(TWO, "1", 6))
    assert schemata(host, ONE) == [["fffc0", "fffff"], [20, 100]]
    assert schemata(host, TWO) == [["3f", "fffff"], [80, 100]]
    assert schemata(host) == [["fffc0", "fffff"], [80, 100]]


def test_settled_groups_are_not_written_again(host):
    claims = [claim(ONE, "2-3", 4, 30), claim(TWO, "4", 0, 10), claim(THREE, "5")]
    settle(host, *claims)
    assert settle(host, *claims) == ({}, [])


def test_host_without_parts_is_left_alone(host):
    write(host, f"{TOP}/schemata", "L3:0=ff;1=fffff\nMB:0=50;1=100")  # by the operator
    settle(host, claim(ONE, "2-3"))
    assert schemata(host) == [["ff", "fffff"], [50, 100]]


def test_order_of_writes(host):
    """Everybody else leaves first and comes back last; the CPUs come when the ways are there."""
    settle(host, claim(ONE, "0", 4))
    _, changes = settle(host, claim(ONE, "0", 2), claim(TWO, "1", 8))
    group = f"{TOP}/zun-{TWO}"
    assert changes == [
        ("make", group),
        ("write", f"{TOP}/schemata", "L3:0=ffc00"),
        ("write", f"{group}/schemata", "L3:0=ffc00"),
        ("write", f"{TOP}/zun-{ONE}/schemata", "L3:0=3"),
        ("write", f"{group}/schemata", "L3:0=3fc"),
        ("write", f"{group}/cpus_list", "1"),
    ]
    _, changes = settle(host, claim(ONE, "0", 2), claim(TWO, "1", 3))
    assert changes == [("write", f"{group}/schemata", "L3:0=1c"), ("write", f"{TOP}/schemata", "L3:0=fffe0")]


def test_ways_are_counted_from_the_other_end_where_devices_write_low(tmp_path):
    caches(tmp_path)
    Kernel.mounted(tmp_path, shareable=0x3)
    settle(tmp_path, claim(ONE, "0", 4), claim(TWO, "1", 2))
    assert [schemata(tmp_path, each)[0][0] for each in (ONE, TWO, None)] == ["f0000", "c000", "3fff"]


def test_resize_packs_when_no_hole_is_large_enough(host):
    settle(host, claim(ONE, "0", 6), claim(TWO, "1", 6))
    settle(host, claim(TWO, "1", 6))
    settle(host, claim(TWO, "1", 6), claim(THREE, "2", 10))
    assert (schemata(host, TWO)[0][0], schemata(host, THREE)[0][0], schemata(host)[0][0]) == ("3f", "ffc0", "f0000")


def test_cpu_that_goes_from_one_container_to_another(host):
    settle(host, claim(ONE, "0-1", 4), claim(TWO, "2", 4))
    assert settle(host, claim(ONE, "0", 4), claim(TWO, "1-2", 4))[0] == {}
    assert [cpus(host, f"zun-{uuid}") for uuid in (ONE, TWO)] == ["0", "1-2"]


def test_cpu_that_is_offline_joins_when_it_is_back(host):
    write(host, "sys/devices/system/cpu/online", "0-2,4-7")
    assert settle(host, claim(ONE, "2-3", 4))[0] == {} and cpus(host, f"zun-{ONE}") == "2"
    write(host, "sys/devices/system/cpu/online", "0-7")
    settle(host, claim(ONE, "2-3", 4))
    assert cpus(host, f"zun-{ONE}") == "2-3"


def test_foreign_changes_are_put_right(host):
    claims = [claim(ONE, "0", 4), claim(TWO, "4", 4)]
    settle(host, *claims)
    right = state(host)
    write(host, f"{TOP}/schemata", "    L3:0=fffff;1=fffff\n    MB:0=  50;1= 100")
    write(host, f"{TOP}/zun-{ONE}/schemata", "    L3:0=3c;1=c3\n    MB:0= 100;1= 100")
    write(host, f"{TOP}/zun-{TWO}/cpus_list", "")
    assert settle(host, *claims)[0] == {}
    assert schemata(host, ONE)[0][0] == "3c"  # these are four ways of its own too
    assert state(host)["cpus_list"] == right["cpus_list"]


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        pytest.param(claim(TWO, "1", 1), "GROUP does not have 1 ways of L3 0 for itself. The kernel refused: Invalid "
                     "argument (Bits out of range or not adjacent: 400)", id="mask"),
        pytest.param(claim(TWO, "1", 12), "GROUP does not have 12 ways of L3 0 for itself", id="room"),
        pytest.param(claim(TWO, "9", 2), "the kernel divides no L3 cache of its CPUs 9", id="cache"),
    ],
)  # fmt: skip
def test_what_the_kernel_refuses_is_told_for_the_container(host, refused, why):
    settle(host, claim(ONE, "0", 10))
    failed, _ = settle(host, claim(ONE, "0", 10), refused)
    assert failed == {TWO: why.replace("GROUP", f"its group /{TOP}/zun-{TWO}")}
    assert (schemata(host, ONE)[0][0], cpus(host, f"zun-{ONE}")) == ("3ff", "0")


def test_more_parts_than_groups_are_told_for_the_container(host):
    write(host, f"{TOP}/info/L3/num_closids", "2")
    failed, _ = settle(host, claim(ONE, "0", 10), claim(TWO, "1", 2))
    assert failed == {TWO: "it has no group in /sys/fs/resctrl: No space left on device (out of CLOSIDs)"}
    assert schemata(host, ONE)[0][0] == "3ff"


def test_percentages_that_the_kernel_does_not_limit_are_told(tmp_path):
    caches(tmp_path)
    Kernel.mounted(tmp_path, bandwidth="2048")
    failed, _ = settle(tmp_path, claim(ONE, "0", 4, 20))
    assert failed == {ONE: "the kernel does not limit memory bandwidth in percent"}
    assert schemata(tmp_path)[1] == [2048, 2048]


def test_unmounted_resctrl_is_told(tmp_path):
    caches(tmp_path)
    made, _ = resctrl(tmp_path)
    assert made.settle([claim(ONE, "0", 4)]) == {ONE: "the L3 caches are not divided: /sys/fs/resctrl is not mounted"}
    assert made.settle([claim(ONE, "0")]) == {} and made.cache_use(ONE) is None


def test_quiet_tells_the_container_and_the_log(tmp_path, caplog):
    made(tmp_path)
    claims = [claim(ONE, "0", 4)]
    quiet = QuietKernel(tmp_path, tmp_path / "kept/host.json", lambda: list(claims))
    quiet.settle()
    quiet.settle(thorough=True)
    assert "is not mounted" in quiet.problem(ONE)
    assert caplog.text.count(f"Container {ONE} has no caches") == 1
    claims.clear()
    quiet.settle()
    assert quiet.problem(ONE) is None


# Monitoring


def monitored(root):
    """Return uuid -> CPUs and tasks of each monitoring group."""
    folder = root / TOP / "mon_groups"
    read = {each.name.removeprefix("zun-"): each for each in folder.iterdir()}
    return {uuid: tuple((each / file).read_text().strip() for file in ("cpus_list", "tasks"))
            for uuid, each in read.items()}  # fmt: skip


def count(root, folder, cache, **values):
    for file, value in values.items():
        write(root, f"{TOP}/{folder}/mon_data/mon_L3_0{cache}/{file}", str(value))


def test_containers_without_a_part_are_monitored_by_their_cpus(host):
    before = state(host)
    settle(host, claim(ONE, "0", 4), claim(TWO, "1-2", kept="3"))
    assert monitored(host) == {TWO: ("1-3", "")}
    settle(host, claim(TWO, "1"), claim(ONE, "2"))
    assert monitored(host) == {ONE: ("2", ""), TWO: ("1", "")}
    settle(host, claim(ONE, "2", 4))
    assert monitored(host) == {}
    settle(host)
    assert state(host) == before


def test_tasks_of_shared_containers_are_monitored(host):
    for thread in (11, 12, 13):
        (host / f"proc/{thread}").mkdir(parents=True)
    made, kernel = resctrl(host)
    made.settle([claim(ONE, "0")])
    made.monitor_tasks({TWO: [11, 12, 99], THREE: [13]})
    assert monitored(host) == {ONE: ("0", ""), TWO: ("", "11\n12"), THREE: ("", "13")}
    kernel.changes.clear()
    made.monitor_tasks({TWO: [11, 12]})
    assert monitored(host) == {ONE: ("0", ""), TWO: ("", "11\n12")}
    assert kernel.changes == [("remove", f"{TOP}/mon_groups/zun-{THREE}")]
    made.settle([])
    assert monitored(host) == {TWO: ("", "11\n12")}


def test_monitoring_leaves_numbers_for_parts_and_is_told_once(host, caplog):
    made, _ = resctrl(host)
    for _ in range(2):
        made.settle([claim(f"c{cpu}", str(cpu)) for cpu in range(8)])
    assert len(monitored(host)) == 8
    write(host, f"{TOP}/info/L3_MON/num_rmids", "10")
    made.settle([])
    for _ in range(2):
        assert made.settle([claim(f"c{cpu}", str(cpu)) for cpu in range(8)]) == {}
    assert len(monitored(host)) == 6 and caplog.text.count("cannot monitor the caches of more containers") == 1
    parts = [claim(f"c{cpu}", str(cpu), 2) for cpu in range(3)]
    assert made.settle([*parts, *(claim(f"c{cpu}", str(cpu)) for cpu in range(3, 8))]) == {}


def test_what_a_container_uses_is_summed_over_its_caches(host):
    made, _ = resctrl(host)
    made.settle([claim(ONE, "0", 4), claim(TWO, "1")])
    count(host, f"zun-{ONE}", 0, llc_occupancy=4096, mbm_total_bytes=100, mbm_local_bytes=60)
    count(host, f"zun-{ONE}", 1, llc_occupancy=1024, mbm_total_bytes="Unavailable", mbm_local_bytes="Error")
    assert made.cache_use(ONE) == CacheUse(5120, {"mon_L3_00": 100}, {"mon_L3_00": 60})
    for cache in (0, 1):
        count(host, f"mon_groups/zun-{TWO}", cache, llc_occupancy=0, mbm_total_bytes="Unassigned", mbm_local_bytes="")
    assert made.cache_use(TWO) == CacheUse(0, None, None)
    assert made.cache_use(THREE) is None


def test_host_without_counters_still_divides(tmp_path):
    caches(tmp_path)
    Kernel.mounted(tmp_path, rmids=None)
    made, _ = resctrl(tmp_path)
    assert made.settle([claim(ONE, "0", 4), claim(TWO, "1")]) == {}
    made.monitor_tasks({THREE: [1]})
    assert monitored(tmp_path) == {}


def test_nothing_is_counted_for_a_foreign_kernel():
    assert NoQuiet().monitor_tasks({ONE: [1]}) is None and NoQuiet().cache_use(ONE) is None


# Properties


@st.composite
def histories(draw):
    """Return a list of steps: the claims, which fit together, and after how many changes the agent is killed or None.
    """
    steps = []
    for _ in range(draw(st.integers(1, 4))):
        room, percent, claims, groups = {0: 17, 1: 17}, {0: 80, 1: 80}, [], 0
        free = set(range(8))
        for uuid in draw(st.permutations(["a", "b", "c", "d"])):
            own = draw(st.sets(st.sampled_from(sorted(free)), max_size=3)) if free else set()
            ways, share = draw(st.sampled_from([0, 2, 5, 8, 12])), draw(st.sampled_from([0, 10, 40]))
            on = used(own)
            if any(room[each] < ways or percent[each] < share for each in on) or groups == 3:
                ways = share = 0
            if own:
                groups += bool(ways or share)
                free -= own
                for each in on:
                    room[each] -= ways
                    percent[each] -= share
                claims.append(claim(uuid, ",".join(map(str, sorted(own))), ways, share))
        steps.append((claims, draw(st.none() | st.integers(0, 12))))
    return steps


def used(cpus):
    """Return the ids of the caches of CPUs."""
    return {cpu // 4 for cpu in cpus}


class Watch:
    """Checks before each change that nobody with CPUs shares ways of a container that has them by its claim.

    A kill in the middle of a release leaves groups whose ways everybody else has already. If one of these containers
    claims again, it shares its ways with others without a claim until the first changes, but no more of them. Two
    containers with claims never share.
    """

    def __init__(self, root):
        self.tree, self.claims, self.shared = Tree(root), [], None

    def begin(self, claims):
        """The agent settles these claims now."""
        self.claims, self.shared = claims, None

    def __call__(self):
        groups, shared = {}, set()
        for name in ["", *(name for name in self.tree.folders(TOP) if name.startswith("zun-"))]:
            if name == "" or self.tree.cpu_list(f"{TOP}/{name}/cpus_list"):
                text = self.tree.text(f"{TOP}/{name}/schemata")
                groups[name.removeprefix("zun-")] = schemata_in(text)["L3"]
        for cache in (0, 1):
            claimed = {each.uuid for each in self.claims if each.cache_ways and cache in used(each.cpus)}
            masks = {name: values[cache] for name, values in groups.items()}
            own = {name for name, mask in masks.items() if name in claimed and not mask & KEPT}
            assert masks[""] & KEPT == KEPT, masks
            for (one, first), (other, second) in combinations(masks.items(), 2):
                assert not (first & second and own >= {one, other}), (cache, masks, own)
                if first & second and own & {one, other}:
                    shared.add((cache, one, other))
        assert self.shared is None or shared <= self.shared, (shared, groups, self.claims)
        self.shared = shared


def check(root, claims):
    assert settle(root, *claims) == ({}, [])
    for each in claims:
        folder = f"zun-{each.uuid}" if each.cache_ways or each.memory_bandwidth else f"mon_groups/zun-{each.uuid}"
        assert cpus(root, folder) == str(each.cpus)
        if each.cache_ways or each.memory_bandwidth:
            masks, percent = schemata(root, each.uuid)
            for cache in used(each.cpus):
                if each.cache_ways:
                    assert int(masks[cache], 16).bit_count() == each.cache_ways
                if each.memory_bandwidth:
                    assert percent[cache] == each.memory_bandwidth


def survived(root, claims, watch, left):
    """Settle ``claims``. If the agent is killed after ``left`` changes, return False."""
    watch.begin(claims)
    try:
        assert resctrl(root, left=left, watch=watch)[0].settle(claims) == {}
    except Killed:
        return False
    check(root, claims)
    return True


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=40)
@given(histories())
def test_parts_never_overlap_and_the_tree_is_as_before_at_the_end(tmp_path_factory, steps):
    """Over claims, resizes, releases and kills. After each kill a new agent goes on with the claims of that moment."""
    root = tmp_path_factory.mktemp("resctrl")
    caches(root)
    Kernel.mounted(root)
    before, watch = state(root), Watch(root)
    for claims, left in [*steps, ([], None)]:
        survived(root, claims, watch, left)
    resctrl(root)[0].monitor_tasks({})  # the audit removes groups that a killed agent left without CPUs
    assert state(root) == before


def test_kill_at_every_change_is_survived(tmp_path_factory):
    first = [claim("a", "0-1", 6, 20), claim("b", "2", 4), claim("c", "4", 3, 10)]
    second = [claim("b", "2", 9), claim("d", "0,5", 5), claim("c", "4")]
    for left in range(40):
        root = tmp_path_factory.mktemp("resctrl")
        caches(root)
        Kernel.mounted(root)
        before, watch = state(root), Watch(root)
        settle(root, *first)
        if survived(root, second, watch, left):
            assert left > 10
            break
        assert survived(root, second, watch, None) and survived(root, [], watch, None)
        assert state(root) == before


def test_kernel_of_the_tests_refuses_what_the_real_one_refuses(host):
    kernel = Kernel(host)
    kernel.make(f"{TOP}/zun-a")
    for line in ("L3:0=0", "L3:0=5", "L3:0=1", "L3:0=100000", "L3:7=3", "MB:0=5", "MB:0=101"):
        with pytest.raises(OSError) as refused:
            kernel.write(f"{TOP}/zun-a/schemata", line)
        assert refused.value.errno == errno.EINVAL and Tree(host).text(f"{TOP}/info/last_cmd_status") != "ok"
    kernel.write(f"{TOP}/zun-a/schemata", "MB:0=11")
    assert schemata(host, "a")[1] == [20, 100]
