# SPDX-License-Identifier: Apache-2.0
"""Every value that the schemas accept can be used and stored."""

import jsonschema
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from zun.api import creation, microversion
from zun.api.microversion import v1
from zun.api.schemas import Field, Schema, capsules, containers, groups, scalars
from zun.api.settings import Range, Settings
from zun.common.exceptions import Invalid, SchemaValidationError
from zun.db import models
from zun.tests.fixtures import own_conf


@pytest.fixture(scope="module")
def settings():
    return Settings.from_conf(own_conf())


@pytest.fixture(scope="module")
def schemas(settings):
    return containers.create(settings)


def test_versions_with_the_same_fields_share_a_schema(schemas):
    assert schemas.keys() == set(microversion.EVERY)
    assert len({id(schema) for schema in schemas.values()}) == 5
    for first, last in ((1, 19), (20, 38), (39, 39), (40, 41)):
        assert len({id(schemas[v1(minor)]) for minor in range(first, last + 1)}) == 1


def test_not_every_error_of_a_long_list_is_looked_at(schemas, monkeypatch):
    """A body full of them once took ten seconds."""
    seen = []
    relevance = jsonschema.exceptions.relevance
    monkeypatch.setattr(
        jsonschema.exceptions,
        "best_match",
        lambda errors: max((seen.append(each) or each for each in errors), key=relevance),
    )
    with pytest.raises(SchemaValidationError, match="command"):
        schemas[v1(40)]({"image": "demo", "command": [None] * 200_000})
    assert len(seen) <= 1000


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-3, 20000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.from_regex(r"[0-9]{1,5}(\.[0-9])?", fullmatch=True)
    | st.sampled_from(["True", "false", "docker", "None", "shared", "dedicated", "large", "always", "demo"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just("Name"), inner, max_size=3)
    ),
    max_leaves=5,
)
FIELDS = sorted(
    [
        "image",
        "name",
        "command",
        "entrypoint",
        "cpu",
        "memory",
        "disk",
        "cpu_policy",
        "workdir",
        "environment",
        "labels",
        "hints",
        "image_pull_policy",
        "image_driver",
        "restart_policy",
        "auto_remove",
        "auto_heal",
        "interactive",
        "tty",
        "privileged",
        "runtime",
        "hostname",
        "host",
        "availability_zone",
        "security_groups",
        "exposed_ports",
        "nets",
        "mounts",
        "healthcheck",
        "registry",
        "cpu_thread_policy",
        "cpu_isolation",
        "numa_nodes",
        "numa_affinity",
        "numa_cpus",
        "numa_mem",
        "numa_mempolicy",
        "mem_page_size",
    ]
)


def check_answer(settings, schemas, body, minor):
    """Either the client is told, or there are fields for a row; nothing else is raised."""
    version = v1(minor)
    try:
        checked = schemas[version]({"image": "demo", **body})
        creation.check_gates(checked, version)
        fields = creation.container_fields(checked, run=False, version=version, settings=settings)
    except Invalid as exc:
        assert str(exc)
        return
    assert settings.cpu.lowest <= fields["cpu"] <= settings.cpu.highest
    assert settings.memory.lowest <= fields["memory"] <= settings.memory.highest
    assert isinstance(fields["cpu"], float) and isinstance(fields["memory"], int)
    for name, value in fields.items():
        column = models.containers.c[name]
        if isinstance(column.type, sa.String) and column.type.length and value is not None:
            assert len(value) <= column.type.length, name


@given(
    body=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6),
    minor=st.sampled_from([1, 19, 20, 36, 39, 40, 41]),
)
def test_any_body_has_an_answer(settings, schemas, body, minor):
    check_answer(settings, schemas, body, minor)


@pytest.mark.parametrize("name", FIELDS)
@given(value=VALUES)
def test_each_field_alone(settings, schemas, name, value):
    check_answer(settings, schemas, {name: value}, 41)


