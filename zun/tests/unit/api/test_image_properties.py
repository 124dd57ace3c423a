# SPDX-License-Identifier: Apache-2.0
"""What an image asks and what a request asks, joined by Nova's rules."""

import pytest

from zun.api.image_properties import asks, blamed, check_rebuilt, joined
from zun.common import exceptions
from zun.image.driver import ServiceImage


def image(**properties):
    return ServiceImage("1", "web", properties={name.replace("__", "."): text for name, text in properties.items()})


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, {}),
        ({"hw_cpu_policy": "dedicated"}, {"cpu_policy": "dedicated"}),
        ({"hw_cpu_thread_policy": "isolate"}, {"cpu_thread_policy": "isolate"}),
        ({"hw_numa_nodes": "2"}, {"numa_nodes": 2}),
        ({"hw_numa_mempolicy": "strict"}, {"numa_mempolicy": "strict"}),
        ({"hw_numa_cpus__0": "0-1", "hw_numa_cpus__1": "2"}, {"numa_cpus": [2, 1]}),
        ({"hw_numa_mem__1": "1024", "hw_numa_mem__0": "2048"}, {"numa_mem": [2048, 1024]}),
        ({"hw_mem_page_size": "large"}, {"mem_page_size": "large"}),
        ({"hw_mem_page_size": "2048"}, {"mem_page_size": 2048}),
        ({"hw_mem_page_size": "2MB"}, {"mem_page_size": 2048}),
        ({"hw_mem_page_size": "1GiB"}, {"mem_page_size": 1048576}),
        ({"hw_video_model": "qxl", "status": "active"}, {}),
    ],
)
def test_what_an_image_asks(properties, expected):
    assert asks(image(**properties))[0] == expected


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"hw_cpu_policy": "often"}, "hw_cpu_policy: 'often'"),
        ({"hw_cpu_thread_policy": "x"}, "hw_cpu_thread_policy: 'x'"),
        ({"hw_numa_nodes": "0"}, "hw_numa_nodes"),
        ({"hw_numa_nodes": "-1"}, "hw_numa_nodes is '-1'"),
        ({"hw_numa_nodes": "two"}, "hw_numa_nodes is 'two'"),
        ({"hw_numa_mempolicy": "x"}, "hw_numa_mempolicy"),
        ({"hw_numa_cpus__1": "0"}, "hw_numa_cpus.0 is missing"),
        ({"hw_numa_cpus__0": "a"}, "hw_numa_cpus.0 is 'a'"),
        ({"hw_numa_cpus__0": ""}, "hw_numa_cpus"),
        ({"hw_numa_cpus__0": "0-1", "hw_numa_cpus__1": "1"}, "hw_numa_cpus.N is lists with a CPU in common"),
        ({"hw_numa_mem__0": "1.5"}, "hw_numa_mem.0 is '1.5'"),
        ({"hw_mem_page_size": "3"}, "hw_mem_page_size"),
        ({"hw_mem_page_size": "huge"}, "hw_mem_page_size"),
    ],
)
def test_a_property_that_means_nothing(properties, named):
    with pytest.raises(exceptions.InvalidValue, match="image") as raised:
        asks(image(**properties))
    assert named in str(raised.value)


REFUSED = object()


