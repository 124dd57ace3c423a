# SPDX-License-Identifier: Apache-2.0
"""Send objects of one release to services of another, and compare what arrives."""

import datetime

from hypothesis import given
from hypothesis import strategies as st
from oslo_serialization import jsonutils

from zun.messaging import rpc
from zun.objects import Container

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
def test_an_object_arrives_with_its_values_and_changes(values, unchanged):
    container = Container(None, **values)
    if unchanged:  # without any it would reset them all
        container.obj_reset_changes(unchanged)
    message = jsonutils.loads(jsonutils.dumps(container.obj_to_primitive()))
    found = rpc.ObjectSerializer().deserialize_entity(None, message)
    assert {name: found[name] for name in values} == dict(container.items()) == values
    assert found.obj_what_changed() == container.obj_what_changed() == set(values) - unchanged


def test_a_field_unknown_to_the_sender_has_its_default(context):
    """A service of this release understands the messages of the release before."""
    sent = Container(context, uuid="7c1e4b2a-5d3f-4c6e-9a8b-0f1e2d3c4b5a", name="c1").obj_to_primitive()
    found = rpc.ObjectSerializer().deserialize_entity(context, sent)
    assert (found.name, found.kind, found.volume_disk, found.request, found.mounts) == ("c1", "container", 0, {}, None)
    assert not found.obj_attr_is_set("memory"), "which every release has, and no default would be right"
    assert found.obj_what_changed() == {"uuid", "name"}


def test_a_field_known_only_to_the_sender_is_left_out(context):
    """A newer service sends the same version of the object, because new fields bring no new version."""
    sent = Container(context, name="c1").obj_to_primitive()
    sent["zun_object.data"]["colour"] = "blue"
    assert rpc.ObjectSerializer().deserialize_entity(context, sent).name == "c1"
