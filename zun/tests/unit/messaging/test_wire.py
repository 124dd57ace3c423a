# SPDX-License-Identifier: Apache-2.0
"""Versions of objects and messages mean something: a change without a new version fails here."""

import copy

import pytest

from zun.messaging import releases
from zun.objects import Container
from zun.tests.unit.messaging import wire

NAMES = sorted(wire.described())


@pytest.mark.parametrize("name", NAMES)
def test_a_change_raises_the_version(name):
    said = wire.complaint(name, wire.recorded().get(name), wire.described()[name])
    assert said is None, said


def test_nothing_is_recorded_that_is_gone():
    assert sorted(wire.recorded()) == NAMES


def test_the_release_under_way_has_the_present_versions():
    name, release = list(releases.RELEASES.items())[-1]
    found = wire.described()
    assert release == releases.Release(
        compute=found["ComputeEndpoint"]["version"],
        scheduler=found["SchedulerEndpoint"]["version"],
        conductor=found["ConductorEndpoint"]["version"],
        objects={"Container": Container.VERSION},
    ), f"RELEASES[{name!r}] in zun/messaging/releases.py is not what the code has. Correct it, or add the next release."


@pytest.mark.parametrize("part", ["fields", "methods"])
def test_the_complaint_names_the_change_and_the_remedy(part):
    old = wire.described()["Container"]
    new = copy.deepcopy(old)
    new[part]["colour"] = "String(nullable=True)"
    said = wire.complaint("Container", old, new)
    assert "colour changed" in said
    assert "raise the VERSION" in said
    new["version"] = "1.99"
    assert wire.complaint("Container", old, new).startswith("Container: record the change")


def test_calls_are_described_with_their_arguments():
    """A decorator that hides the signature would hide a change."""
    methods = wire.described()["ComputeEndpoint"]["methods"]
    assert methods["execute"] == "container, command"
    assert methods["update"] == methods["resize"] == "container, cpu?, memory?, cpu_policy?, keep_cpus?, quota?"


@pytest.mark.parametrize("name", sorted(wire.described().keys() - wire.ENDPOINTS.keys() - {"notifications"}))
def test_added_fields_are_optional(name):
    import zun.objects

    cls = getattr(zun.objects, name)
    for field, version in cls.ADDED.items():
        assert cls.fields[field].nullable or cls(None).fields[field].default is not None, field
        assert version <= cls.VERSION
