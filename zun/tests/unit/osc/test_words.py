# SPDX-License-Identifier: Apache-2.0
"""The client knows the service's words by itself, as loading the service would take longer than most commands do. Here
they are held together.
"""

import types

import pytest

from zun.api import microversion
from zun.common import states
from zun.common.groups import Policy
from zun.compute.audit.audit_rules import Verdict
from zun.osc import containers, groups, hosts, versions, waiting
from zun.topology import CPUPolicy, Isolation, MemPolicy, NUMAAffinity, ThreadPolicy

APP = types.SimpleNamespace(client_manager=None, options=None, stdout=None)


def choices(command, option):
    (action,) = [each for each in command(APP, None).get_parser("")._actions if option in each.option_strings]
    return list(action.choices)


@pytest.mark.parametrize(
    ("command", "option", "words"),
    [
        (containers.CreateContainer, "--cpu-policy", CPUPolicy),
        (containers.CreateContainer, "--cpu-thread-policy", ThreadPolicy),
        (containers.CreateContainer, "--cpu-isolation", Isolation),
        (containers.CreateContainer, "--numa-affinity", NUMAAffinity),
        (containers.CreateContainer, "--numa-mempolicy", MemPolicy),
        (containers.UpdateContainer, "--cpu-policy", [CPUPolicy.DEDICATED, CPUPolicy.SHARED]),  # never to or from mixed
        (groups.CreateGroup, "--policy", Policy),
    ],
)
def test_choices_are_what_the_service_takes(command, option, words):
    assert choices(command, option) == [*words]


def test_what_is_looked_for_in_answers_is_what_the_service_says():
    assert waiting.BUSY == states.TRANSITIONAL
    assert hosts.SELF_PINNED == Verdict.SELF_PINNED


@pytest.mark.parametrize("name", ["PLACEMENT", "GROUPS", "MOUNTS", "NETWORKS", "QUESTIONS", "PULL_STATUS", "MIXED"])
def test_versions_are_those_in_which_it_came(name):
    assert getattr(versions, f"{name}_VERSION").get_string() == str(getattr(microversion, name))
