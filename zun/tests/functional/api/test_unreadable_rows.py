# SPDX-License-Identifier: Apache-2.0
"""Rows with wrong parts inside a value of the right kind, written by hand: a request for that resource names the row,
and every other request goes on.
"""

import re

import pytest
import sqlalchemy as sa

from zun.api import microversion
from zun.db import aggregates, explanations, models, network_ports, session


def by_hand(column, value, **where):
    """Write ``value`` into the column of the rows that have the values ``where``, past all checks."""
    table, same = column.table, " AND ".join(f"{name} = :{name}" for name in where)
    with session.writer() as connection:
        change = sa.text(f"UPDATE {table.name} SET {column.name} = :value WHERE {same}")
        assert connection.execute(change, {"value": value, **where}).rowcount == 1


def told(reply, ident):
    """The detail of a refusal whose query finds what it is about."""
    assert reply.refusal == (409, "row-unreadable")
    detail = reply.error["detail"]
    (query,) = re.findall(r"(SELECT .*) shows it\.", detail)
    with session.reader() as connection:
        assert len(connection.execute(sa.text(query)).all()) == 1
    assert ident in query
    return detail


@pytest.fixture
def newest(admin_api):
    return admin_api.at(str(microversion.MAX))


@pytest.mark.parametrize("value", ["{}", "[]", '{"cells": 5}', '{"cells": [5]}', '{"cells": [{}]}', '{"cells": [[]]}'])
def test_the_map_of_a_host(newest, host_row, value):
    by_hand(models.compute_nodes.c.topology, value, uuid=host_row)
    assert "inventory_interval" in told(newest.get("/v1/hosts/host-1/topology"), host_row)
    assert newest.get("/v1/hosts/host-1").status == 200
    assert [each["hostname"] for each in newest.get("/v1/hosts").json["hosts"]] == ["host-1"]


@pytest.mark.parametrize("version", ["1.17", str(microversion.MAX)])
@pytest.mark.parametrize("value", ['{"net": 5}', '{"net": [5]}', '{"net": [{}]}', '{"net": "x"}', '{"net": {"a": 1}}'])
def test_the_networks_of_a_container(admin_api, placed, version, value):
    container = placed(project_id="admin")
    by_hand(models.containers.c.addresses, value, uuid=container.uuid)
    api = admin_api.at(version)
    detail = told(api.get(f"/v1/containers/{container.uuid}/network_list"), container.uuid)
    (remedy,) = re.findall(r"(UPDATE .*) its host", detail)
    with session.writer() as connection:
        connection.execute(sa.text(remedy))
    assert api.get(f"/v1/containers/{container.uuid}/network_list").json == {"networks": []}


@pytest.mark.parametrize("value", ["{}", '{"reason": "r"}'])
def test_why_a_container_found_no_host(newest, placed, value):
    uuid = placed("Error", project_id="admin").uuid
    with session.writer() as connection:
        explanations.put_in(connection, [uuid], {})
    by_hand(models.explanations.c.record, value, container_uuid=uuid)
    assert "Delete that row" in told(newest.get(f"/v1/containers/{uuid}/explain"), uuid)


def test_the_hosts_of_an_aggregate(newest, host_row):
    uuid = aggregates.insert("a", {})["uuid"]
    by_hand(models.aggregates.c.hosts, "[5]", uuid=uuid)
    assert "names of its hosts" in told(newest.post(f"/v1/aggregates/{uuid}/add_host", {"host": "host-1"}), uuid)


@pytest.mark.parametrize("value", ["[5]", "[[]]", "[{}]", '["x"]', '[{"cidr": 5}]', '[{"cidr": "10.0.0.0/24"}]'])
def test_the_subnets_of_a_network(newest, placed, host_up, value):
    damaged, whole = (newest.post("/v1/networks", {"name": name}).json["uuid"] for name in ("damaged", "whole"))
    by_hand(models.networks.c.subnets, value, uuid=damaged)
    container = placed(project_id="admin")
    attached = newest.post(f"/v1/containers/{container.uuid}/network_attach", {"network": damaged})
    assert "delete the network" in told(attached, damaged)
    assert not network_ports.of_container(container.uuid)
    created = newest.post("/v1/containers", {"image": "demo", "nets": [{"network": damaged}]})
    assert "delete the network" in told(created, damaged)
    assert newest.post(f"/v1/containers/{container.uuid}/network_attach", {"network": whole}).status == 200


NO_REQUESTS = ["[5]", '[{"name": "gpu"}]', '[{"name": "gpu", "count": "x", "matches": []}]', "[[]]", "{}"]


@pytest.mark.parametrize("value", NO_REQUESTS)
def test_the_devices_of_a_container(newest, placed, value):
    """The list has the other containers, and this one without what cannot be read."""
    odd, sound = placed(project_id="admin"), placed(project_id="admin")
    by_hand(models.containers.c.placement, f'{{"devices": {value}}}', uuid=odd.uuid)
    assert {each["uuid"] for each in newest.get("/v1/containers").json["containers"]} == {odd.uuid, sound.uuid}
    assert newest.get(f"/v1/containers/{odd.uuid}").status == 200
