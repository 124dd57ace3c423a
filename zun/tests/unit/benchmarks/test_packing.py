# SPDX-License-Identifier: Apache-2.0
"""The packing benchmark on inputs of a few lines, whose answers can be worked out by hand."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[4] / "benchmarks" / "packing.py"


@pytest.fixture(scope="module")
def packing():
    spec = importlib.util.spec_from_file_location("packing", SOURCE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["packing"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["packing"]


HOSTS = "count,cells,cpus,memory_mib,cells_per_socket,near,far\n2,2,8,8192,1,12,32\n"
REQUESTS = "vcpus,memory_mib,arrival_s,lifetime_s,numa_nodes,numa_affinity\n"


def run(packing, tmp_path, requests, *arguments):
    """The figures of the only site and its first seed."""
    (tmp_path / "hosts.csv").write_text(HOSTS)
    (tmp_path / "requests.csv").write_text(REQUESTS + requests)
    files = [f"--{name}={tmp_path / name}.csv" for name in ("hosts", "requests")]
    assert packing.main([*files, f"--json={tmp_path / 'out.json'}", "--seeds=3", *arguments]) == 0
    (result,) = json.loads((tmp_path / "out.json").read_text())
    return result["seeds"][0]


def test_spreading_breaks_the_holes_that_packing_keeps(packing):
    """Two hosts of two cells of eight CPUs: four requests for two CPUs, then three for a whole cell."""
    kinds = (packing.Kind(2, 2, 8, 8192),)
    asks = [packing.Ask(2, 1024)] * 4 + [packing.Ask(8, 2048)] * 3
    runs = {name: packing.replay(packing.policy_of(name, kinds, 1), asks) for name in packing.POLICIES}
    accepted = {name: (run.first_requests, run.first_cpus, run.refused) for name, run in runs.items()}
    assert accepted["nova-spread"] == (4, 8, 3)
    for name in ("ours", "nova-pack", "lowest-id"):
        assert accepted[name] == (7, 32, 0), name
    assert runs["nova-spread"].stranded == 24 / 32


def test_ours_accepts_most_before_the_first_refusal(packing):
    """On small clouds of two kinds of hosts; all of it decided by the seeds."""
    kinds = (packing.Kind(3, 2, 16, 57344), packing.Kind(2, 4, 16, 65536, 2))
    accepted = dict.fromkeys(packing.POLICIES, 0)
    for seed in range(9, 15):
        asks = packing.sequence(kinds, "fill", seed, None, 1.0, 0)
        for name in packing.POLICIES:
            accepted[name] += packing.replay(packing.policy_of(name, kinds, seed), asks).first_cpus
    ours = accepted.pop("ours")
    assert ours > max(accepted.values()), accepted


# Two hosts of six CPUs; two and three are asked for, then one of these.
PREFIX, CONTINUATIONS = (2, 3), {"nova-pack": (6,), "nova-spread": (4, 3)}


def after(free, cpus):
    """What is free in each host after every choice, of which to refuse is one."""
    chosen = [tuple(have - cpus * (host == at) for at, have in enumerate(free)) for host in range(len(free))]
    return [each for each in chosen if min(each) >= 0], free


def most(free, requests, *, on):
    """The most requests that can be accepted by whoever knows all of them; after a refusal too if it goes ``on``."""
    if not requests:
        return 0
    accepted, refused = after(free, requests[0])
    found = [1 + most(each, requests[1:], on=on) for each in accepted]
    return max([*found, most(refused, requests[1:], on=on) if on else 0])


@pytest.mark.parametrize("on", [False, True], ids=["before-the-first-refusal", "in-all"])
def test_no_policy_accepts_most_whatever_comes(packing, on):
    """After the prefix every choice, whatever follows it, accepts less than a real policy on one of the continuations.

    So does any policy that decides before it knows what comes, ours as well.
    """
    kinds = (packing.Kind(2, 1, 6, 65536),)

    def real(name, requests):
        run = packing.replay(packing.policy_of(name, kinds, 1), [packing.Ask(cpus, 64) for cpus in requests])
        return run.requests if on else run.first_requests

    best = {name: real(name, PREFIX + later) for name, later in CONTINUATIONS.items()}
    assert best == {"nova-pack": 3, "nova-spread": 4}

    states = [((6, 6), 0, False)]  # what is free, what is accepted, whether one was refused
    for cpus in PREFIX:
        following = []
        for free, count, refused in states:
            accepted, same = after(free, cpus)
            following += [(each, count + (on or not refused), refused) for each in accepted]
            following.append((same, count, True))
        states = following
    assert len(states) == 9, "each on one of the two or refused"
    for free, count, refused in states:
        reached = {
            name: count + (most(free, later, on=on) if on or not refused else 0)
            for name, later in CONTINUATIONS.items()
        }
        assert any(reached[name] < best[name] for name in best), (free, reached)

    for name in packing.POLICIES:
        assert any(real(name, PREFIX + later) < best[other] for other, later in CONTINUATIONS.items()), name


def test_who_is_beaten_and_what_is_promised(packing):
    """Three runs of two clouds: ours wins two of them and is beaten on one."""
    rows = [
        {name: {"first_requests": count} for name, count in zip(packing.POLICIES, counts, strict=True)}
        for counts in ((5, 4, 1, 2, 5), (6, 6, 1, 2, 3), (4, 7, 1, 2, 3))
    ]
    beaten = packing.losses(rows, "first_requests")
    assert beaten["ours"] == dict(zip((*packing.POLICIES, "anybody"), (0, 1, 0, 0, 0, 1), strict=True))
    assert beaten["lowest-id"] == dict(zip((*packing.POLICIES, "anybody"), (2, 2, 0, 0, 0, 2), strict=True))
    assert packing.broken(rows, "first_requests") == ["nova-pack accepts more in all runs together"]
    assert packing.broken(rows[:2], "first_requests") == []
    assert packing.broken(rows[2:], "first_requests") == [
        "nova-pack accepts more in all runs together",
        "nova-pack beats ours more often than ours beats it",
        "nova-pack is beaten less often",
    ]
    assert packing.ahead({"a": rows[:2], "b": rows[2:]}, "first_requests") == ["nova-pack 7.00 against 4.00 on b"]


def test_distance_is_weighed_by_cpus(packing):
    """Six and two CPUs at distance 32: of 64 pairs 24 are far."""
    kinds = (packing.Kind(1, 2, 8, 8192, 1, 12, 32),)
    asks = [packing.Ask(2, 64), packing.Ask(8, 64, numa_nodes=2), packing.Ask(1, 64)]
    run = packing.replay(packing.Peer(kinds, "lowest-id", 1), asks)
    assert run.remote == {0: (2, 10.0), 1: (8, 21.0), 2: (1, 10.0)}
    assert run.single_cell == 2 / 3
    assert run.distance == (2 * 10 + 8 * 21 + 1 * 10) / 11
    spilled = packing.replay(packing.Peer(kinds, "lowest-id", 1), [packing.Ask(10, 64, affinity="prefer")])
    assert spilled.remote == {0: (10, (68 * 10 + 32 * 32) / 100)}


@pytest.mark.parametrize("policy", ["ours", "nova-pack", "nova-spread", "random", "lowest-id"])
def test_what_ended_is_free_again(packing, policy):
    kinds = (packing.Kind(1, 1, 8, 8192),)
    asks = [packing.Ask(8, 64, float(number), 1.0) for number in range(5)]
    assert packing.replay(packing.policy_of(policy, kinds, 1), asks).requests == 5
    asks = [packing.Ask(8, 64, float(number), 1.5) for number in range(5)]
    assert packing.replay(packing.policy_of(policy, kinds, 1), asks).requests == 3


@pytest.mark.parametrize("policy", ["ours", "nova-pack", "nova-spread", "random", "lowest-id"])
@pytest.mark.parametrize(
    ("ask", "fits"),
    [((9, 64), False), ((8, 8193), False), ((8, 8192), True), ((9, 64, 0.0, None, 2), True)],
    ids=["cpus", "memory", "exactly", "two-parts"],
)
def test_feasibility_is_the_same_for_all(packing, policy, ask, fits):
    placed = packing.policy_of(policy, (packing.Kind(2, 2, 8, 8192),), 1).place(0, packing.Ask(*ask))
    assert (placed is not None) == fits


def test_a_run_from_files(packing, tmp_path, capsys):
    row = run(packing, tmp_path, "4,1024,0,,,\n" * 30, "--mix=fill")
    assert (row["seed"], row["asked"], row["asked_cpus"]) == (3, 8, 32)
    assert {row[name]["requests"] for name in packing.POLICIES} == {8}
    printed = capsys.readouterr().out
    assert "lowest-id" in printed
    assert printed.count("promise: kept") == 2


def test_what_no_host_could_hold_is_not_asked(packing, tmp_path):
    row = run(packing, tmp_path, "4,1024,0,,,\n9,1024,0,,,\n" * 3, "--mix=fill")
    assert (row["asked"], row["asked_cpus"]) == (3, 12)


def test_lifetimes_are_stretched_to_the_load(packing, tmp_path):
    requests = "".join(f"4,1024,{time},7,,\n" for time in range(101))
    kinds = packing.read_hosts(_hosts(tmp_path))
    (tmp_path / "requests.csv").write_text(REQUESTS + requests)
    asks = packing.sequence(kinds, "churn", 1, packing.read_requests(str(tmp_path / "requests.csv")), 0.5, 200)
    assert sum(ask.cpus * ask.lifetime for ask in asks) / 100 == pytest.approx(0.5 * 32)


def _hosts(tmp_path):
    (tmp_path / "hosts.csv").write_text(HOSTS)
    return str(tmp_path / "hosts.csv")


def test_built_in_requests_differ_by_seed_only(packing):
    kinds = (packing.Kind(2, 4, 16, 65536),)
    draw = [packing.sequence(kinds, "wide-fill", seed, None, 1.0, 0) for seed in (1, 1, 2)]
    assert draw[0] == draw[1] != draw[2]
    assert {ask.numa_nodes for ask in draw[0]} == {1, 2}
