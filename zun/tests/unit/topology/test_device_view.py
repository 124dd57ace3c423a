# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.tests.unit.topology.build import cell, host
from zun.topology.devices import Device


@pytest.mark.parametrize(
    ("links", "linked"),
    [
        pytest.param({}, {}, id="no-links"),
        pytest.param({"a": "b", "b": "a"}, {"a": "b", "b": "a"}, id="both-ends-tell"),
        pytest.param({"a": "bc"}, {"a": "bc", "b": "a", "c": "a"}, id="one-end-tells"),
        pytest.param({"a": "bx", "b": "y"}, {"a": "b", "b": "a"}, id="the-host-does-not-offer-the-other-end"),
        pytest.param({"a": "ab", "c": "c"}, {"a": "b", "b": "a"}, id="never-to-itself"),
    ],
)
def test_linked(links, linked):
    """The host offers the devices a to d."""
    devices = tuple(Device(address, links=tuple(links.get(address, ()))) for address in "abcd")
    view = host(cell(0, "0 1"), devices=devices).device_view
    assert view.linked == {address: frozenset(others) for address, others in linked.items()}
