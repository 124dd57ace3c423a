# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from zun.api.device_aliases import Alias, parse_aliases
from zun.common import exceptions
from zun.topology.device_request import DeviceMatch
from zun.topology.devices import DeviceType


def line(**members):
    return json.dumps(members)


@pytest.mark.parametrize(
    ("lines", "aliases"),
    [
        ([], {}),
        (
            [line(name="gpu", vendor_id="10DE", product_id="1db6", device_type="type-PCI", numa_policy="required")],
            {"gpu": Alias((DeviceMatch(vendor_id="10de", product_id="1db6", type=DeviceType.PCI),), "required")},
        ),
        (
            [line(name="gpu", vendor_id="10de", product_id="*", traits="CUSTOM_A, CUSTOM_B,")],
            {"gpu": Alias((DeviceMatch(vendor_id="10de", traits=("CUSTOM_A", "CUSTOM_B")),))},
        ),
        (
            [line(name="rng", resource_class="rng", traits=["CUSTOM_A"]), line(name="x", device_type="cdi")],
            {
                "rng": Alias((DeviceMatch(resource_class="CUSTOM_RNG", traits=("CUSTOM_A",)),)),
                "x": Alias((DeviceMatch(type=DeviceType.CDI),)),
            },
        ),
        (
            [
                line(name="gpu", resource_class="PGPU"),
                line(name="gpu", device_type="path", numa_policy="socket"),
                line(name="gpu", device_type="cdi", numa_policy="socket"),
            ],
            {
                "gpu": Alias(
                    (
                        DeviceMatch(resource_class="PGPU"),
                        DeviceMatch(type=DeviceType.PATH),
                        DeviceMatch(type=DeviceType.CDI),
                    ),
                    "socket",
                )
            },
        ),
    ],
    ids=["none", "nova", "any-product", "classes", "repeated-name"],
)
def test_aliases(lines, aliases):
    assert parse_aliases(lines) == aliases


def test_a_list_of_aliases_may_be_one_value():
    """The environment has only one value for an option that may be repeated."""
    lines = [line(name="gpu", vendor_id="10de"), line(name="nic", vendor_id="15b3")]
    assert parse_aliases([f"[{', '.join(lines)}]"]) == parse_aliases(lines)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["gpu"], "it is not JSON"),
        (["[]"], "it must be a JSON object"),
        ([line(vendor_id="10de")], "'name' is a required property"),
        ([line(name="a gpu", vendor_id="10de")], "name: 'a gpu' is not a name of up to 64"),
        ([line(name="gpu")], "every device would match; give at least one of vendor_id, product_id"),
        ([line(name="gpu", vendor_id="*")], "every device would match"),
        ([line(name="gpu", vendor_id="nv")], "vendor_id: 'nv' is not four hexadecimal digits"),
        ([line(name="gpu", vendor="10de")], "'vendor' was unexpected"),
        ([line(name="gpu", device_type="type-XX")], "device_type: 'type-XX' is not one of type-PCI, type-PF, type-VF"),
        ([line(name="gpu", vendor_id="10de", numa_policy="legacy")], "legacy is not known here; use required"),
        ([line(name="gpu", vendor_id="10de", numa_policy="near")], "numa_policy: 'near' is not one of none, pref"),
        ([line(name="gpu", traits="AVX")], "traits: AVX is not a trait of os-traits"),
        (
            [
                line(name="gpu", vendor_id="10de", numa_policy="none"),
                line(name="gpu", vendor_id="1002", numa_policy="socket"),
            ],
            "numa_policy of this name is none in another line",
        ),
    ],
)
def test_a_line_that_is_no_alias_is_named(lines, said):
    with pytest.raises(exceptions.Misconfigured) as caught:
        parse_aliases(lines)
    assert str(caught.value).startswith(f"[devices] alias = {lines[-1]}: ") and said in str(caught.value)
