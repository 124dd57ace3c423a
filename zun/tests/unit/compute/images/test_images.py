# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common import exceptions
from zun.compute.images.images import Account, Accounts, source
from zun.container.driver.images import RegistryAuth
from zun.tests.fixtures import own_conf

MINE, OPERATORS = RegistryAuth("me", "1"), RegistryAuth("operator", "2")
OWN, DEFAULT = Account("own.io", MINE), Account("default.io:5000", OPERATORS)
ID = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("image", "own", "default", "name", "auth"),
    [
        ("a", None, None, "a", None),
        ("a:b", None, None, "a:b", None),
        ("a:b", OWN, None, "own.io/a:b", MINE),
        ("a", OWN, DEFAULT, "own.io/a:latest", MINE),
        ("a", None, DEFAULT, "default.io:5000/a:latest", OPERATORS),
        ("own.io/a", OWN, DEFAULT, "own.io/a", MINE),
        ("default.io:5000/a", OWN, DEFAULT, "default.io:5000/a", OPERATORS),
        ("evil.io/a", OWN, DEFAULT, "evil.io/a", None),
        ("own.io:5000/a", OWN, DEFAULT, "own.io:5000/a", None),
        ("a", Account("own.io"), DEFAULT, "own.io/a:latest", None),
        ("own.io/a", Account("own.io"), Account("own.io", OPERATORS), "own.io/a", OPERATORS),
        ("docker.io/team/a", Account("index.docker.io", MINE), None, "docker.io/team/a", MINE),
        ("registry-1.docker.io/team/a", Account("docker.io", MINE), None, "registry-1.docker.io/team/a", MINE),
        ("team/a", Account("registry-1.docker.io", MINE), None, "docker.io/team/a:latest", MINE),
        ("quay.io/a", Account("Quay.io:443", MINE), None, "quay.io/a", MINE),
        ("registry-2.docker.io/a", Account("docker.io", MINE), None, "registry-2.docker.io/a", None),
        ("docker.io:5000/a", Account("docker.io", MINE), None, "docker.io:5000/a", None),
        # Docker takes registry/team/a for an image of its own registry, which must not get the account.
        ("team/a", Account("registry", MINE), None, "registry:443/team/a:latest", MINE),
        ("registry/team/a", Account("registry", MINE), None, "registry:443/registry/team/a:latest", MINE),
        ("MyHost/a:1", Account("myhost", MINE), None, "MyHost:443/a:1", MINE),
        ("MyHost/a:1", None, None, "MyHost:443/a:1", None),
        (ID, OWN, DEFAULT, ID, None),
        ("Not A Name", OWN, DEFAULT, "Not A Name", None),
    ],
)
def test_where_an_image_comes_from(image, own, default, name, auth):
    assert source(image, own, default) == (name, auth)


@pytest.mark.parametrize("domain", ["https://registry.example/v2/", "10.1.0.0/16", "*"])
def test_a_default_registry_that_matches_nothing_ends_the_start(domain):
    with pytest.raises(exceptions.Misconfigured, match=r"\[docker\] default_registry must be a registry"):
        Accounts.from_conf(own_conf(docker__default_registry=domain))
