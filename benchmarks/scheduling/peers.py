# SPDX-License-Identifier: Apache-2.0
"""Run other schedulers on the same cloud and the same requests, in the same run."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

from benchmarks.scheduling import clouds

HERE = Path(__file__).parent
PEERS = {
    "nova 34": ("nova==34.0.0", HERE / "nova_peer.py"),
    "zun 18": ("zun==18.0.0", HERE / "zun_peer.py"),
}
SECONDS = 30.0
"""Seconds that each peer may spend on its requests."""


def run(hosts: list[int], count: int = 300) -> list[dict[str, Any]]:
    """Return one row a peer and size. A peer that cannot be installed or run has the reason in ``failed``."""
    rows: list[dict[str, Any]] = []
    for name, (package, program) in PEERS.items():
        for size in hosts:
            row: dict[str, Any] = {"peer": name, "hosts": size}
            try:
                row |= _measured(_python(package), program, size, count)
            except subprocess.CalledProcessError as exc:
                words = (exc.stderr or "").strip().splitlines()
                row["failed"] = words[-1] if words else f"it ended with status {exc.returncode}"
            rows.append(row)
    return rows


def _python(package: str) -> Path:
    """Return the interpreter of an environment with ``package``. The first call makes the environment."""
    folder = Path(os.environ.get("BENCHMARK_PEERS", HERE.parents[1] / ".run" / "peers")) / package
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        venv.create(folder, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "-q", package, "setuptools<81"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        (folder / "installed").touch()
    return python


def _measured(python: Path, program: Path, hosts: int, count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "cloud.json"
        source.write_text(json.dumps(_cloud(hosts, count)), encoding="utf-8")
        command = [str(python), "-W", "ignore", str(program), str(source)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _cloud(hosts: int, count: int) -> dict[str, Any]:
    """Return the cloud of ``core`` as plain JSON values, which peers can read without this project."""
    topology = clouds.machine()
    kinds = []
    for held in clouds.kinds(topology):
        cells = []
        for cell in topology.cells:
            shares = [answer.cells[cell.id] for _, answer in held if cell.id in answer.cells]
            own = [answer.cells[cell.id] for request, answer in held if request.dedicated and cell.id in answer.cells]
            cells.append(
                {
                    "cpus": [cpu for share in own for cpu in share.cpus | share.withheld],
                    "shared": round(sum(share.shared for share in shares)),
                    "memory_mib": sum(share.memory_mib for share in shares),
                }
            )
        kinds.append(cells)
    return {
        "hosts": hosts,
        "seconds": SECONDS,
        "machine": [
            {
                "id": cell.id,
                "cpus": list(cell.cpus),
                "siblings": [list(core) for core in cell.siblings],
                "memory_mib": cell.memory_mib,
            }
            for cell in topology.cells
        ],
        "kinds": kinds,
        "requests": [
            {
                "cpus": request.cpus,
                "memory_mib": request.memory_mib,
                "dedicated": request.dedicated,
                "parts": request.parts if request.dedicated else [],
                "threads": request.thread_policy,
            }
            for request in itertools.islice(clouds.requests(1), count)
        ],
    }


if __name__ == "__main__":
    print(json.dumps(_cloud(int(sys.argv[1]), int(sys.argv[2]))))
