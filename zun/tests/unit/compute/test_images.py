# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.compute.images import Account, source
from zun.container.driver import RegistryAuth

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
        (ID, OWN, DEFAULT, ID, None),
        ("Not A Name", OWN, DEFAULT, "Not A Name", None),
    ],
)
def test_where_an_image_comes_from(image, own, default, name, auth):
    assert source(image, own, default) == (name, auth)
