# SPDX-License-Identifier: Apache-2.0
"""Speed and memory of the scheduler.

    python benchmarks/scheduler.py [--json FILE] [--part NAME ...] [--hosts N ...] [--count N] [--curves FILE.png]
        [--database URL] [--against COMMIT [--rounds N]]

Parts: ``core`` is the decision alone on one core (CPU time); ``packing`` compares decisions of the weighers that pack
and of those that spread, made in turns; ``memory`` is what the table of hosts takes; ``service``
is the way from the cast of a create to the claim committed by a compute service, over RabbitMQ and MariaDB (the URLs
are in ZUN_TEST_RABBIT_URL and ZUN_TEST_MYSQL_URL: ``eval "$(tools/services.sh env)"``); ``peers`` are the schedulers of
Nova and of the Zun that is on PyPI, installed into a virtual environment (BENCHMARK_PEERS, kept for the next run);
``huge`` runs only if it is named: a cloud of 100,000 hosts and 2 million containers, from the start of a scheduler to
its decisions, in SQLite or in the empty database ``--database URL``; so do ``sets``, sets of containers beside single
ones on the ground of ``service``, ``packed``, many requests that choose the same hosts, and ``burst``, ten sets at once
with every service in one process.
``--against`` runs the service part of another commit and of this tree in turns, and prints the ratios of what both
measure. ``memory`` takes the largest number of ``--hosts``; ``--count`` is of decisions (3000) or claims (1500).
``--curves`` draws how the figures grow, with matplotlib (benchmarks/requirements.txt).
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)  # before anything imports oslo.messaging

from benchmarks.scheduling import core, curves, huge, peers, service, sets  # noqa: E402

CORE_GOALS = {1000: "5000/s, p99 500 us", 10000: "2000/s, p99 1000 us"}
MEMORY_GOALS = {10000: "150"}
SERVICE_GOALS = {1000: "250/s, p99 60 ms"}
SETS_GOALS = {
    "sets of 16 on one host": "8 x",
    "sets of 16 over 16 hosts": "2 x",
    "burst of 10 sets of 100": "600/s",
}
PARTS = ("core", "packing", "memory", "service", "peers")
HUGE = 100_000
HUGE_GOALS = {"start_seconds": "90", "rss_growth_mib": "1024", "p99_us": "3000"}


def run_core(hosts: list[int], folder: str, decisions: int) -> list[dict[str, Any]]:
    print(f"\n{'hosts':>6} {'decisions/s':>12} {'p50 us':>8} {'p99 us':>8}   goal")
    rows = []
    for count in hosts:
        table, _ = core.loaded(folder, count, 2, 32, 0.3)
        row = {"hosts": count, **core.decisions(table, decisions)}
        rows.append(row)
        goal = CORE_GOALS.get(count, "")
        print(f"{count:>6} {row['per_second']:>12.0f} {row['p50_us']:>8.0f} {row['p99_us']:>8.0f}   {goal}")
    return rows


def run_packing(hosts: list[int], folder: str, decisions: int) -> list[dict[str, Any]]:
    print(f"\n{'hosts':>6} {'spreading/s':>12} {'packing/s':>10} {'ratio':>6}   goal")
    rows = []
    for count in hosts:
        folders = [tempfile.mkdtemp(dir=folder) for _ in range(2)]
        tables = [core.loaded(each, count, 2, 32, 0.3)[0] for each in folders]
        row = {"hosts": count, **core.compared(tables, decisions)}
        rows.append(row)
        made = [row[each]["per_second"] for each in ("spreading", "packing")]
        print(f"{count:>6} {made[0]:>12.0f} {made[1]:>10.0f} {row['ratio']:>6.2f}   0.9")
    return rows


def run_memory(hosts: int, folder: str) -> list[dict[str, Any]]:
    print(f"\n{'hosts':>6} {'machine':>12} {'pinned':>7} {'containers':>11} {'read in s':>10} {'MiB more':>9}   goal")
    rows = []
    for pinned in (0.0, 0.3):
        _, found = core.loaded(folder, hosts, 8, 64, pinned)
        rows.append({"hosts": hosts, "pinned": pinned, **found})
        print(
            f"{hosts:>6} {'8 x 64 CPUs':>12} {pinned:>7.0%} {found['containers']:>11} "
            f"{found['load_seconds']:>10.1f} {found['rss_growth_mib']:>9.0f}   {MEMORY_GOALS.get(hosts, '')}"
        )
    return rows


def run_service(hosts: list[int], claims: int, conductor: bool) -> list[dict[str, Any]]:
    mysql, rabbit = _urls()
    print(f"\n{'hosts':>6} {'claims/s':>9} {'p99 ms':>7} {'at 70 %':>8} {'p50 ms':>7} {'p99 ms':>7}   goal")
    rows = []
    for count in hosts:
        row = service.run(mysql, rabbit, count, claims, conductor)
        closed, opened = row["closed"], row["open"]
        rows.append(row)
        print(
            f"{count:>6} {closed['per_second']:>9.0f} {closed['p99_ms']:>7.0f} {opened['per_second']:>8.0f} "
            f"{opened['p50_ms']:>7.1f} {opened['p99_ms']:>7.1f}   {SERVICE_GOALS.get(count, '')}"
        )
        print("       CPU time of a request: " + ", ".join(f"{k} {v:.1f} ms" for k, v in closed["cpu_ms"].items()))
        burst = row["burst"]
        print(
            f"       {burst['containers']} containers for one host: {burst['single_cpu_ms']:.1f} ms each in single "
            f"messages, {burst['together_cpu_ms']:.1f} ms each in one message"
        )
    return rows


def run_sets(hosts: int, claims: int) -> list[dict[str, Any]]:
    rows = sets.run(*_urls(), hosts, claims)
    single = rows[0]["per_second"]
    print(f"\n{'what':>28} {'claims/s':>9} {'ratio':>6} {'CPU ms':>7}   goal")
    for row in rows:
        spent = sum(row["cpu_ms"].values())
        ratio = row["per_second"] / single
        goal = SETS_GOALS.get(row["what"], "")
        print(f"{row['what']:>28} {row['per_second']:>9.0f} {ratio:>6.1f} {spent:>7.2f}   {goal}")
        print("       CPU time of a claim: " + ", ".join(f"{k} {v:.2f} ms" for k, v in row["cpu_ms"].items()))
    return rows


def run_packed(claims: int) -> list[dict[str, Any]]:
    rows = service.packed(*_urls(), claims)
    print(f"\n{'at once':>8} {'claims/s':>9} {'p99 ms':>7} {'CPU ms':>7}")
    for row in rows:
        spent = row["cpu_ms"]
        print(f"{row['in_flight']:>8} {row['per_second']:>9.0f} {row['p99_ms']:>7.0f} {sum(spent.values()):>7.2f}")
        print("       CPU time of a claim: " + ", ".join(f"{k} {v:.2f} ms" for k, v in spent.items()))
    return rows


def run_burst(folder: str, claims: int) -> dict[str, Any]:
    row = sets.in_process(folder, 10, claims // 10)
    spent = row["cpu_ms"]["process"]
    head = f"burst of 10 sets, {claims} containers, one process"
    print(f"\n{head}: {row['per_second']:.0f} claims/s, CPU {spent:.2f} ms a claim   goal 1000/s")
    return row


def run_against(commit: str, hosts: list[int], claims: int, conductor: bool, rounds: int) -> dict[str, Any]:
    """Run the service part of ``commit`` and of this tree in turns, and print the ratios of what both measure."""
    root = Path(__file__).resolve().parents[1]
    figures: dict[str, list[dict[str, float]]] = {"old": [], "new": []}
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "-C", root, "archive", commit], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], check=True, input=packed)
        trees = {"old": Path(folder), "new": root}
        for number in range(rounds):
            for name in ("old", "new") if number % 2 == 0 else ("new", "old"):
                figures[name].append(_measured(trees[name], hosts, claims, conductor))
            print(f"round {number + 1} of {rounds} is done", flush=True)
    print(f"\nThis tree against {commit}, {rounds} rounds in turns")
    print(f"{'':>32} {'old':>9} {'new':>9} {'new/old':>8}   ratios of the rounds")
    ratios = {}
    for key in [each for each in figures["new"][0] if all(each in row for row in figures["old"])]:
        pairs = [(old[key], new[key]) for old, new in zip(figures["old"], figures["new"], strict=True)]
        each = [new / old for old, new in pairs if old]
        if not each:
            continue
        ratios[key] = statistics.median(each)
        old, new = (statistics.median(values) for values in zip(*pairs, strict=True))
        print(f"{key:>32} {old:>9.1f} {new:>9.1f} {ratios[key]:>8.2f}   {' '.join(f'{one:.2f}' for one in each)}")
    return {"commit": commit, "figures": figures, "ratios": ratios}


def _measured(tree: Path, hosts: list[int], claims: int, conductor: bool) -> dict[str, float]:
    """Return the figures of the service part of another tree, by name."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "benchmarks/scheduler.py", "--part", "service", "--count", str(claims)]
        command += ["--json", file.name, "--hosts", *map(str, hosts), *(["--conductor"] if conductor else [])]
        # Programs of the tree import their own modules, not those that are installed.
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        subprocess.run(command, cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL)
        rows = json.loads(Path(file.name).read_text(encoding="utf-8"))["service"]
    found: dict[str, float] = {}
    for row in rows:
        at, closed = f"{row['hosts']} hosts", row["closed"]
        found[f"{at}: claims/s"] = closed["per_second"]
        found |= {f"{at}: {name} ms": spent for name, spent in closed["cpu_ms"].items()}
        found[f"{at}: CPU ms in all"] = sum(closed["cpu_ms"].values())
        found |= {f"{at}: {name}": spent for name, spent in row.get("burst", {}).items() if name != "containers"}
    return found


