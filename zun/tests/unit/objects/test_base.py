# SPDX-License-Identifier: Apache-2.0
"""Objects become messages by a short way of ours. It must be the library's, only shorter."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_versionedobjects import base as ovo
from oslo_versionedobjects import fields

from zun.common import rpc
from zun.objects import Container, base

FIELDS = {
    "uuid": st.uuids().map(str),
    "user_id": st.none() | st.text(),
    "cpu": st.floats(0, 1000),
    "memory": st.integers(0, 2**40),
    "exit_code": st.none() | st.integers(-1, 255),
    "tty": st.booleans(),
    "labels": st.none() | st.dictionaries(st.text(), st.text()),
    "started_at": st.none() | st.datetimes(timezones=st.just(datetime.UTC)),
}


@given(st.fixed_dictionaries({}, optional=FIELDS), st.sets(st.sampled_from(sorted(FIELDS))))
def test_an_object_travels_as_the_library_would_have_it(values, unchanged):
    container = Container(None, **values)
    if unchanged:  # without any it would reset them all
        container.obj_reset_changes(unchanged)
    message = container.obj_to_primitive()
    changes = f"{Container.OBJ_SERIAL_NAMESPACE}.changes"
    theirs = ovo.VersionedObject.obj_to_primitive(container)
    assert {**message, changes: set(message.get(changes, ()))} == {**theirs, changes: set(theirs.get(changes, ()))}
    found = rpc.ObjectSerializer().deserialize_entity(None, message)
    assert {name: found[name] for name in values} == dict(container.items()) == values
    assert found.obj_what_changed() == container.obj_what_changed() == set(values) - unchanged


def test_what_an_older_service_does_not_know_has_its_default(context):
    """So that a service of this release understands the messages of the one before."""
    sent = Container(context, uuid="7c1e4b2a-5d3f-4c6e-9a8b-0f1e2d3c4b5a", name="c1").obj_to_primitive()
    found = rpc.ObjectSerializer().deserialize_entity(context, sent)
    assert (found.name, found.kind, found.volume_disk, found.request, found.mounts) == ("c1", "container", 0, {}, None)
    assert not found.obj_attr_is_set("memory"), "which every release has, and no default would be right"
    assert found.obj_what_changed() == {"uuid", "name"}


def test_what_a_newer_service_sends_is_left_aside(context):
    """It says that the object is of the same version as ours: fields are added without a new one."""
    sent = Container(context, name="c1").obj_to_primitive()
    sent["zun_object.data"]["colour"] = "blue"
    assert rpc.ObjectSerializer().deserialize_entity(context, sent).name == "c1"


KINDS = [each for (each,) in base.Registry.obj_classes().values()]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_only_times_are_converted_on_the_way(kind):
    """Fields of any other kind that has a form of its own in a message would need the long way."""
    plain = {
        name
        for name, field in kind.fields.items()
        if all(
            getattr(type(field.AUTO_TYPE), way) in (getattr(fields.FieldType, way), getattr(base.Json, way))
            for way in ("to_primitive", "from_primitive")
        )
    }
    times = {name for name, field in kind.fields.items() if isinstance(field, base.TimeField)}
    assert plain | times == set(kind.fields)
