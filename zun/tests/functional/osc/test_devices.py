# SPDX-License-Identifier: Apache-2.0
"""Devices on the command line, against a real HTTP server."""


import pytest
from osc_lib import exceptions

from zun.osc.containers import CreateContainer, RunContainer, ShowContainer
from zun.osc.questions import PlacementDryRun
from zun.tests.functional.osc.recorder import Asked, asked_by

CONTAINER = {"uuid": "c-1", "name": "web", "status": "Running"}
ANSWERS = {
    ("POST", "/v1/placement/dry_run"): (200, {"placements": [], "refusal": None}),
    ("POST", "/v1/containers"): (202, CONTAINER),
    ("POST", "/v1/containers?run=true"): (202, CONTAINER),
    ("GET", "/v1/containers/web?all_projects=False"): (200, CONTAINER),
}


def run(command, *argv, max_version="1.45"):
    """The requests that the command sent."""
    return asked_by(command, argv, ANSWERS, max_version)


@pytest.mark.parametrize(
    ("argv", "body"),
    [
        (("--device", "gpu"), {"devices": [{"alias": "gpu", "count": 1}]}),
        (
            ("--device", "gpu=2", "--device", "nic=1", "--device-numa-policy", "required", "--device-same", "switch"),
            {
                "devices": [{"alias": "gpu", "count": 2}, {"alias": "nic", "count": 1}],
                "device_numa_policy": "required",
                "device_same": "switch",
            },
        ),
        (
            ("--device", "class:CUSTOM_GPU=2,CUSTOM_A,CUSTOM_B"),
            {"devices": [{"resource_class": "CUSTOM_GPU", "count": 2, "traits": ["CUSTOM_A", "CUSTOM_B"]}]},
        ),
        (("--hint", "image:pci_passthrough:alias=gpu:2"), {"hints": {"image:pci_passthrough:alias": "gpu:2"}}),
    ],
)
def test_devices_go_out_at_1_45(argv, body):
    for command in (CreateContainer, RunContainer):
        (created,) = run(command, *argv, "busybox")
        assert (created.method, created.version) == ("POST", "1.45")
        assert {name: created.body[name] for name in body} == body
    assert run(PlacementDryRun, *argv) == [Asked("POST", "/v1/placement/dry_run", "1.45", body)]


def test_linked_devices_go_out_at_1_47():
    argv = ("--device", "gpu=4", "--device-same", "link")
    body = {"devices": [{"alias": "gpu", "count": 4}], "device_same": "link"}
    assert run(PlacementDryRun, *argv, max_version="1.47") == [Asked("POST", "/v1/placement/dry_run", "1.47", body)]
    with pytest.raises(exceptions.CommandError, match=r"--device, --device-same needs .* 1\.47 or later"):
        run(CreateContainer, *argv, "busybox", max_version="1.46")


@pytest.mark.parametrize("text", ["", "=2", "gpu=", "gpu=0", "gpu=two", "gpu=2,"])
def test_malformed_devices_end_with_usage(text, capsys):
    with pytest.raises(SystemExit):
        run(CreateContainer, "--device", text, "busybox")
    assert "--device" in capsys.readouterr().err


def test_an_older_service_is_named_with_the_option():
    with pytest.raises(exceptions.CommandError, match=r"--device, --device-same needs .* 1\.45 or later"):
        run(CreateContainer, "--device", "gpu", "--device-same", "cell", "busybox", max_version="1.44")


def test_show_asks_for_devices_at_1_45():
    (asked,) = run(ShowContainer, "web", "--devices")
    assert asked.version == "1.45"