def run_peers(hosts: list[int]) -> list[dict[str, Any]]:
    print(f"\n{'scheduler':>12} {'hosts':>6} {'decisions/s':>12} {'p50 ms':>8} {'p99 ms':>8}")
    rows = peers.run(hosts)
    for row in rows:
        if "per_second" in row:
            figures = f"{row['per_second']:>12.1f} {row['p50_us'] / 1000:>8.1f} {row['p99_us'] / 1000:>8.1f}"
            print(f"{row['peer']:>12} {row['hosts']:>6} {figures}")
        else:
            print(f"{row['peer']:>12} {row['hosts']:>6} {row['failed']}")
    return rows


def run_huge(hosts: int, url: str, decisions: int) -> dict[str, Any]:
    containers = huge.fill(url, hosts)
    found = {"hosts": hosts, "containers": containers, **huge.measure(url, decisions)}
    goals = HUGE_GOALS if hosts == HUGE else {}
    print(f"\n{hosts} hosts, {containers} containers")
    for name, words in (
        ("start_seconds", "s until a scheduler has read them"),
        ("start_cpu", "s of CPU time for that"),
        ("rss_growth_mib", "MiB that the table takes"),
        ("compare_cpu", "s of CPU time to compare all hosts, each with a new heartbeat"),
    ):
        print(f"{found[name]:>9.1f} {words}" + (f"   goal {goals[name]}" if name in goals else ""))
    print(f"\n{'schedulers':>10} {'decisions/s':>12} {'p50 us':>8} {'p99 us':>8}   goal")
    for count, row in found["decisions"].items():
        figures = f"{row['per_second']:>12.0f} {row['p50_us']:>8.0f} {row['p99_us']:>8.0f}"
        print(f"{count:>10} {figures}   {goals.get('p99_us', '')}")
    return found


