# SPDX-License-Identifier: Apache-2.0
"""Send objects of one release to services of another, and compare what arrives."""

import datetime
from collections.abc import Sequence
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_serialization import jsonutils
from oslo_versionedobjects import exception as ovo_exc
from oslo_versionedobjects import fields as ovo_fields

from zun import nouns, objects
from zun.messaging import rpc
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
def test_an_object_arrives_with_its_values_and_changes(values, unchanged):
    container = Container(None, **values)
    if unchanged:  # without any it would reset them all
        container.obj_reset_changes(unchanged)
    message = jsonutils.loads(jsonutils.dumps(container.obj_to_primitive()))
    found = rpc.ObjectSerializer().deserialize_entity(None, message)
    assert {name: found[name] for name in values} == dict(container.items()) == values
    assert found.obj_what_changed() == container.obj_what_changed() == set(values) - unchanged


@pytest.mark.parametrize("name", objects.__all__)
def test_no_field_is_an_object(name):
    """An object in a field could change without its owner, which ``obj_what_changed`` would not see."""
    fields = getattr(getattr(objects, name), "fields", {})
    assert [each for each, field in fields.items() if "bject" in type(field).__name__] == []


def test_a_field_unknown_to_the_sender_has_its_default(context):
    """A service of this release understands the messages of the release before."""
    sent = Container(context, uuid="7c1e4b2a-5d3f-4c6e-9a8b-0f1e2d3c4b5a", name="c1").obj_to_primitive()
    found = rpc.ObjectSerializer().deserialize_entity(context, sent)
    assert (found.name, found.kind, found.volume_disk, found.request, found.mounts) == ("c1", "container", 0, {}, None)
    assert not found.obj_attr_is_set("memory"), "which every release has, and no default would be right"
    assert found.obj_what_changed() == {"uuid", "name"}


def of_version(container, version):
    """The message of a service whose Container has this ``version`` and one field more."""
    sent = container.obj_to_primitive()
    sent["zun_object.version"] = version
    sent["zun_object.data"]["colour"] = "blue"
    return sent


@pytest.mark.parametrize("version", ["1.0", "1.99"])
def test_a_field_known_only_to_the_sender_is_left_out(context, version):
    sent = of_version(Container(context, name="c1"), version)
    found = rpc.ObjectSerializer().deserialize_entity(context, sent)
    assert (found.name, found.VERSION, "colour" in found) == ("c1", Container.VERSION, False)


def test_another_major_version_is_refused(context):
    with pytest.raises(ovo_exc.IncompatibleObjectVersion):
        rpc.ObjectSerializer().deserialize_entity(context, of_version(Container(context, name="c1"), "2.0"))


@pytest.fixture
def next_version(monkeypatch):
    """A Container of version 1.9, whose fields tty and mounts are new."""
    monkeypatch.setattr(Container, "VERSION", "1.9")
    monkeypatch.setattr(Container, "ADDED", {"tty": "1.9", "mounts": "1.8"})


@pytest.mark.parametrize(
    ("target", "kept"), [("1.9", {"name", "tty", "mounts"}), ("1.8", {"name", "mounts"}), ("1.7", {"name"})]
)
def test_an_older_version_lacks_newer_fields(context, next_version, target, kept):
    sent = rpc.ContextSerializer({"Container": target}).serialize_entity(
        context, Container(context, name="c1", tty=True, mounts=[])
    )
    assert sent["zun_object.version"] == target
    assert set(sent["zun_object.data"]) == set(sent["zun_object.changes"]) == kept


def test_an_object_is_sent_on_as_of_this_release(context, next_version):
    """A scheduler of the new release passes on what an API of the old one sent."""
    sent = Container(context, name="c1").obj_to_primitive(target_version="1.7")
    found = rpc.ObjectSerializer().deserialize_entity(context, sent)
    assert found.obj_to_primitive()["zun_object.version"] == "1.9"
    assert found.tty is False


class _Everything(base.ZunObject):
    uuid: Annotated[str, nouns.UUID]
    owner: Annotated[str | None, nouns.UUID]
    name: str | None
    number: int
    size: float = 1.5
    ready: bool = False
    since: datetime.datetime | None
    tags: dict[str, str] | None
    parts: Sequence[str] = ()
    beside: Annotated[str | None, nouns.UNSENT] = None


def test_annotations_are_the_fields():
    try:
        made = base.register(_Everything)
    finally:
        base.Registry.obj_classes().pop("_Everything")
    none = ovo_fields.UnspecifiedDefault
    assert {name: (type(each), each.nullable, each.default) for name, each in made.fields.items()} == {
        "uuid": (ovo_fields.UUIDField, False, none),
        "owner": (ovo_fields.UUIDField, True, none),
        "name": (ovo_fields.StringField, True, none),
        "number": (ovo_fields.IntegerField, False, none),
        "size": (ovo_fields.FloatField, False, 1.5),
        "ready": (ovo_fields.BooleanField, False, False),
        "since": (base.TimeField, True, none),
        "tags": (base.JsonField, True, none),
        "parts": (base.JsonField, False, ()),
    }
    assert made(None).beside is None
