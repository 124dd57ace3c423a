# SPDX-License-Identifier: Apache-2.0
"""Traits on the command line, against a real HTTP server."""

import io
import types

import pytest
from osc_lib import exceptions

from zun.osc.containers import CreateContainer, ShowContainer
from zun.osc.hosts import ListHostTraits, SetHostTraits
from zun.osc.questions import PlacementDryRun
from zun.tests.functional.osc.recorder import Asked, client, serving

CONTAINER = {"uuid": "c-1", "name": "web", "status": "Running"}
ANSWER = {"host": "h1", "uuid": "u-1", "traits": ["CUSTOM_A", "HW_CPU_X86_AVX"], "added": ["CUSTOM_A"]}
ANSWERS = {
    ("GET", "/v1/hosts/h1/traits"): (200, ANSWER),
    ("PUT", "/v1/hosts/h1/traits"): (200, ANSWER),
    ("POST", "/v1/placement/dry_run"): (200, {"placements": [], "refusal": None}),
    ("POST", "/v1/containers"): (202, CONTAINER),
    ("GET", "/v1/containers/web?all_projects=False"): (200, CONTAINER),
}


def run(command, *argv, max_version="1.44"):
    """The output of a command, and the requests that it sent."""
    with serving(ANSWERS, max_version=max_version) as server:
        app = types.SimpleNamespace(
            stdout=io.StringIO(), client_manager=types.SimpleNamespace(container=client(server))
        )
        instance = command(app, None)
        instance.run(instance.get_parser("openstack").parse_args(argv))
    return app.stdout.getvalue(), server.asked_of_v1


@pytest.mark.parametrize(
    ("command", "argv", "asked"),
    [
        (ListHostTraits, ("h1",), Asked("GET", "/v1/hosts/h1/traits", "1.44", None)),
        (SetHostTraits, ("h1",), Asked("PUT", "/v1/hosts/h1/traits", "1.44", {"traits": []})),
        (SetHostTraits, ("h1", "A", "B"), Asked("PUT", "/v1/hosts/h1/traits", "1.44", {"traits": ["A", "B"]})),
    ],
)
def test_traits_of_a_host(command, argv, asked):
    printed, sent = run(command, "-f", "csv", *argv)
    assert sent == [asked]
    assert printed.splitlines() == ['"Trait","Source"', '"CUSTOM_A","administrator"', '"HW_CPU_X86_AVX","host"']


WISH = (
    ("--required-trait", "CUSTOM_A", "--forbidden-trait", "CUSTOM_B"),
    {"required_traits": ["CUSTOM_A"], "forbidden_traits": ["CUSTOM_B"]},
)
EITHER = ("--any-trait", "CUSTOM_A,CUSTOM_B", "--member-of", "south"), {
    "any_traits": [["CUSTOM_A", "CUSTOM_B"]],
    "member_of": [["south"]],
}
IMAGE = ("--hint", "image:trait:CUSTOM_A=required"), {"hints": {"image:trait:CUSTOM_A": "required"}}


@pytest.mark.parametrize(("argv", "body"), [WISH, EITHER, IMAGE])
def test_a_wish_goes_out_at_the_version_that_knows_it(argv, body):
    _, (created,) = run(CreateContainer, *argv, "busybox")
    assert (created.method, created.version) == ("POST", "1.44")
    assert {name: created.body[name] for name in body} == body
    _, asked = run(PlacementDryRun, *argv)
    assert asked == [Asked("POST", "/v1/placement/dry_run", "1.44", body)]


def test_an_older_service_is_named_with_the_option():
    for command, more in ((CreateContainer, ("busybox",)), (PlacementDryRun, ())):
        with pytest.raises(exceptions.CommandError, match=r"1\.44 or later, and this one ends at 1\.43"):
            run(command, "--required-trait", "CUSTOM_A", *more, max_version="1.43")
    with pytest.raises(exceptions.CommandError, match="--cpu-policy, --required-trait"):
        run(CreateContainer, "--required-trait", "CUSTOM_A", "--cpu-policy", "shared", "busybox", max_version="1.43")


def test_show_asks_for_what_was_asked():
    _, (asked,) = run(ShowContainer, "web", "--traits")
    assert asked.version == "1.44"
