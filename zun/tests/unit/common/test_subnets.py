# SPDX-License-Identifier: Apache-2.0
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common import exceptions, subnets
from zun.common.subnets import Pool

SMALL = {"uuid": "s", "cidr": "10.9.0.0/29", "gateway": "10.9.0.1"}


@pytest.mark.parametrize(
    ("text", "version", "spelling"),
    [
        ("10.1.2.3", 4, "10.1.2.3"),
        ("FD00:0:0::00ff", 6, "fd00::ff"),
        ("::ffff:10.1.2.3", 6, "::ffff:10.1.2.3"),
        ("10.1.2.3", 6, None),
        ("fd00::1", 4, None),
        ("10.1.2", 4, None),
        ("010.1.2.3", 4, None),
        ("10.1.2.3/24", 4, None),
        ("fe80::1%eth0", 6, None),
        ("", 4, None),
    ],
)
def test_addresses(text, version, spelling):
    if spelling is None:
        with pytest.raises(ValueError, match=f"not an IPv{version} address"):
            subnets.address(text, version)
    else:
        assert ipaddress.ip_address(subnets.address(text, version)) == ipaddress.ip_address(spelling)


@pytest.mark.parametrize(
    ("used", "free"),
    [
        ((), "10.9.0.2"),
        (("10.9.0.2", "10.9.0.4"), "10.9.0.3"),
        (("10.9.0.3",), "10.9.0.2"),
        (tuple(f"10.9.0.{last}" for last in range(2, 6)), "10.9.0.6"),
        (tuple(f"10.9.0.{last}" for last in range(2, 7)), None),
    ],
)
def test_the_lowest_free_address(used, free):
    assert subnets.free_address(SMALL, used) == free


def test_a_gateway_anywhere_is_left_out():
    assert subnets.free_address({**SMALL, "gateway": "10.9.0.2"}, ()) == "10.9.0.1"


def test_a_large_subnet_is_not_walked():
    large = {"cidr": "fd00::/48", "gateway": "fd00::1"}
    assert subnets.free_address(large, ["fd00::2", "fd00::ffff"]) == "fd00::3"


@given(st.sampled_from(["10.9.0.0/29", "10.9.0.0/28", "fd00::/125"]), st.data())
def test_every_address_is_given_once_and_none_that_must_not(cidr, data):
    whole = ipaddress.ip_network(cidr)
    possible = [str(each) for each in whole if subnets.is_host_address(whole, each)]
    subnet = {"uuid": "s", "cidr": cidr, "gateway": data.draw(st.sampled_from(possible))}
    used = data.draw(st.sets(st.sampled_from(possible)))
    given_out = list(used)
    while (free := subnets.free_address(subnet, given_out)) is not None:
        assert free not in given_out
        subnets.check_address(subnet, free)
        given_out.append(free)
    assert set(given_out) | {subnet["gateway"]} == set(possible)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("10.9.0.0", "not one that"), ("10.9.0.7", "not one that"), ("10.9.0.8", "not one that"), ("10.9.0.1", "gateway")],
)
def test_addresses_that_no_container_may_have(wanted, said):
    with pytest.raises(exceptions.InvalidValue, match=said):
        subnets.check_address(SMALL, wanted)
    subnets.check_address(SMALL, "10.9.0.6")


@pytest.mark.parametrize(
    ("wanted", "others", "found"),
    [
        ("10.9.0.0/24", ["10.8.0.0/24", "10.9.1.0/24", "fd00::/64"], None),
        ("10.9.0.0/24", ["10.8.0.0/24", "10.9.0.128/25"], "10.9.0.128/25"),
        ("10.9.0.0/24", ["10.9.0.0/16"], "10.9.0.0/16"),
        ("fd00::/64", ["10.9.0.0/16", "fd00::/125"], "fd00::/125"),
    ],
)
def test_overlapping(wanted, others, found):
    assert subnets.overlapping(ipaddress.ip_network(wanted), others) == found


@pytest.mark.parametrize(
    ("cidr", "prefix", "said"),
    [("10.7.0.0/24", 23, "subnet_prefix"), ("10.7.0.1/24", 28, "10.7.0.1/24"), ("fd00::/48", 64, "fd00::")],
)
def test_a_pool_that_gives_nothing(cidr, prefix, said):
    with pytest.raises(exceptions.Misconfigured, match=said):
        Pool(cidr, prefix)


@given(st.sets(st.integers(0, 15)), st.sets(st.sampled_from(["10.7.0.0/26", "10.7.0.224/27", "10.6.0.0/15"])))
def test_blocks_of_the_pool(taken, others):
    pool = Pool("10.7.0.0/24", 28)
    used = [f"10.7.0.{16 * number}/28" for number in taken] + sorted(others)
    blocks = [str(each) for each in ipaddress.ip_network(pool.cidr).subnets(new_prefix=28)]
    free = [each for each in blocks if subnets.overlapping(ipaddress.ip_network(each), used) is None]
    if free:
        assert subnets.free_block(pool, used) == free[0]
    else:
        with pytest.raises(exceptions.Conflict, match="subnet_pool"):
            subnets.free_block(pool, used)
