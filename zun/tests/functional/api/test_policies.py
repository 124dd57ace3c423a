# SPDX-License-Identifier: Apache-2.0
"""The operator's policy file decides, for each rule at the place where it belongs."""

import pytest
from oslo_utils import uuidutils

from zun import policies
from zun.common.subnets import Pool
from zun.db import aggregates, capsules, groups, images, network_ports, networks, registries
from zun.policies.containers import CAPABILITIES
from zun.tests.functional.api.samples import RECORD
from zun.tests.unit.db.rows import explained, held_set, held_volume

CREATE = {"image": "demo"}
CAPSULE = {"name": "", "image": "pause", "cpu": 1.0, "cpu_policy": "shared", "memory": 64, "user_id": None}
CAPSULE |= {"placement": {}, "request": {}, "status": "Creating"}
SERVICE = {"host": "host-1", "binary": "zun-compute"}

# rule -> (method, path, body) that must be refused for want of it alone. {} is a running container, {s} a stopped one,
# {g} a group, {a} an aggregate without hosts and {h} one that has host-1.
ISOLATED = {"image": "demo", "cpu_policy": "dedicated", "cpu": 1, "memory": 64, "cpu_isolation": "l3"}
USES = {
    "container:create": ("POST", "/v1/containers", CREATE),
    "container:create:runtime": ("POST", "/v1/containers", {**CREATE, "runtime": "runc"}),
    "container:create:privileged": ("POST", "/v1/containers", {**CREATE, "privileged": False}),
    **{
        f"container:create:capability:{name}": ("POST", "/v1/containers", {**CREATE, "capabilities": [name]})
        for name in CAPABILITIES
    },
    "container:create:requested_destination": ("POST", "/v1/containers", {**CREATE, "host": "host-1"}),
    "container:create:cpu_isolation": ("POST", "/v1/containers", ISOLATED),
    "container:create:image_pull_policy": ("POST", "/v1/containers", {**CREATE, "image_pull_policy": "never"}),
    "container:get_all": ("GET", "/v1/containers", None),
    "container:get_all_all_projects": ("GET", "/v1/containers?all_projects=1", None),
    "container:get_one:host": ("GET", "/v1/containers?host=host-1", None),
    "container:get_one": ("GET", "/v1/containers/{}", None),
    "container:get_one_all_projects": ("GET", "/v1/containers/{}?all_projects=1", None),
    "container:update": ("PATCH", "/v1/containers/{}", {"auto_heal": True}),
    "container:delete": ("DELETE", "/v1/containers/{s}", None),
    "container:delete_force": ("DELETE", "/v1/containers/{s}?force=1", None),
    "container:delete_all_projects": ("DELETE", "/v1/containers/{s}?all_projects=1", None),
    "container:stop": ("DELETE", "/v1/containers/{}?stop=1", None),
    "container:start": ("POST", "/v1/containers/{s}/start", None),
    "container:reboot": ("POST", "/v1/containers/{}/reboot", None),
    "container:pause": ("POST", "/v1/containers/{}/pause", None),
    "container:unpause": ("POST", "/v1/containers/{p}/unpause", None),
    "container:kill": ("POST", "/v1/containers/{}/kill", None),
    "container:rename": ("POST", "/v1/containers/{}/rename?name=new-name", None),
    "container:resize_container": ("POST", "/v1/containers/{}/resize_container", {"auto_heal": True}),
    "container:logs": ("GET", "/v1/containers/{}/logs", None),
    "container:execute": ("POST", "/v1/containers/{}/execute?command=ls", None),
    "container:top": ("GET", "/v1/containers/{}/top", None),
    "container:stats": ("GET", "/v1/containers/{}/stats", None),
    "container:explain": ("GET", "/v1/containers/{e}/explain", None),
    "placement:dry_run": ("POST", "/v1/placement/dry_run", {"cpu": 1}),
    "placement:capacity": ("POST", "/v1/placement/capacity", {"cpu": 1}),
    "placement:defragment": ("POST", "/v1/placement/defragment", {"cpu": 1, "memory": 64}),
    "container:move": ("POST", "/v1/containers/{}/move", None),
    "container:attach": ("GET", "/v1/containers/{}/attach", None),
    "container:resize": ("POST", "/v1/containers/{}/resize?w=80&h=24", None),
    "container:execute_resize": (
        "POST",
        f"/v1/containers/{{}}/execute_resize?w=80&h=24&exec_id={'ab' * 32}",
        None,
    ),
    "container:rebuild": ("POST", "/v1/containers/{}/rebuild", None),
    "container:get_archive": ("GET", "/v1/containers/{}/get_archive?path=/x", None),
    "container:put_archive": ("POST", "/v1/containers/{}/put_archive?path=/x", {"data": ""}),
    "container:commit": ("POST", "/v1/containers/{}/commit?repository=web", None),
    "host:get_all": ("GET", "/v1/hosts", None),
    "host:get": ("GET", "/v1/hosts/host-1", None),
    "host:topology": ("GET", "/v1/hosts/host-1/topology", None),
    "host:audit": ("POST", "/v1/hosts/host-1/audit", None),
    "host:evacuate": ("POST", "/v1/hosts/host-1/evacuate", {"dry_run": True}),
    "host:drain": ("POST", "/v1/hosts/host-1/drain", {"dry_run": True}),
    "host:traits": ("GET", "/v1/hosts/host-1/traits", None),
    "host:set_traits": ("PUT", "/v1/hosts/host-1/traits", {"traits": []}),
    "capsule:get_all": ("GET", "/v1/capsules", None),
    "capsule:get": ("GET", "/v1/capsules/{k}", None),
    "capsule:create": (
        "POST",
        "/v1/capsules",
        {"template": {"kind": "capsule", "metadata": {}, "spec": {"containers": [{"image": "demo"}]}}},
    ),
    "capsule:delete": ("DELETE", "/v1/capsules/{k}", None),
    "capsule:delete_all_projects": ("DELETE", "/v1/capsules/{k}?all_projects=1", None),
    "group:get_all": ("GET", "/v1/groups", None),
    "group:get_all_all_projects": ("GET", "/v1/groups?all_projects=1", None),
    "group:get": ("GET", "/v1/groups/{g}", None),
    "group:create": ("POST", "/v1/groups", {"name": "another", "policy": "affinity"}),
    "group:delete": ("DELETE", "/v1/groups/{g}", None),
    "set:get_all": ("GET", "/v1/sets", None),
    "set:get_all_all_projects": ("GET", "/v1/sets?all_projects=1", None),
    "set:get": ("GET", "/v1/sets/{m}", None),
    "set:start": ("POST", "/v1/sets/{m}/start", None),
    "set:stop": ("POST", "/v1/sets/{m}/stop", None),
    "set:replace": ("POST", "/v1/sets/{m}/replace", None),
    "set:delete": ("DELETE", "/v1/sets/{m}?stop=1", None),
    "set:delete_all_projects": ("DELETE", "/v1/sets/{m}?stop=1&all_projects=1", None),
    "aggregate:get_all": ("GET", "/v1/aggregates", None),
    "aggregate:get": ("GET", "/v1/aggregates/{a}", None),
    "aggregate:create": ("POST", "/v1/aggregates", {"name": "another"}),
    "aggregate:update": ("PATCH", "/v1/aggregates/{a}", {"name": "another"}),
    "aggregate:delete": ("DELETE", "/v1/aggregates/{a}", None),
    "aggregate:add_host": ("POST", "/v1/aggregates/{a}/add_host", {"host": "host-1"}),
    "aggregate:remove_host": ("POST", "/v1/aggregates/{h}/remove_host", {"host": "host-1"}),
    "aggregate:set_metadata": ("POST", "/v1/aggregates/{a}/set_metadata", {"metadata": {}}),
    "container:actions": ("GET", "/v1/containers/{}/container_actions", None),
    "image:get_all": ("GET", "/v1/images", None),
    "image:pull": ("POST", "/v1/images", {"repo": "busybox", "host": "host-1"}),
    "image:get_one": ("GET", "/v1/images/{i}", None),
    "image:delete": ("DELETE", "/v1/images/{i}", None),
    "image:search": ("GET", "/v1/images/busybox/search", None),
    "registry:get_all": ("GET", "/v1/registries", None),
    "registry:get_all_all_projects": ("GET", "/v1/registries?all_projects=1", None),
    "registry:create": ("POST", "/v1/registries", {"registry": {"domain": "d"}}),
    "registry:get_one": ("GET", "/v1/registries/{r}", None),
    "registry:update": ("PATCH", "/v1/registries/{r}", {"registry": {"domain": "e"}}),
    "registry:delete": ("DELETE", "/v1/registries/{r}", None),
    "quota:get": ("GET", "/v1/quotas/demo", None),
    "quota:get_default": ("GET", "/v1/quotas/demo/defaults", None),
    "quota:update": ("PUT", "/v1/quotas/demo", {"containers": 1}),
    "quota:delete": ("DELETE", "/v1/quotas/demo", None),
    "quota_class:get": ("GET", "/v1/quota_classes/default", None),
    "quota_class:update": ("PUT", "/v1/quota_classes/default", {"containers": 1}),
    "zun-service:get_all": ("GET", "/v1/services", None),
    "zun-service:enable": ("PUT", "/v1/services/enable", SERVICE),
    "zun-service:disable": ("PUT", "/v1/services/disable", SERVICE),
    "zun-service:force_down": ("PUT", "/v1/services/force_down", {**SERVICE, "forced_down": True}),
    "zun-service:delete": ("DELETE", "/v1/services?host=host-1&binary=zun-compute", None),
    "availability_zones:get_all": ("GET", "/v1/availability_zones", None),
    "container:network_list": ("GET", "/v1/containers/{}/network_list", None),
    "container:network_attach": ("POST", "/v1/containers/{}/network_attach?network={n}", None),
    "container:network_detach": ("POST", "/v1/containers/{s}/network_detach?network={n}", None),
    "container:add_security_group": ("POST", "/v1/containers/{}/add_security_group?name=web", None),
    "container:remove_security_group": ("POST", "/v1/containers/{}/remove_security_group?name=web", None),
    "network:get_all": ("GET", "/v1/networks", None),
    "network:get_all_all_projects": ("GET", "/v1/networks?all_projects=1", None),
    "network:get_one": ("GET", "/v1/networks/{n}", None),
    "network:create": ("POST", "/v1/networks", {"name": "backend"}),
    "network:create:project": ("POST", "/v1/networks", {"name": "backend", "project_id": "other"}),
    "network:create:subnets": ("POST", "/v1/networks", {"name": "backend", "subnets": [{"cidr": "10.9.0.0/24"}]}),
    "network:create:shared": ("POST", "/v1/networks", {"name": "backend", "shared": True}),
    "network:delete": ("DELETE", "/v1/networks/{u}", None),
    "volume:get_all": ("GET", "/v1/volumes", None),
    "volume:get_all_all_projects": ("GET", "/v1/volumes?all_projects=1", None),
    "volume:get": ("GET", "/v1/volumes/{v}", None),
    "volume:get:host": ("GET", "/v1/volumes?sort_key=host", None),
    "volume:delete": ("DELETE", "/v1/volumes/{v}", None),
}
# There are no security groups: who may ask is told so.
ALWAYS_REFUSED = {"container:add_security_group", "container:remove_security_group"}
MEMBERS = {"container:get_one:image_pull_policy", "container:get_one:privileged", "container:get_one:runtime"}
HOSTS = {"container:explain:host", "placement:dry_run:host", "placement:capacity:host"}
# What they hide is in test_images and test_container_action_list.
HIDING = {"image:search:host", "container:action:events", "container:action:client_address"}
# Who may not by it may by another one; in test_commit.
WIDENING = {"image:delete:committed"}
# What they show is in test_capsules and test_holders; nobody is refused for want of them.
SHOWING = {"capsule:get:host", "capsule:get_all_all_projects", "host:topology:holders"}
WINDOWS = {
    "container:rename": "1.13",
    "container:add_security_group": "1.14",
    "container:remove_security_group": "1.14",
    "host:topology": "1.41",
    "host:audit": "1.41",
    "host:evacuate": "1.49",
    "host:drain": "1.49",
    "container:move": "1.49",
    "host:traits": "1.44",
    "host:set_traits": "1.44",
    "container:explain": "1.42",
    "placement:dry_run": "1.42",
    "placement:capacity": "1.42",
    "placement:defragment": "1.49",
    "container:create:cpu_isolation": "1.41",
}


