# SPDX-License-Identifier: Apache-2.0
"""Looks at a container: the CPUs that the kernel allows it, and the output of a command in it."""

import pathlib

from zun.topology import CpuSet


def allowed(engine, shown):
    pid = engine.inspect_container(f"zun-{shown['uuid']}")["State"]["Pid"]
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return pid, CpuSet(next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list")))


def inside(api, shown, command):
    answer = api.request("POST", f"/containers/{shown['uuid']}/execute", json={"command": f"sh -c '{command}'"}).json()
    assert answer["exit_code"] == 0, answer
    return answer["output"].strip()