@pytest.mark.parametrize(
    ("field", "request_", "prop", "text", "expected"),
    [
        ("cpu_policy", None, "hw_cpu_policy", "dedicated", "dedicated"),
        ("cpu_policy", None, "hw_cpu_policy", "shared", "shared"),
        ("cpu_policy", "shared", "hw_cpu_policy", "shared", "shared"),
        ("cpu_policy", "shared", "hw_cpu_policy", "dedicated", REFUSED),
        ("cpu_policy", "dedicated", "hw_cpu_policy", "shared", "dedicated"),
        ("cpu_thread_policy", "prefer", "hw_cpu_thread_policy", "require", "require"),
        ("cpu_thread_policy", "isolate", "hw_cpu_thread_policy", "require", REFUSED),
        ("cpu_thread_policy", "isolate", "hw_cpu_thread_policy", "prefer", REFUSED),
        ("numa_nodes", 2, "hw_numa_nodes", "2", 2),
        ("numa_nodes", 1, "hw_numa_nodes", "2", REFUSED),
        ("numa_mempolicy", "preferred", "hw_numa_mempolicy", "strict", REFUSED),
        ("numa_cpus", [1, 1], "hw_numa_cpus.0", "0", REFUSED),
        ("numa_mem", [512], "hw_numa_mem.0", "512", [512]),
        ("mem_page_size", "any", "hw_mem_page_size", "2048", 2048),
        ("mem_page_size", "any", "hw_mem_page_size", "small", "small"),
        ("mem_page_size", "large", "hw_mem_page_size", "2048", 2048),
        ("mem_page_size", "large", "hw_mem_page_size", "small", REFUSED),
        ("mem_page_size", "small", "hw_mem_page_size", "large", REFUSED),
        ("mem_page_size", 2048, "hw_mem_page_size", "1GB", REFUSED),
    ],
)
def test_request_and_image_joined(field, request_, prop, text, expected):
    asked = ServiceImage("1", "web", properties={prop: text})
    given = {"image": "web", field: request_} if request_ is not None else {"image": "web"}
    if expected is not REFUSED:
        assert joined(given, asked) == {"image": "web", field: expected}
        return
    with pytest.raises(exceptions.InvalidValue) as raised:
        joined(given, asked)
    assert str(raised.value).startswith(f"{field}: ") and prop.partition(".")[0] in str(raised.value)


def test_traits_and_architecture_are_hints():
    asked = image(hw_architecture="aarch64", os_type="linux", **{"trait:CUSTOM_RED": "required"})
    expected = {"image:architecture": "aarch64", "image:os_type": "linux", "image:trait:CUSTOM_RED": "required"}
    assert joined({"hints": {"other": 1}}, asked)["hints"] == {"other": 1, **expected}
    with pytest.raises(exceptions.InvalidValue, match=r"hints.image:os_type: windows .*os_type asks for linux"):
        joined({"hints": {"image:os_type": "windows"}}, asked)


def test_a_later_refusal_names_what_the_image_asked():
    with (
        pytest.raises(exceptions.InvalidValue, match=r"^cpu: a. The properties of the image ask for cpu_policy dedic"),
        blamed(image(hw_cpu_policy="dedicated")),
    ):
        raise exceptions.InvalidValue("cpu: a.")
    for nothing in (image(), None):
        with pytest.raises(exceptions.InvalidValue, match=r"^cpu: a.$"), blamed(nothing):
            raise exceptions.InvalidValue("cpu: a.")


@pytest.mark.parametrize(
    ("policy", "placement", "properties", "refused"),
    [
        ("shared", {}, {}, False),
        ("shared", {}, {"hw_cpu_policy": "dedicated"}, True),
        ("shared", {}, {"hw_numa_nodes": "1"}, True),
        ("dedicated", {"numa_nodes": 2}, {"hw_cpu_policy": "dedicated", "hw_numa_nodes": "2"}, False),
        ("dedicated", {"numa_nodes": 1}, {"hw_numa_nodes": "2"}, True),
        ("dedicated", {"cpu_thread_policy": "prefer"}, {"hw_cpu_thread_policy": "require"}, True),
        ("dedicated", {}, {"hw_cpu_policy": "shared"}, False),
    ],
)
def test_a_rebuild_keeps_what_the_container_holds(policy, placement, properties, refused):
    row = {"cpu_policy": policy, "placement": placement}
    if not refused:
        return check_rebuilt(row, image(**properties))
    with pytest.raises(exceptions.InvalidValue, match="of the container contradicts"):
        check_rebuilt(row, image(**properties))
    return None
