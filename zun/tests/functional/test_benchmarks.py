# SPDX-License-Identifier: Apache-2.0
"""The benchmarks that need no services still run. They are tried with tiny sizes, and no time is looked at."""

from benchmarks.scheduling import clouds
from zun.db import containers, migration
from zun.tests.benchmark import run


def test_plan(tmp_path):
    (row,) = run("plan", tmp_path / "json", "--seconds", "0.01", "--only", "a shared container")
    assert row["median"] > 0


def test_packing(tmp_path):
    cloud = tmp_path / "hosts.csv"
    cloud.write_text("count,cells,cpus,memory_mib\n2,2,8,4096\n")
    options = ("--hosts", str(cloud), "--seeds", "1-1", "--mix", "fill", "churn", "--count", "30")
    rows = run("packing", tmp_path / "json", *options)
    assert [row["mix"] for row in rows] == ["fill", "churn"]
    assert all(seed["ours"]["requests"] > 0 for row in rows for seed in row["seeds"])
    for seed in rows[1]["seeds"]:
        assert 0 < seed["ours"]["cpu_seconds"] <= seed["asked_cpu_seconds"] + 1e-5  # rounded


def test_packing_of_gpus(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n3500,8192,1,400,\n32000,65536,8,1000,A\n")
    options = ("--gpu", "--gpu-trace", str(trace), "--gpu-hosts", "8", "--seeds", "1-1")
    rows = run("packing", tmp_path / "json", *options)
    assert [row["cells"] for row in rows] == [2, 4]
    assert all(0 < row["ours"]["gpus"] <= row["asked_gpus"] for row in rows)


def test_scheduler(tmp_path):
    parts = ("--part", "core", "--part", "memory")
    found = run("scheduler", tmp_path / "json", *parts, "--hosts", "8", "--count", "50")
    (core,) = found["core"]
    assert core["hosts"] == 8
    assert core["per_second"] > 0
    assert core["without_host"] < 50
    assert [(row["pinned"], row["containers"] > 0) for row in found["memory"]] == [(0.0, True), (0.3, True)]


def test_scheduler_of_a_huge_cloud(tmp_path):
    found = run("scheduler", tmp_path / "json", "--part", "huge", "--hosts", "16", "--count", "20")["huge"]
    assert found["hosts"] == 16 and found["containers"] > 160
    assert all(row["per_second"] > 0 and row["without_host"] < 20 for row in found["decisions"].values())


def test_scheduler_of_a_burst(tmp_path):
    found = run("scheduler", tmp_path / "json", "--part", "burst", "--count", "20")["burst"]
    assert found["claimed"] == 20 and found["per_second"] > 0


def test_copied_hosts_hold_what_the_first_ones_hold(database):
    names = [f"host-{number}" for number in range(5)]
    count = clouds.fill(names, clouds.machine(), different=2)
    held = {name: [row["cpuset"] for row in containers.claims([name])] for name in names}
    assert held["host-0"] == held["host-2"] == held["host-4"] != held["host-1"] == held["host-3"]
    assert count == sum(map(len, held.values())) == len({row["uuid"] for row in containers.claims()})


def test_api(tmp_path):
    # Nine of ten containers are of the project whose page of 1000 is read.
    options = ("--database", "sqlite", "--rows", "1120", "--times", "3", "--minutes", "0")
    rows = run("api", tmp_path / "json", *options)
    assert rows


def test_open_pages(tmp_path):
    options = ("--pages", "6", "--seconds", "2", "--change-every", "1", "--hosts", "2", "--on-each", "2")
    found = run("open_pages", tmp_path / "json", *options)
    assert found["open_pages"]["statuses"].keys() <= {"200", "304"} and found["share"] > 0


def test_costs(tmp_path):
    rows = run("costs", tmp_path / "json", "--step", "400", "--limit", "1e9")
    assert len(rows) > 15 and all(row["status"] != 500 for row in rows)


def test_footprint(tmp_path):
    found = run("footprint", tmp_path / "json", "--runs", "1", "--settle", "0", "--fake")
    assert found.keys() == {"python alone", "zun-allinone"}
    assert all(figures["idle_mib"]["median"] > 0 for figures in found.values())


def test_migrations(tmp_path):
    found = run("migrations", tmp_path / "json", "--containers", "20", f"sqlite:///{tmp_path}/zun.sqlite")
    last = found["databases"]["sqlite"][-1]
    assert last["revision"] == migration.head()
    assert last["seconds"] > 0
