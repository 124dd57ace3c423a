# SPDX-License-Identifier: Apache-2.0
"""The users of RabbitMQ: what each may do, and which messages are refused."""

import re

import pytest

from zun.messaging import senders

H1 = "zun-compute.h1"


@pytest.mark.parametrize(
    ("sender", "named", "speaks_for", "refused"),
    [
        pytest.param(None, False, None, None, id="one-user-for-all"),
        pytest.param("zun", False, None, None, id="a-user-of-no-service"),
        pytest.param(None, True, None, "it does not name the user that sent it", id="nobody"),
        pytest.param("zun-scheduler", True, None, None, id="a-scheduler"),
        pytest.param(H1, True, None, "host h1 must not send it", id="not-for-hosts"),
        pytest.param(H1, False, None, "host h1 must not send it", id="a-host-among-services-of-one-user"),
        pytest.param(H1, True, {"h1"}, None, id="a-host-of-itself"),
        pytest.param(H1, True, {"h1", "h3", "h2"}, "host h1 speaks for h2, h3", id="a-host-of-others"),
    ],
)
def test_refusal(sender, named, speaks_for, refused):
    assert senders.refusal(sender, named=named, speaks_for=speaks_for) == refused


@pytest.mark.parametrize("name", ["", "a b", "h1.agent", "h1_fanout", "h1_fanout_2", "a/b", ".", "a|b"])
def test_names_of_hosts_that_hide_another_are_refused(name):
    with pytest.raises(ValueError, match="host must be"):
        senders.user_of_host(name)


@pytest.mark.parametrize("name", ["h1", "node-1.example.com", "h_1", "H", "h1.agents", "x_fanouts"])
def test_the_user_of_a_host_names_it(name):
    assert senders.host_of_user(senders.user_of_host(name)) == name


def test_users_of_services():
    of_services = {user: senders.is_of_one_service(user) for user in (*senders.SERVICES, H1, "zun", None)}
    assert [user for user, said in of_services.items() if not said] == ["zun", None]
    assert [senders.host_of_user(user) for user in ("zun-api", "zun", None)] == [None, None, None]
    with pytest.raises(ValueError, match="user must be one of zun-api"):
        senders.permissions("zun")


NAMES = [
    f"zun.compute.{host}{ending}"
    for host in ("h1", "h2", "h11", "h1.example", "h1-2")
    for ending in ("", ".agent", "_fanout", "_fanout_h1:zun-compute:2")
]
OTHERS = ["zun", "zun.hosts", "zun.replies", "zun.scheduler", "zun.scheduler.c", "zun.scheduler_fanout", "amq.default"]
OTHERS += ["zun.scheduler_fanout_" + "0" * 32, "reply_" + "0" * 32, "reply_h2:zun-compute:1", "zun.compute", "", "evil"]


def allowed(pattern, names=(*NAMES, *OTHERS)):
    return {name for name in names if re.search(pattern, name)}


def test_a_host_has_names_of_its_own_only():
    found = senders.permissions(H1)
    own = {name for name in NAMES if re.match(r"zun\.compute\.h1(\.agent|_|$)", name)}
    assert allowed(found.configure) == own
    assert allowed(found.write) == own - {"zun.compute.h1_fanout"} | {"zun", "zun.replies", "zun.scheduler_fanout"}
    assert allowed(found.read) == own | {"zun.hosts"}
    answers = ["reply_h1:zun-compute:12", "reply_h2:zun-compute:1"]
    assert allowed(found.configure, answers) == allowed(found.read, answers) == {answers[0]}


def test_a_host_binds_its_own_keys_only():
    write, read = senders.permissions(H1).topics["zun.hosts"]
    assert allowed(read, [*NAMES, "#", "zun.#", "zun.compute.*"]) == {"zun.compute.h1", "zun.compute.h1.agent"}
    assert allowed(write, ["", *NAMES]) == {""}


def test_nobody_but_schedulers_reads_for_schedulers():
    reading = {user: allowed(senders.permissions(user).read) for user in (*senders.SERVICES, H1)}
    assert [user for user, names in reading.items() if "zun.scheduler" in names] == ["zun-scheduler"]
    assert [user for user, names in reading.items() if "zun.scheduler_fanout" in names] == ["zun-scheduler"]


def test_a_host_calls_conductors_in_its_own_name():
    write, _ = senders.permissions(H1).topics["zun"]
    keys = ["zun.scheduler", "zun.scheduler.c", *(f"zun.conductor.{name}" for name in ("h1", "h2", "#", "h1.x"))]
    assert allowed(write, keys) == {"zun.scheduler", "zun.conductor.h1"}
    queues = ["zun.conductor.#", "zun.conductor.#./c", "zun.conductor.#_fanout_" + "0" * 32, "zun.conductor.h1"]
    assert allowed(senders.permissions("zun-conductor").read, queues) == set(queues[:3])
    assert allowed(senders.permissions(H1).read, queues) == set()


def test_permissions_follow_the_control_exchange():
    found = senders.permissions(H1, "cloud.a")
    assert set(found.topics) == {"cloud.a", "cloud.a.hosts", "zun.replies"}
    assert allowed(found.write, ["cloud.a", "cloudxa", "cloud.a.hosts"]) == {"cloud.a"}
