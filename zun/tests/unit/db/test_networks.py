# SPDX-License-Identifier: Apache-2.0
"""Networks and ports on every database: what is given out is given out once, whoever asks at the same time."""

import pytest

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.subnets import Pool
from zun.db import containers, session
from zun.db import network_ports as ports
from zun.db import networks as db
from zun.tests.unit.db.rows import container, together, values

pytestmark = pytest.mark.usefixtures("database")

POOL = Pool("10.224.0.0/12", 24)
DEMO = RequestContext(user_id="alice", project_id="demo")
TINY = {"cidr": "10.9.0.0/29", "gateway": "10.9.0.1"}  # five containers


def network(*subnets, **fields):
    made = {"name": "backend", "project_id": "demo", "user_id": "alice", "shared": False, **fields}
    return db.insert(made, subnets, POOL)["uuid"]


def into(*networks, **fields):
    """A container in networks; gives its uuid."""
    return containers.insert(values(**fields), None, [{"network": each} for each in networks])["uuid"]


def held(uuid):
    with session.reader() as connection:
        rows = session.rows(connection, ports.table.select().where(ports.table.c.network_uuid == uuid))
    return sorted(row["ipv4"] for row in rows)


def test_the_row():
    row = db.insert(
        {"name": None, "project_id": "demo", "user_id": None, "shared": True, "neutron_net_id": "abc"}, [TINY], POOL
    )
    assert (row["shared"], row["name"], row["updated_at"]) == (True, None, None)
    assert [{name: value for name, value in each.items() if name != "uuid"} for each in row["subnets"]] == [TINY]
    assert db.find(DEMO, row["uuid"]) == db.find(DEMO, "abc") == row


def test_names_are_exact_and_of_the_project():
    network(name="Web")
    for name in ("web", "WEB", "We"):
        with pytest.raises(exceptions.NetworkNotFound):
            db.find(DEMO, name)
    with pytest.raises(exceptions.NetworkNotFound):
        db.find(RequestContext(project_id="other"), "Web")
    assert db.find(DEMO, "Web")["name"] == "Web"
    network(name="Web")
    with pytest.raises(exceptions.Conflict, match="uuid"):
        db.find(DEMO, "Web")


def test_of_those_with_one_uuid_elsewhere_the_oldest_is_meant():
    elsewhere = "6f1c2d3e-4b5a-4678-9abc-def012345678"
    oldest, _ = (network(neutron_net_id=elsewhere) for _ in range(2))
    assert db.find(DEMO, elsewhere)["uuid"] == oldest
    for _ in range(2):
        network(neutron_net_id="not-a-uuid")
    with pytest.raises(exceptions.Conflict, match="uuid"):
        db.find(DEMO, "not-a-uuid")


def test_blanks_behind_a_name_count():
    backend, blank = network(), network(name="other ")
    assert [db.find(DEMO, name)["uuid"] for name in ("backend", "other ")] == [backend, blank]
    for name in ("backend ", "other"):
        with pytest.raises(exceptions.NetworkNotFound):
            db.find(DEMO, name)


def test_subnets_are_given_out_once():
    answers = together(6, lambda number: network())
    cidrs = {db.find(DEMO, uuid)["subnets"][0]["cidr"] for uuid in answers}
    assert cidrs == {f"10.224.{number}.0/24" for number in range(6)}


def test_of_overlapping_subnets_one_is_made():
    for _ in range(4):
        wide, narrow = {"cidr": "10.9.0.0/24", "gateway": "10.9.0.1"}, TINY
        answers = together(4, lambda number, each=(wide, narrow): network(each[number % 2]))
        made = [each for each in answers if isinstance(each, str)]
        assert len(made) == 1 and [type(each) for each in answers].count(exceptions.Conflict) == 3
        db.destroy(made[0])