def network(name):
    values = {"name": name, "project_id": "demo", "user_id": "alice", "shared": False}
    return networks.insert(values, (), Pool("10.224.0.0/12", 24))["uuid"]


def volume(name):
    return held_volume("demo", name)


def version_for(rule):
    if rule.startswith("container:create:capability:"):
        return "1.46"
    if rule.startswith("set:"):
        return "1.50"
    if rule.startswith("volume:"):
        return "1.43"
    return "1.42" if rule.startswith(("group:", "aggregate:", "network:")) else WINDOWS.get(rule, "1.40")


def test_every_rule_is_tried():
    named = {rule.name for rule in policies.list_rules() if ":" in rule.name}
    assert named == USES.keys() | MEMBERS | HOSTS | HIDING | WIDENING | SHOWING  # the hosts are tried in test_placement


@pytest.mark.parametrize("rule", sorted(USES))
def test_each_rule_at_its_place(with_rules, placed, host_up, host_row, rule):
    """With every other rule open to all, the request passes or not as this one says."""
    method, path, body = USES[rule]
    for check, refused in (("!", True), ("@", False)):
        owner = {"project_id": "demo"}
        group = {**owner, "name": f"group-{refused}", "policy": "affinity", "rules": {}}
        rows = {
            "p": placed("Paused").uuid,
            "s": placed("Stopped").uuid,
            "e": placed("Error").uuid,
            "i": images.insert({**owner, "host": "host-1", "repo": check, "tag": "latest"})["uuid"],
            "r": registries.insert({**owner, "user_id": "alice", "domain": "d"})["uuid"],
            "g": groups.insert(group)["uuid"],
            "m": held_set("demo", f"set-{refused}"),
            "k": capsules.insert({**CAPSULE, **owner, "uuid": uuidutils.generate_uuid()}, [])["uuid"],
            "a": aggregates.insert(f"empty-{refused}", {})["uuid"],
            "h": aggregates.insert(f"aggregate-{refused}", {})["uuid"],
            "n": network(f"used-{refused}"),
            "u": network(f"unused-{refused}"),
            "v": volume(f"volume-{refused}"),
        }
        network_ports.attach(rows["s"], {"network": rows["n"]})
        explained(rows["e"], RECORD)
        aggregates.add_host(rows["h"], "host-1")
        open_to_all = dict.fromkeys(USES.keys() | MEMBERS, "@")
        api = with_rules({**open_to_all, rule: check}).at(version_for(rule))
        reply = api.send(method, path.format(placed(interactive=True).uuid, **rows), body)
        if refused:
            assert reply.refusal == (403, "policy-not-authorized")
            assert rule in reply.error["detail"]
        else:
            assert reply.status < 300 or (rule in ALWAYS_REFUSED and reply.status == 400), reply.json


