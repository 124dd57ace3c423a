# SPDX-License-Identifier: Apache-2.0
"""The process list of a container, from the API's side to the host's."""

import pytest

from zun.common import exceptions
from zun.tests.functional.cloud import cloud_of, machine

cloud = cloud_of({"host-1": machine()})


def test_columns_and_processes_are_selected(cloud, context):
    container = cloud.run(context, command=["sleep", "9"])
    shown = cloud.compute_api.top(context, container)
    assert shown["Titles"] == ["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"]
    (pid,) = [row[1] for row in shown["Processes"]]
    columns = {"Titles": ["COMMAND", "PID"], "Processes": [["sleep 9", pid]]}
    assert cloud.compute_api.top(context, container, "-o args,pid") == columns
    assert cloud.compute_api.top(context, container, f"{pid} 1")["Processes"] == shown["Processes"]
    assert cloud.compute_api.top(context, container, "1")["Processes"] == []


def test_a_host_checks_what_its_api_lets_through(cloud, context):
    """An API of an older release passes options of ps on."""
    container = cloud.run(context)
    with pytest.raises(exceptions.InvalidValue, match="ps_args: 'uid=PID' is not a column"):
        cloud.compute_api.top(context, container, "-eouid=PID -oargs f e ww")