def test_addresses_are_given_out_once():
    uuid = network(TINY)
    answers = together(8, lambda number: into(uuid))
    made = [each for each in answers if isinstance(each, str)]
    refused = [each for each in answers if not isinstance(each, str)]
    assert held(uuid) == [f"10.9.0.{last}" for last in range(2, 7)] and len(made) == 5
    assert [type(each) for each in refused] == [exceptions.Conflict] * 3
    containers.destroy(made[0])
    assert len(held(uuid)) == 4
    into(uuid)
    assert held(uuid) == [f"10.9.0.{last}" for last in range(2, 7)]


def test_a_chosen_address_is_given_out_once():
    uuid, users = network(), [container()["uuid"] for _ in range(4)]
    answers = together(4, lambda number: ports.attach(users[number], {"network": uuid, "fixed_ip": "10.224.0.9"}))
    assert [type(each) for each in answers].count(exceptions.Conflict) == 3 and held(uuid) == ["10.224.0.9"]


def test_a_container_is_in_a_network_once():
    uuid, user = network(), container()["uuid"]
    answers = together(4, lambda number: ports.attach(user, {"network": uuid}))
    assert [type(each) for each in answers].count(exceptions.Invalid) == 3 and held(uuid) == ["10.224.0.2"]


def test_two_networks_in_either_order():
    """Who waits for one and has the other would wait for ever."""
    one, two = network(), network()
    answers = together(6, lambda number: into(*((one, two) if number % 2 else (two, one))))
    assert all(isinstance(each, str) for each in answers), answers
    for number, uuid in enumerate(answers):
        asked = [one, two] if number % 2 else [two, one]
        assert [port["network_uuid"] for port in ports.of_container(uuid)] == asked
    assert len(held(one)) == len(held(two)) == 6


def test_what_fails_gives_nothing_out():
    uuid = network(TINY)
    with pytest.raises(exceptions.NetworkNotFound):
        into(uuid, "nothing")
    with pytest.raises(exceptions.InvalidValue):
        ports.attach(container()["uuid"], {"network": uuid, "fixed_ip": "10.8.0.1"})
    assert held(uuid) == []
    with pytest.raises(exceptions.ContainerNotFound):
        ports.attach("nothing", {"network": uuid})


def test_deleted_or_joined_but_never_both():
    for _ in range(6):
        uuid = network()
        removed, *made = together(3, lambda number, uuid=uuid: into(uuid) if number else db.destroy(uuid))
        if removed is None:
            assert {type(each) for each in made} == {exceptions.NetworkNotFound}
        else:
            assert isinstance(removed, exceptions.Conflict) and all(isinstance(each, str) for each in made)


def test_a_port_goes_with_its_container():
    uuid = network()
    placed, waiting = into(uuid, host="h1", status="Running"), into(uuid)
    assert ports.networks_of_host("h1") == {uuid} and ports.networks_of_host("h2") == set()
    assert [port["container_uuid"] for port in ports.of_host("h1")] == [placed]
    containers.destroy(placed)
    assert containers.destroy_unplaced(waiting)
    assert held(uuid) == [] and ports.of_host("h1") == []
    db.destroy(uuid)


def test_leaving_is_said_once():
    user = into(network())
    (port,) = ports.of_container(user)
    assert together(4, lambda number: ports.set_leaving(port["uuid"], True)).count(True) == 1
    assert ports.set_leaving(port["uuid"], False) and not ports.set_leaving("nothing", True)
    ports.destroy(port["uuid"])
    ports.destroy(port["uuid"])
    assert ports.of_container(user) == []


def test_a_port_is_found_by_its_project_only():
    user = into(network())
    (port,) = ports.of_container(user)
    assert ports.find_for("demo", port["uuid"])["container_uuid"] == user
    with pytest.raises(exceptions.PortNotFound):
        ports.find_for("other", port["uuid"])


def test_the_default_network():
    assert db.default("demo") is None
    network(project_id="other")
    assert db.default("demo") is None
    shared = network(project_id="other", shared=True)
    assert db.default("demo")["uuid"] == shared
    own = network()
    network()
    assert db.default("demo")["uuid"] == own
    assert db.default("third")["uuid"] == shared
