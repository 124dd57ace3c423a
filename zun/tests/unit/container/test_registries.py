# SPDX-License-Identifier: Apache-2.0
"""Which registries the daemon may be sent to."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common import exceptions
from zun.container.docker.client import Settings
from zun.container.docker.registries import Registries, is_public, resolve
from zun.tests.fixtures import own_conf

NAMES = {
    "public.example": ["93.184.216.34", "2606:2800:220:1::1"],
    "private.example": ["10.1.2.3"],
    "mixed.example": ["93.184.216.34", "127.0.0.1"],
    "metadata.example": ["169.254.169.254"],
}


def fake(host):
    """Names of a table; addresses as the resolver of the machine reads them."""
    if host.endswith(".example"):
        if host not in NAMES:
            raise socket.gaierror("no such host")
        return NAMES[host]
    return resolve(host)


def registries(*entries, **fields):
    made = Registries.of(entries, **fields)
    return Registries(made.public, made.allowed, made.blocks, fake)


def may(made, image):
    try:
        made.check_image(image)
    except exceptions.InvalidValue as exc:
        assert "[docker] allowed_registries" in str(exc)
        return False
    return True


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("busybox", True),
        ("team/web:1", True),
        ("docker.io/team/web", True),
        ("public.example/web", True),
        ("public.example:5000/web@sha256:" + "a" * 64, True),
        ("93.184.216.34:5000/web", True),
        ("private.example/web", False),
        ("mixed.example/web", False),
        ("metadata.example/web", False),
        ("missing.example/web", False),
        ("localhost/web", False),
        ("localhost:5000/web", False),
        ("127.0.0.1:22/web", False),
        ("127.1:22/web", False),
        ("2130706433:22/web", False),
        ("0x7f.0.0.1/web", False),
        ("0.0.0.0:22/web", False),
        ("169.254.169.254/web", False),
        ("10.1.2.3/web", False),
        ("172.16.0.1:80/web", False),
        ("192.168.1.1:80/web", False),
        ("100.100.100.200:80/web", False),
        ("224.0.0.1:80/web", False),
        ("255.255.255.255:80/web", False),
        ("[::1]:22/web", False),
        ("[::]:22/web", False),
        ("[fe80::1]:22/web", False),
        ("[fd00:ec2::254]:80/web", False),
        ("[::ffff:127.0.0.1]:22/web", False),
        ("[::ffff:7f00:1]:22/web", False),
        ("[64:ff9b::7f00:1]:22/web", False),
        ("[2002:7f00:1::1]:22/web", False),
        ("[ff02::1]:22/web", False),
    ],
)
def test_public_registries_only(image, expected):
    if image == "[::ffff:127.0.0.1]:22/web":  # a name that Docker does not take either
        with pytest.raises(exceptions.InvalidValue):
            registries().check_image(image)
    else:
        assert may(registries(), image) is expected


@pytest.mark.parametrize(
    ("entry", "image", "expected"),
    [
        ("private.example", "private.example:5000/web", True),
        ("private.example:5000", "private.example:5000/web", True),
        ("private.example:5000", "Private.Example:5000/web", True),
        ("private.example:5000", "private.example/web", False),
        ("private.example:5000", "private.example:22/web", False),
        ("127.0.0.1:5000", "127.0.0.1:5000/web", True),
        ("127.0.0.1:5000", "127.0.0.1:22/web", False),
        ("127.0.0.1", "127.0.0.1:22/web", True),
        ("10.1.0.0/16", "private.example/web", True),
        ("10.1.0.0/16", "10.2.0.1/web", False),
        ("127.0.0.0/8", "mixed.example/web", True),
        ("10.1.0.0/16", "mixed.example/web", False),
        ("[::1]:5000", "[::1]:5000/web", True),
        ("missing.example", "missing.example/web", True),
        ("*", "missing.example/web", True),
    ],
)
def test_allowed_registries(entry, image, expected):
    assert may(registries(entry), image) is expected


@pytest.mark.parametrize(
    ("entries", "image", "expected"),
    [
        ((), "busybox", False),
        ((), "public.example/web", False),
        (("public.example",), "public.example/web", True),
        (("docker.io",), "busybox", True),
        (("docker.io",), "docker.io/team/web", True),
        (("docker.io",), "registry-1.docker.io/team/web", True),
        (("index.docker.io",), "busybox", True),
        (("quay.io",), "index.docker.io/team/web", False),
    ],
)
def test_listed_registries_alone(entries, image, expected):
    assert may(registries(*entries, public=False), image) is expected


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("busybox", True),
        ("team/web", True),
        ("Strange Words", True),
        ("public.example/web", True),
        ("127.0.0.1:22/x", False),
        ("LOCALHOST/x", False),
        ("PrivateHost/x", False),
        ("user@127.0.0.1:22/x", False),
        ("user@public.example/x", False),
        ("http://127.0.0.1/x", False),
        ("public.example#@127.0.0.1/x", False),
        ("127.0.0.1:22/a/b", False),
    ],
)
def test_search_terms(term, expected):
    if expected:
        registries().check_term(term)
    else:
        with pytest.raises(exceptions.InvalidValue, match="no images may come from"):
            registries().check_term(term)


def test_answer_is_the_same_for_private_and_missing_names():
    said = set()
    for name in ("private.example", "missing.example", "metadata.example"):
        with pytest.raises(exceptions.InvalidValue) as raised:
            registries().check_image(f"{name}/web")
        said.add(str(raised.value).replace(name, "NAME"))
    assert len(said) == 1


@given(st.ip_addresses())
def test_no_public_address_is_special(address):
    special = ("is_loopback", "is_link_local", "is_private", "is_multicast", "is_unspecified", "is_reserved")
    if is_public(address):
        # Reserved by IETF, as the blocks 100::/8 to e000::/4 are that nobody has been given yet, is no danger.
        assert not any(getattr(address, name) for name in special if name != "is_reserved")


def test_operators_registry_needs_no_entry():
    conf = own_conf(docker__default_registry="127.0.0.1:5000")
    settings = Settings.from_conf(conf, connections=1)
    settings.registries.check_image("127.0.0.1:5000/web")
    with pytest.raises(exceptions.InvalidValue):
        settings.registries.check_image("127.0.0.1:5001/web")


@pytest.mark.parametrize("entry", ["http://registry.example", "10.0.0.1/8", "registry.example/path", "a b"])
def test_entry_that_is_no_registry_is_named(entry):
    with pytest.raises(exceptions.Misconfigured, match="allowed_registries: "):
        Registries.of([entry])
