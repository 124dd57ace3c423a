# SPDX-License-Identifier: Apache-2.0
"""Versions of objects and messages mean something: a change without a new version fails here."""

import copy

import pytest
from oslo_utils import versionutils

import zun.objects
from zun.messaging import releases, rpc
from zun.objects import Container, NetworkPort
from zun.tests.unit.messaging import wire

NAMES = sorted(wire.described())
OBJECTS = sorted(wire.described().keys() - wire.ENDPOINTS.keys() - {"notifications"})


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
    if part == "fields":
        new["added"]["colour"] = "1.99"
    assert wire.complaint("Container", old, new).startswith("Container: record the change")


@pytest.mark.parametrize("added", [None, "1.2", "1.100"], ids=["none", "that-of-before", "one-to-come"])
def test_a_new_field_needs_its_version(added):
    old = wire.described()["NetworkPort"]
    new = copy.deepcopy(old)
    new["version"], new["fields"]["colour"] = "1.10", "String(nullable=True)"
    if added:
        new["added"]["colour"] = added
    assert "must have Sent(VERSION) at colour" in wire.complaint("NetworkPort", old, new)
    new["added"]["colour"] = "1.10"
    assert wire.complaint("NetworkPort", old, new).startswith("NetworkPort: record the change")


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_field_keeps_its_version(version):
    old = wire.described()["NetworkPort"]
    new = copy.deepcopy(old) | {"version": version}
    del new["added"]["preserve"]
    assert "Sent(VERSION) at preserve" in wire.complaint("NetworkPort", old, new)
    new["version"] = "2.0"
    assert "record the change" in wire.complaint("NetworkPort", old, new), "older readers refuse the object anyway"


def test_calls_are_described_with_their_arguments():
    """A decorator that hides the signature would hide a change."""
    methods = wire.described()["ComputeEndpoint"]["methods"]
    assert methods["execute"] == "container, command"
    assert methods["update"] == methods["resize"] == "container, cpu?, memory?, cpu_policy?, keep_cpus?, quota?"


@pytest.mark.parametrize("name", OBJECTS)
def test_added_fields_are_optional(name):
    cls = getattr(zun.objects, name)
    for field, version in cls.ADDED.items():
        assert cls.fields[field].nullable or cls(None).fields[field].default is not None, field
        assert versionutils.convert_version_to_tuple(version) <= versionutils.convert_version_to_tuple(cls.VERSION)


def test_a_reader_of_1_1_gets_a_port_of_1_1(context):
    port = NetworkPort(context, network_name="blue", leaving=False, fixed_ips=[], preserve=True)
    sent = rpc.ContextSerializer({"NetworkPort": "1.1"}).serialize_entity(context, port)
    assert sent["zun_object.version"] == "1.1"
    assert sent["zun_object.data"] == {"network_name": "blue", "leaving": False}
    found = rpc.ContextSerializer().deserialize_entity(context, sent)
    assert (found.network_name, found.fixed_ips, found.preserve) == ("blue", None, False)
