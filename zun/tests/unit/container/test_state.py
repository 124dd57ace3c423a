# SPDX-License-Identifier: Apache-2.0
from datetime import datetime
from typing import Any

import pytest

from zun.common.states import Status
from zun.container.docker.state import runtime_state
from zun.container.driver.state import OUT_OF_MEMORY, RuntimeState

NEVER = "0001-01-01T00:00:00Z"
EARLIER, LATER = "2026-11-21T01:33:00.007937515Z", "2026-11-21T03:33:01.77724582+01:00"


def inspected(**state: Any) -> dict[str, Any]:
    return {
        "Id": "abc",
        "State": {"StartedAt": NEVER, "FinishedAt": NEVER, "ExitCode": 0, "Error": "", "Pid": 0, **state},
        "HostConfig": {"CpusetCpus": "0-1", "CpusetMems": "0"},
    }


RAN = {"StartedAt": EARLIER, "FinishedAt": LATER}


@pytest.mark.parametrize(
    ("state", "current", "expected"),
    [
        pytest.param({"Status": "exited", "Error": "oops", **RAN}, Status.RUNNING, Status.STOPPED, id="error-exited"),
        pytest.param({"Status": "removing", "Error": "oops"}, Status.RUNNING, Status.STOPPED, id="error-removing"),
        pytest.param({"Status": "created", "Error": "oops"}, Status.ERROR, Status.CREATED, id="error-created"),
        pytest.param({"Status": "dead", "Error": "oops"}, Status.ERROR, Status.DEAD, id="error-dead"),
        pytest.param({"Status": "odd", "Error": "oops"}, Status.RUNNING, None, id="error-unknown-word"),
        pytest.param({"Paused": True, "Running": True}, Status.RUNNING, Status.PAUSED, id="paused-before-running"),
        pytest.param({"Restarting": True, "Running": True}, None, Status.RESTARTING, id="restarting-first"),
        pytest.param({"Running": True, "StartedAt": EARLIER}, Status.STOPPED, Status.RUNNING, id="running"),
        pytest.param({"Dead": True}, Status.STOPPED, Status.DEAD, id="dead"),
        pytest.param({"Status": "created"}, Status.CREATING, Status.CREATED, id="created-from-creating"),
        pytest.param({"Status": "created"}, Status.CREATED, None, id="created-keeps-created"),
        pytest.param({"Status": "created"}, Status.RESTARTING, None, id="created-keeps-restarting"),
        pytest.param({"Status": "created"}, Status.ERROR, None, id="created-keeps-error"),
        pytest.param({"Status": "created"}, Status.REBUILDING, None, id="created-keeps-rebuilding"),
        pytest.param({"Status": "created"}, "Creating", Status.CREATED, id="status-as-text"),
        pytest.param({"Status": "created"}, None, None, id="created-row-unknown"),
        pytest.param({"Status": "exited", "StartedAt": EARLIER}, Status.RUNNING, Status.UNKNOWN, id="no-end"),
        pytest.param({"Status": "exited", **RAN}, Status.RUNNING, Status.STOPPED, id="stopped"),
        pytest.param({"Status": "removing", **RAN}, Status.RUNNING, None, id="removing-keeps-what-it-was"),
        pytest.param({"Status": "removing", "Dead": True, **RAN}, Status.RUNNING, None, id="removing-and-dead"),
    ],
)
def test_status(state: dict[str, Any], current: Status | None, expected: Status | None) -> None:
    assert runtime_state(inspected(**state), current).status is expected


def test_whole_state_of_a_stopped_one() -> None:
    assert runtime_state(inspected(Status="exited", ExitCode=137, **RAN), Status.RUNNING) == RuntimeState(
        container_id="abc",
        status=Status.STOPPED,
        exit_code=137,
        started_at=datetime(2026, 11, 21, 1, 33, 0, 7937),
        finished_at=datetime(2026, 11, 21, 2, 33, 1, 777245),
        error=None,
        pid=0,
        cpuset_cpus="0-1",
        cpuset_mems="0",
        addresses={},
    )


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"OOMKilled": True, "ExitCode": 137}, OUT_OF_MEMORY),
        ({"OOMKilled": True, "ExitCode": 0}, None),  # one of its processes, and it lived on
        ({"OOMKilled": False, "ExitCode": 137}, None),
    ],
)
def test_out_of_memory_is_a_reason(state: dict[str, Any], expected: str | None) -> None:
    found = runtime_state(inspected(Status="exited", **state, **RAN), Status.RUNNING)
    assert (found.status, found.error) == (Status.STOPPED, expected)


def test_addresses_are_those_of_docker_s_own_networks() -> None:
    networks = {
        "bridge": {"IPAddress": "172.17.0.2", "GlobalIPv6Address": "fd00::2"},
        "by-hand": {"IPAddress": "172.18.0.2", "GlobalIPv6Address": ""},
        "none": {"IPAddress": "", "GlobalIPv6Address": ""},
        "zun-8a5f1c9e-0d3b-4e6f-9a7c-2b1d4e6f8a90": {"IPAddress": "10.1.0.2", "GlobalIPv6Address": ""},
        "zun-default-8a5f1c9e0d3b": {"IPAddress": "10.240.0.2", "GlobalIPv6Address": ""},
    }
    state = runtime_state(
        {**inspected(Running=True, Pid=42), "Config": {"Hostname": "web"}, "NetworkSettings": {"Networks": networks}},
        Status.RUNNING,
    )
    assert state.hostname == "web"
    assert state.addresses == {
        "bridge": ("172.17.0.2", "fd00::2"),
        "by-hand": ("172.18.0.2",),
        "default": ("10.240.0.2",),
    }


def test_running_again_forgets_the_end_before() -> None:
    state = runtime_state(inspected(Running=True, Pid=42, ExitCode=1, **RAN), Status.RUNNING)
    assert (state.pid, state.exit_code, state.finished_at) == (42, None, None)


def test_failed_start_has_a_code_and_a_reason() -> None:
    state = runtime_state(inspected(Status="created", Error="no such program", ExitCode=127), Status.ERROR)
    assert (state.exit_code, state.error, state.never_started) == (127, "no such program", True)


@pytest.mark.parametrize("state", [None, {}])
def test_no_state_is_unknown_with_a_reason(state: dict[str, Any] | None) -> None:
    found = runtime_state({"Id": "abc", "State": state}, Status.RUNNING)
    assert found.status is Status.UNKNOWN
    assert found.error
    assert (found.cpuset_cpus, found.pid) == ("", 0)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, (None, None, None)),
        ({"CpuShares": 0, "CpuQuota": 0, "Memory": 0}, (None, None, None)),
        ({"CpuShares": 1536, "CpuQuota": -1, "CpuPeriod": 100_000, "Memory": 64 << 20}, (1.5, None, 64)),
        ({"CpuShares": 1536, "NanoCpus": 500_000_000}, (0.5, 0.5, None)),
        ({"CpuShares": 1024, "CpuQuota": 250_000, "CpuPeriod": 100_000}, (2.5, 2.5, None)),
    ],
)
def test_limits(config: dict[str, Any], expected: tuple[float | None, float | None, int | None]) -> None:
    found = runtime_state({**inspected(), "HostConfig": config}, None)
    assert (found.cpu, found.cap, found.memory) == expected