@pytest.mark.parametrize(
    ("field", "yes", "no", "neither"),
    [
        (scalars.B3, [True, "True", "true"], [False, "False", "false"], [1, 0, "1", "yes", "TRUE", "", None]),
        (
            scalars.BX,
            [True, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes"],
            [False, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no"],
            [1, 0, 1.0, "y", "t", "tRUE", "", None, "None"],
        ),
    ],
)
def test_booleans(field, yes, no, neither):
    schema = containers.Schema({"x": field})
    assert [schema({"x": value})["x"] for value in yes] == [True] * len(yes)
    assert [schema({"x": value})["x"] for value in no] == [False] * len(no)
    for value in neither:
        with pytest.raises(SchemaValidationError):
            schema({"x": value})


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_bounds_hold_for_every_spelling(number, highest):
    schema = containers.Schema({"x": scalars.amount(Range(5, highest), "MiB"), "y": scalars.cpus(Range(5, highest))})
    for value in (number, str(number), float(number)):
        for name in ("x", "y"):
            if name == "x" and isinstance(value, float):
                value = int(value)
            try:
                assert schema({name: value})[name] == number
                assert 5 <= number <= highest
            except SchemaValidationError:
                assert not 5 <= number <= highest


def test_messages_stay_short():
    schema = containers.Schema({"name": scalars.NAME})
    with pytest.raises(SchemaValidationError) as caught:
        schema({"name": "x" * 10**6})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ({"memory": "1024M"}, "memory: '1024M' is not a whole number of MiB, written without the unit"),
        ({"memory": 0.5}, "memory: 0.5 is not a whole number of MiB, written without the unit"),
        (
            {"memory": 1048577},
            "memory: 1048577 is not between 4 and 8192 MiB, which the operator allows one container",
        ),
        ({"cpu": 10**400}, "cpu: the number is too large"),
        ({"numa_nodes": 0}, "numa_nodes: it must be a whole number from 1 to 1024, got 0"),
        ({"cpu": "two"}, "cpu: 'two' is not a number of CPUs, for example 2 or 0.5"),
        ({"numa_cpus": "2"}, "numa_cpus: '2' is not a list with one whole number for each cell, for example [2, 3]"),
        ({"mem_page_size": "2M"}, "mem_page_size: '2M' is not small, large, any, or a number of KiB"),
        ({"mem_page_size": 2.5}, "mem_page_size: 2.5 is not small, large, any, or a number of KiB"),
        ({"cpu_policy": "pinned"}, "cpu_policy: 'pinned' is not one of dedicated, shared, mixed"),
        ({"numa_mempolicy": "bind"}, "numa_mempolicy: 'bind' is not one of strict, preferred"),
        ({"auto_heal": "yes"}, "auto_heal: 'yes' is not one of True, true, False, false"),
        ({"name": "n" * 256}, "name: it is too long: it has 256 characters and may have 255"),
        ({"nets": [{}] * 101}, "nets: it is too long: it has 101 items and may have 100"),
    ],
)
def test_a_wrong_form_is_told_in_words(schemas, argument, said):
    with pytest.raises(SchemaValidationError) as caught:
        schemas[v1(41)]({"image": "demo", **argument})
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("minor", "argument", "said"),
    [
        (39, {"entrypoint": ["sh"]}, "('entrypoint' was unexpected); entrypoint exists from version 1.40"),
        (30, {"host": "h"}, "('host' was unexpected); host exists from version 1.39"),
        (38, {"hots": "h"}, "('hots' was unexpected); possible are any_traits, "),
    ],
)
def test_a_field_of_a_later_version_is_told_as_such(schemas, minor, argument, said):
    with pytest.raises(SchemaValidationError) as caught:
        schemas[v1(minor)]({"image": "demo", **argument})
    assert said in str(caught.value)


def test_the_policies_of_a_group_are_told_as_they_are_written():
    with pytest.raises(SchemaValidationError) as caught:
        groups.CREATE({"name": "web", "policy": "apart"})
    told = "policy: 'apart' is not one of affinity, anti-affinity, soft-affinity, soft-anti-affinity"
    assert str(caught.value) == told


@pytest.mark.parametrize("value", ["5", True, None, 5.5, 4, 8])
def test_a_number_that_is_wanted_as_a_number(value):
    schema = containers.Schema({"count": scalars.whole(5, 7)})
    assert [schema({"count": each})["count"] for each in (5, 7, 6.0)] == [5, 7, 6]
    with pytest.raises(SchemaValidationError, match="count"):
        schema({"count": value})


# It would look at this text until the test's own timeout.
ENDLESS = {"type": "string", "pattern": "^(a+)+b\\Z"}
TEXT = "a" * 100


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        pytest.param({**ENDLESS, "maxLength": 99}, TEXT, "100 characters and may have 99", id="text"),
        pytest.param({"type": "array", "items": ENDLESS, "maxItems": 1}, [TEXT] * 2, "2 items and", id="list"),
        pytest.param(
            {"type": "object", "maxProperties": 1, "additionalProperties": ENDLESS},
            {"one": TEXT, "two": TEXT},
            "2 members and may have 1",
            id="members",
        ),
        pytest.param(
            {"type": "object", "maxProperties": 1, "propertyNames": ENDLESS},
            {TEXT: 1, "two": 2},
            "2 members and may have 1",
            id="names",
        ),
        pytest.param({"anyOf": [ENDLESS, {"type": "null"}], "maxLength": 99}, TEXT, "100 characters", id="any"),
    ],
)
def test_what_is_too_long_is_not_looked_into(schema, value, told):
    with pytest.raises(SchemaValidationError, match=told):
        Schema({"field": Field(schema)})({"field": value})


@pytest.mark.parametrize("image", ["a" * 14_000 + "\n", "a" * 9_000 + "\n" + "a"])
def test_the_length_of_an_image_is_told_first(schemas, image):
    with pytest.raises(SchemaValidationError, match=f"image: it is too long: it has {len(image)} characters"):
        schemas[v1(40)]({"image": image})
    template = {"kind": "capsule", "metadata": {}, "spec": {"containers": [{"image": image}]}}
    with pytest.raises(SchemaValidationError, match="it is too long"):
        capsules.CREATE({"template": template})


@pytest.mark.parametrize("image", ["a.\n", "ab\n", "\u2028ab", ".a", "- -"])
def test_a_name_that_no_image_has_is_refused(schemas, image):
    with pytest.raises(SchemaValidationError, match="is not the name of an image"):
        schemas[v1(40)]({"image": image})


@pytest.mark.parametrize("image", ["aa", "b.", "/x-", "\N{GRINNING FACE} a_ b"])
def test_a_name_with_two_letters_in_a_row_passes(schemas, image):
    assert schemas[v1(40)]({"image": image}) == {"image": image}
