# SPDX-License-Identifier: Apache-2.0
"""Options of create and run beside those of placement, against a real HTTP server."""


import pytest
from osc_lib import exceptions

from zun.osc.containers import CreateContainer, RunContainer, ShowContainer
from zun.tests.functional.osc.recorder import asked_by

CONTAINER = {"uuid": "c-1", "name": "web", "status": "Running"}
ANSWERS = {
    ("POST", "/v1/containers"): (202, CONTAINER),
    ("POST", "/v1/containers?run=true"): (202, CONTAINER),
    ("GET", "/v1/containers/web?all_projects=False"): (200, CONTAINER),
}


def run(command, *argv, max_version="1.46"):
    """What was asked."""
    return asked_by(command, argv, ANSWERS, max_version)


@pytest.mark.parametrize("command", [CreateContainer, RunContainer])
def test_capabilities_go_out_at_1_46(command):
    (asked,) = run(command, "--capability", "NET_RAW", "--capability", "cap_chown", "busybox")
    assert (asked.version, asked.body["capabilities"]) == ("1.46", ["NET_RAW", "CHOWN"])


@pytest.mark.parametrize(("option", "value"), [("--movable", True), ("--no-movable", False)])
@pytest.mark.parametrize("command", [CreateContainer, RunContainer])
def test_whether_it_may_be_moved_goes_out_at_1_49(command, option, value):
    asked = asked_by(command, (option, "busybox"), ANSWERS, "1.49")[0]
    assert (asked.version, asked.body["movable"]) == ("1.49", value)


@pytest.mark.parametrize("command", [CreateContainer, RunContainer])
def test_a_value_with_commas_goes_out_whole(command):
    value = "PLAINTEXT://k:29092,HOST://localhost:9092"
    argv = ["--environment", f"LISTENERS={value}", "--label", "a=b;c,d=e", "--hint", "label:disk=ssd,x", "busybox"]
    (asked,) = run(command, *argv)
    assert asked.body["environment"] == {"LISTENERS": value}
    assert (asked.body["labels"], asked.body["hints"]) == ({"a": "b;c,d=e"}, {"label:disk": "ssd,x"})


def test_without_the_option_nothing_is_new():
    (asked,) = run(CreateContainer, "busybox")
    assert "capabilities" not in asked.body and asked.version != "1.46"


def test_an_older_service_is_named_with_the_option():
    with pytest.raises(exceptions.CommandError, match=r"--capability needs .* 1\.46 or later"):
        run(CreateContainer, "--capability", "NET_RAW", "busybox", max_version="1.45")


def test_show_asks_for_capabilities_at_1_46():
    (asked,) = run(ShowContainer, "web", "--capabilities")
    assert asked.version == "1.46"