def run_curves(target: Path, folder: str) -> dict[str, Any]:
    sizes = (100, 300, 1000, 3000, 10000)
    by_hosts = [{"hosts": n, **core.decisions(core.loaded(folder, n, 2, 32, 0.3)[0], 1000)} for n in sizes]
    found: dict[str, Any] = {"by_hosts": by_hosts}
    if os.environ.get("ZUN_TEST_MYSQL_URL"):
        found["by_in_flight"] = service.in_flight(*_urls(), 1000, (1, 2, 4, 8, 16, 32, 64))
    curves.draw(target, found)
    return found


def _urls() -> tuple[str, str]:
    try:
        return os.environ["ZUN_TEST_MYSQL_URL"], os.environ["ZUN_TEST_RABBIT_URL"]
    except KeyError as exc:
        raise SystemExit(f"{exc} is not set: start the services and use 'tools/services.sh env'") from None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", action="append", choices=(*PARTS, "huge", "sets", "packed", "burst"))
    parser.add_argument("--hosts", type=int, nargs="+", help="1000 and 10000, and for huge 100000")
    parser.add_argument("--count", type=int)
    parser.add_argument("--conductor", action="store_true", help="service: hosts reach the database through one")
    parser.add_argument("--against", metavar="COMMIT", help="service: run that commit's in turns, and print ratios")
    parser.add_argument("--rounds", type=int, default=3, help="of --against")
    parser.add_argument("--curves", type=Path)
    parser.add_argument("--database", help="huge: URL of an empty database")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    parts = options.part or ([] if options.curves or options.against else PARTS)
    hosts = options.hosts or [1000, 10000]
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if "core" in parts:
            results["core"] = run_core(hosts, folder, options.count or 3000)
        if "packing" in parts:
            results["packing"] = run_packing(hosts, folder, options.count or 3000)
        if "memory" in parts:
            results["memory"] = run_memory(max(hosts), folder)
        if options.against:
            claims = options.count or 1500
            against = run_against(options.against, hosts, claims, options.conductor, options.rounds)
            results["against"] = against
        elif "service" in parts:
            results["service"] = run_service(hosts, options.count or 1500, options.conductor)
        if "sets" in parts:
            results["sets"] = run_sets(options.hosts[0], options.count or 960)
        if "packed" in parts:
            results["packed"] = run_packed(options.count or 400)
        if "burst" in parts:
            results["burst"] = run_burst(folder, options.count or 1000)
        if "peers" in parts:
            results["peers"] = run_peers(hosts)
        if "huge" in parts:
            url = options.database or f"sqlite:///{folder}/huge.sqlite"
            results["huge"] = run_huge(max(options.hosts or [HUGE]), url, options.count or 2000)
        if options.curves:
            results["curves"] = run_curves(options.curves, folder)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
