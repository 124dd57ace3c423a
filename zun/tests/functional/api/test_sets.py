# SPDX-License-Identifier: Apache-2.0
"""Container sets over HTTP, with schedulers and hosts in one process."""

from collections import Counter

import pytest

from zun.api import app as api_app
from zun.common.context import admin_context
from zun.db import aggregates, container_actions, services
from zun.db import containers as db
from zun.db import sets as db_sets
from zun.tests.fixtures import wait_for
from zun.tests.functional.api.client import Client
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.departures import NEVER, NOAUTH

PAIR = {"image": "zun-demo", "cpu": 2, "memory": 64, "cpu_policy": "dedicated"}
HOSTS = {f"h{number}": machine(cells=2, cores=4) for number in range(4)}
"""Each host has room for four pairs, two on each cell."""


@pytest.fixture
def cloud(database):
    with Cloud(HOSTS, **NOAUTH, **NEVER, quota__containers=-1, quota__memory=-1) as cloud:
        yield cloud


@pytest.fixture
def api(cloud):
    application = api_app.build(cloud.conf, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)
    return Client(application, user="alice", project="demo", roles="member", version="1.50")


@pytest.fixture
def racks(cloud):
    """Two racks of two hosts each."""
    for number in range(2):
        made = aggregates.insert(f"rack-{number}", {"rack": f"r{number}"})
        for host in (f"h{2 * number}", f"h{2 * number + 1}"):
            aggregates.add_host(made["uuid"], host)
    with cloud.scheduler.table._comparing:
        cloud.scheduler.table._compare(None)


def asked(api, count, run=True, name="web", **fields):
    """Return the reply to a create of a set."""
    rules = {key: fields.pop(key) for key in ("spread", "pack", "max_per_host", "min_count") if key in fields}
    body = {**PAIR, "name": name, "count": count, **fields, **({"set": rules} if rules else {})}
    return api.post(f"/v1/containers?run={'true' if run else 'false'}", body)


def created(api, count, **fields):
    """Return the set once each member is settled."""
    reply = asked(api, count, **fields)
    assert reply.status == 202, reply.json
    return settled(api, reply.json["set_uuid"])


def settled(api, ident):
    def look():
        uuids = [each["uuid"] for each in api.get(f"/v1/sets/{ident}").json["members"]]
        if any(container_actions.wanted(uuid) for uuid in uuids):
            return None
        found = api.get(f"/v1/sets/{ident}").json  # behind the actions: what they did is in the statuses
        return None if {"Creating", "Deleting"} & {each["status"] for each in found["members"]} else found

    return wait_for(look)


def statuses(found):
    return dict(Counter(each["status"] for each in found["members"]))


def hosts_of(found):
    rows = db.of_uuids([each["uuid"] for each in found["members"]])
    return sorted(Counter(row["host"] for row in rows if row["host"]).values(), reverse=True)


def held(cloud):
    return sum(len(agent.tracker.usage.held_cpus) for agent in cloud.agents.values())


def test_create_answers_with_the_first_member(api):
    reply = asked(api, 3)
    assert (reply.status, reply.json["name"], reply.headers["location"].rpartition("/")[2]) == (
        202, "web-0", reply.json["uuid"]
    )
    found = settled(api, reply.json["set_uuid"])
    assert [each["name"] for each in found["members"]] == ["web-0", "web-1", "web-2"]
    assert statuses(found) == {"Running": 3}
    assert (found["count"], found["min_count"], found["rules"], found["status_reason"]) == (3, 3, {}, None)
    assert api.get("/v1/sets").json["sets"] == [api.get("/v1/sets/web").json]
    assert api.get("/v1/containers/web-1").json["set_uuid"] == found["uuid"]
    assert "set_uuid" not in api.at("1.49").get("/v1/containers/web-1").json