@pytest.mark.parametrize("rule", sorted(MEMBERS | {"container:get_one:host"}))
def test_members_by_rule(with_rules, placed, rule):
    member = rule.rpartition(":")[2]
    uuid = placed(runtime="runc").uuid
    assert member not in with_rules({}).get(f"/v1/containers/{uuid}").json
    api = with_rules({rule: "role:member"})
    assert member in api.get(f"/v1/containers/{uuid}").json
    assert member in api.get("/v1/containers").json["containers"][0]


def test_a_right_on_all_projects_is_enough_to_see_them(with_rules, placed):
    foreign = placed("Stopped", project_id="other", name="theirs")
    rules = ("get_one", "get_one_all_projects", "get_all_all_projects", "delete", "delete_all_projects")
    api = with_rules({f"container:{name}": "role:member" for name in rules})
    assert api.get(f"/v1/containers/{foreign.uuid}").status == 404
    assert api.get(f"/v1/containers/{foreign.uuid}?all_projects=1").json["name"] == "theirs"
    assert [item["name"] for item in api.get("/v1/containers?all_projects=1").json["containers"]] == ["theirs"]
    assert api.delete(f"/v1/containers/{foreign.uuid}?all_projects=1").status == 204


def test_a_rule_of_one_runtime_is_for_that_one(with_rules):
    api = with_rules({"container:create:runtime": "!", "container:create:runtime:runsc": "@"}).at("1.40")
    assert api.post("/v1/containers", {**CREATE, "runtime": "runsc"}).status == 202
    reply = api.post("/v1/containers", {**CREATE, "runtime": "runc"})
    assert reply.refusal == (403, "policy-not-authorized") and "container:create:runtime:runc" in reply.error["detail"]


def test_rules_may_look_at_the_owner(with_rules, placed):
    api = with_rules({"container:get_one": "user_id:%(user_id)s"})
    theirs = placed()
    assert api.get(f"/v1/containers/{theirs.uuid}").refusal == (403, "policy-not-authorized")
    mine = api.post("/v1/containers", {"image": "demo"}).json
    assert api.get(f"/v1/containers/{mine['uuid']}").status == 200
    image = images.insert({"project_id": "demo", "host": "host-1", "repo": "web", "tag": "latest"})["uuid"]
    for owner, status in (("demo", 200), ("other", 403)):
        api = with_rules({"image:get_one": f"project_id:%(project_id)s and project_id:{owner}"})
        assert api.get(f"/v1/images/{image}").status == status


def test_the_right_to_stop_matters_only_where_something_runs(with_rules, placed, compute):
    api = with_rules({"container:stop": "!"})
    stopped = placed("Stopped").uuid
    assert api.delete(f"/v1/containers/{stopped}?stop=1").status == 204
    assert compute.sent == [("delete", stopped, {"force": False, "stop_timeout": None})]
    assert api.delete(f"/v1/containers/{placed('Running').uuid}?stop=1").refusal == (403, "policy-not-authorized")