@pytest.mark.parametrize(("count", "rules", "expected"), [
    pytest.param(4, {"pack": "host"}, [4], id="pack-host"),
    pytest.param(4, {"spread": "host"}, [1, 1, 1, 1], id="spread-host"),
    pytest.param(3, {"max_per_host": 2}, [2, 1], id="max-per-host"),
    pytest.param(4, {"spread": "cell"}, [2, 2], id="spread-cell"),
])
def test_members_are_where_the_rules_want_them(api, count, rules, expected):
    found = created(api, count, **rules)
    assert (statuses(found), hosts_of(found)) == ({"Running": count}, expected)
    assert found["rules"] == rules


def test_pack_in_one_rack(api, racks):
    found = created(api, 8, pack="rack")
    hosts = {row["host"] for row in db.of_uuids([each["uuid"] for each in found["members"]])}
    assert (statuses(found), len(hosts), len({int(host[1]) // 2 for host in hosts})) == ({"Running": 8}, 2, 1)


def test_spread_over_racks(api, racks):
    found = created(api, 2, spread="rack")
    racks_used = {int(row["host"][1]) // 2 for row in db.of_uuids([each["uuid"] for each in found["members"]])}
    assert racks_used == {0, 1}


def test_no_member_is_placed_where_not_all_fit(api, cloud):
    found = created(api, 17)
    assert statuses(found) == {"Error": 17}
    assert found["status_reason"] == (
        "No valid host was found: 16 of 17 members of the set would fit. At least 17 must fit, else none is placed. "
        "Ask for at most 16, for smaller members, or for other rules."
    )
    assert held(cloud) == 0 and hosts_of(found) == []
    actions = {row["message"] for each in found["members"] for row in container_actions.of_container(each["uuid"])}
    assert actions == {"Error"}


def test_reason_says_which_rules_are_in_the_way(api):
    found = created(api, 5, spread="host")
    assert "4 of 5 members of the set would fit with spread host." in found["status_reason"]


def test_member_that_fits_nowhere_is_explained(api):
    found = created(api, 2, cpu=9)
    assert found["status_reason"].startswith("No valid host was found: 0 of 2 members of the set would fit.")
    explained = api.get(f"/v1/containers/{found['members'][0]['uuid']}/explain")
    assert explained.status == 200, explained.json


def test_min_count_members_are_enough(api):
    found = created(api, 17, min_count=10)
    assert statuses(found) == {"Running": 16, "Error": 1}
    assert "16 of 17 members" in found["status_reason"]


def test_stop_and_start(api):
    found = created(api, 3)
    assert api.post("/v1/sets/web/stop").status == 202
    assert statuses(settled(api, "web")) == {"Stopped": 3}
    reply = api.post("/v1/sets/web/stop")
    assert reply.refusal == (409, "conflict") and "no member is" in reply.error["detail"]
    assert api.post("/v1/sets/web/start").status == 202
    assert statuses(settled(api, "web")) == {"Running": 3}
    requests = {
        row["request_id"]
        for each in found["members"]
        for row in container_actions.of_container(each["uuid"])
        if row["action"] == "stop"
    }
    assert len(requests) == 1


def test_delete(api, cloud):
    found = created(api, 3)
    reply = api.delete("/v1/sets/web")
    assert reply.refusal == (409, "conflict") and "Nothing was deleted" in reply.error["detail"]
    assert statuses(settled(api, "web")) == {"Running": 3}
    assert api.delete("/v1/sets/web?stop=true").status == 204
    assert api.get("/v1/sets/web").status == 404
    wait_for(lambda: not db.of_uuids([each["uuid"] for each in found["members"]]))
    wait_for(lambda: held(cloud) == 0)


def test_delete_of_a_set_without_places(api):
    created(api, 17)
    assert api.delete("/v1/sets/web").status == 204
    assert api.get("/v1/containers").json["containers"] == []


def test_replace_makes_deleted_and_failed_members_anew(api, cloud):
    found = created(api, 4, spread="host")
    gone, failed = (each["uuid"] for each in found["members"][:2])
    assert api.delete(f"/v1/containers/{gone}?stop=true").status == 204
    wait_for(lambda: not db.of_uuids([gone]))
    db.update(failed, {"status": "Error", "status_reason": "a test"})
    assert api.post("/v1/sets/web/replace").status == 202
    wait_for(lambda: not db.of_uuids([failed]))
    now = settled(api, "web")
    assert [each["name"] for each in now["members"]] == [f"web-{number}" for number in range(4)]
    assert (statuses(now), hosts_of(now)) == ({"Running": 4}, [1, 1, 1, 1])
    assert not {gone, failed} & {each["uuid"] for each in now["members"]}
    assert api.post("/v1/sets/web/replace").refusal == (409, "conflict")


def test_replacement_without_room_leaves_the_others_running(api, cloud):
    found = created(api, 4, spread="host")
    gone = found["members"][0]["uuid"]
    host = db.get(gone)["host"]
    assert api.delete(f"/v1/containers/{gone}?stop=true").status == 204
    wait_for(lambda: not db.of_uuids([gone]))
    services.update(host, "zun-compute", {"disabled": True})
    with cloud.scheduler.table._comparing:
        cloud.scheduler.table._compare(None)
    assert api.post("/v1/sets/web/replace").status == 202
    now = settled(api, "web")
    assert statuses(now) == {"Running": 3, "Error": 1} and "0 of 1 member of the set" in now["status_reason"]


def test_replace_after_room_was_made(api):
    created(api, 8, name="other")
    assert statuses(created(api, 10)) == {"Error": 10}
    assert api.delete("/v1/sets/other?stop=true").status == 204
    wait_for(lambda: len(api.get("/v1/containers").json["containers"]) == 10)
    assert api.post("/v1/sets/web/replace").status == 202
    assert statuses(settled(api, "web")) == {"Running": 10}
    assert api.get("/v1/sets/web").json["status_reason"] is None


def test_member_refused_by_its_host_finds_another(api, cloud):
    """A scheduler that knows too little of one host sends members there, which it refuses."""
    taken = created(api, 3, name="taken", pack="host")
    host = db.get(taken["members"][0]["uuid"])["host"]
    with cloud.scheduler.table._lock:  # forget the claims, but not the generation
        state = cloud.scheduler.table._hosts.find(host)
        cloud.scheduler.table._held[host] = {}
        cloud.scheduler.table._hosts.put(cloud.scheduler.table._with_claims(state))
    found = created(api, 4, pack="none", max_per_host=4)
    assert statuses(found) == {"Running": 4}


def test_too_few_places_after_refusals_give_everything_back(api, cloud):
    """Hosts refuse more than the set may lack: what the others hold is given back, and the reason is at the set."""
    fillers = [created(api, 3, name=f"filler-{number}", pack="host") for number in range(4)]
    table = cloud.scheduler.table
    with table._lock:
        for host in HOSTS:
            table._held[host] = {}
            table._hosts.put(table._with_claims(table._hosts.find(host)))
    reply = asked(api, 8)
    uuid = reply.json["set_uuid"]
    wait_for(lambda: db_sets.get(uuid)["status_reason"])
    wait_for(lambda: held(cloud) == 2 * 3 * len(fillers))
    found = settled(api, uuid)
    assert statuses(found).keys() <= {"Error"}


def test_lost_set_is_placed_again(api, cloud, monkeypatch):
    monkeypatch.setattr(cloud.scheduler_api, "create_set", lambda *args: None)
    uuid = asked(api, 3).json["set_uuid"]
    cloud.scheduler.endpoint.sweep(0)
    assert statuses(settled(api, uuid)) == {"Running": 3}


def test_scheduler_that_cannot_be_reached_ends_the_members(api, cloud, monkeypatch):
    def away(*args):
        raise RuntimeError("no broker")

    monkeypatch.setattr(cloud.scheduler_api, "create_set", away)
    assert asked(api, 3).status == 500
    found = api.get("/v1/sets/web").json
    assert statuses(found) == {"Error": 3} and "could not be reached" in found["status_reason"]


def test_moved_member_keeps_the_rules(api, cloud):
    found = created(api, 3, spread="host")
    uuid = found["members"][0]["uuid"]
    row = db.get(uuid)
    root = Client(api.application, user="root", project="demo", roles="admin", version="1.50")
    assert root.post(f"/v1/containers/{uuid}/move?discard_layer=true").status == 202
    wait_for(lambda: db.get(uuid)["host"] not in (row["host"], None) and db.get(uuid)["status"] == "Running")
    assert hosts_of(api.get("/v1/sets/web").json) == [1, 1, 1]


@pytest.mark.parametrize(("body", "status", "told"), [
    pytest.param({"count": 0}, 400, "count", id="count-0"),
    pytest.param({"count": 1001}, 400, "count", id="count-too-large"),
    pytest.param({"set": {"spread": "host"}}, 400, "count", id="rules-without-count"),
    pytest.param({"count": 2, "set": {"spread": 7}}, 400, "spread", id="spread-no-text"),
    pytest.param({"count": 2, "set": {"near": "host"}}, 400, "near", id="unknown-rule"),
    pytest.param({"count": 2, "set": {"min_count": 3}}, 400, "min_count", id="min-count-over-count"),
    pytest.param({"count": 2, "set": {"pack": "rack", "spread": "rack"}}, 400, "rack", id="contradiction"),
    pytest.param({"count": 2, "cpu_policy": "shared", "set": {"spread": "cell"}}, 400, "spread", id="shared-cell"),
    pytest.param({"count": 2, "nets": [{"port": "a"}]}, 400, "port", id="port"),
    pytest.param({"count": 2, "nets": [{"network": "a", "v4-fixed-ip": "10.0.0.9"}]}, 400, "fixed", id="address"),
])
def test_bad_requests(api, body, status, told):
    reply = api.post("/v1/containers", {**PAIR, **body})
    assert reply.status == status and told in reply.error["detail"], reply.json
    assert api.get("/v1/containers").json["containers"] == [] == api.get("/v1/sets").json["sets"]


def test_older_version_knows_no_count(api):
    reply = api.at("1.49").post("/v1/containers", {**PAIR, "count": 2})
    assert reply.status in (400, 406)
    assert api.at("1.49").get("/v1/sets").status == 406


def test_one_quota_check(api, cloud):
    cloud.conf.set_override("containers", 5, group="quota")
    application = api_app.build(cloud.conf, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)
    limited = Client(application, user="alice", project="demo", roles="member", version="1.50")
    reply = asked(limited, 6)
    assert reply.status == 403 and "asked for 6 more" in reply.error["detail"]
    assert limited.get("/v1/sets").json["sets"] == []
    assert statuses(created(limited, 5)) == {"Running": 5}


def test_others_do_not_see_the_set(api):
    found = created(api, 1)
    other = api.in_project("other")
    assert other.get("/v1/sets").json["sets"] == []
    for method, path in (("GET", ""), ("POST", "/stop"), ("POST", "/start"), ("POST", "/replace"), ("DELETE", "")):
        assert other.send(method, f"/v1/sets/{found['uuid']}{path}").status == 404


def test_drained_service_is_no_place(api, cloud):
    for host in ("h1", "h2", "h3"):
        services.update(host, "zun-compute", {"disabled": True})
    with cloud.scheduler.table._comparing:
        cloud.scheduler.table._compare(None)
    assert statuses(created(api, 5, name="five")) == {"Error": 5}
    assert statuses(created(api, 4, name="four")) == {"Running": 4}
    assert len(db_sets.page(admin_context(), limit=9, all_projects=True)) == 2
