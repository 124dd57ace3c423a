# SPDX-License-Identifier: Apache-2.0
"""The answer that each of four people gets at every route. Whoever does not say who they are gets 401 at all of them.

The stranger is a member of another project. Reader and member are of the project that owns the container. The
administrator is of a third project.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oslo_utils import uuidutils

from zun.api import microversion
from zun.api.controllers.v1 import NOUNS, Dependencies
from zun.api.routes import Route
from zun.common.subnets import Pool
from zun.db import (
    aggregates,
    capsules,
    container_actions,
    containers,
    groups,
    images,
    network_ports,
    networks,
    registries,
)
from zun.tests.functional.api.client import Reply
from zun.tests.unit.db.rows import explained, held_set, held_volume

PEOPLE = ("stranger", "reader", "member", "admin")
PROJECTS = {"stranger": "other", "reader": "demo", "member": "demo", "admin": "operators"}
ROLES = {"stranger": "member", "reader": "reader", "member": "member", "admin": "admin"}
HOST = "host-1"
POOL = Pool("10.224.0.0/12", 24)


@dataclass(frozen=True, slots=True)
class Case:
    """A request that succeeds for whoever may send it. ``answers`` in the order of PEOPLE."""

    answers: tuple[int, int, int, int]
    query: str = ""
    body: Any = None
    status: str = "Running"  # the container's


def look() -> Case:
    return Case((404, 200, 200, 200))


def act(answer: int = 202, **request: Any) -> Case:
    return Case((404, 403, answer, answer), **request)


def administer(**request: Any) -> Case:
    return Case((403, 403, 403, 200), **request)


def question() -> Case:
    """Asked about the asker's own project, whichever that is."""
    return Case((200, 403, 200, 200), body={"cpu": 1, "memory": 64})


EXPLANATION = {
    "reason": "full",
    "wanted": {},
    "hosts": 1,
    "filters": {},
    "codes": {},
    "changes": [],
    "details": [],
    "details_left_out": 0,
}
DEDICATED = {"image": "demo", "cpu_policy": "dedicated", "cpu": 1, "memory": 64}
GRADES = (("core", 202), ("isolated", 202), ("l3", 403), ("node", 403))
CAPSULE = {"template": {"kind": "capsule", "metadata": {}, "spec": {"containers": [{"image": "demo"}]}}}


def isolated_capsule(grade: str) -> Any:
    wanted = {"requests": {"cpu": 1, "memory": 64}}
    placement = {"cpu_policy": "dedicated", "cpu_isolation": grade}
    spec = {"containers": [{"image": "demo", "resources": wanted}], "placement": placement}
    return {"template": {"kind": "capsule", "metadata": {}, "spec": spec}}


SERVICE = {"host": HOST, "binary": "zun-compute"}
CAPSULE_ROW = {"image": "pause", "cpu": 1.0, "cpu_policy": "shared", "memory": 64, "user_id": None}
CAPSULE_ROW |= {"placement": {}, "request": {}, "status": "Creating"}
ITEM = "containers/{ident}"
CASES: dict[str, Sequence[Case]] = {
    "GET containers": (Case((200, 200, 200, 200)), administer(query="all_projects=1"), administer(query="host=x")),
    # The stranger creates it in the project that is theirs.
    "POST containers": (
        Case((202, 403, 202, 202), body={"image": "demo"}),
        Case((403, 403, 403, 202), body={"image": "demo", "runtime": "runc"}),
        Case((403, 403, 403, 202), body={"image": "demo", "host": HOST}),
        Case((403, 403, 403, 202), body={"image": "demo", "image_pull_policy": "never"}),
        *(Case((answer, 403, answer, 202), body=DEDICATED | {"cpu_isolation": grade}) for grade, answer in GRADES),
        Case((403, 403, 403, 403), body={"image": "demo", "privileged": True}),
    ),
    f"GET {ITEM}": (look(), administer(query="all_projects=1")),
    f"PATCH {ITEM}": (act(200, body={"auto_heal": True}),),
    f"DELETE {ITEM}": (
        act(204, status="Stopped"),
        act(204, query="stop=1"),
        Case((404, 403, 403, 204), query="force=1"),
        Case((403, 403, 403, 204), query="all_projects=1", status="Stopped"),
    ),
    f"POST {ITEM}/start": (act(status="Stopped"),),
    f"POST {ITEM}/stop": (act(),),
    f"POST {ITEM}/reboot": (act(),),
    f"POST {ITEM}/pause": (act(),),
    f"POST {ITEM}/unpause": (act(status="Paused"),),
    f"POST {ITEM}/kill": (act(),),
    f"POST {ITEM}/rename": (act(200, query="name=new-name"),),
    f"POST {ITEM}/resize_container": (act(body={"auto_heal": True}),),
    f"POST {ITEM}/execute": (act(200, query="command=ls"),),
    f"POST {ITEM}/execute_resize": (act(200, query=f"w=80&h=24&exec_id={'ab' * 32}"),),
    f"GET {ITEM}/attach": (act(200),),
    f"POST {ITEM}/resize": (act(200, query="w=80&h=24"),),
    f"POST {ITEM}/rebuild": (act(),),
    f"POST {ITEM}/move": (Case((404, 403, 403, 202)),),
    f"GET {ITEM}/get_archive": (act(200, query="path=/x"),),
    f"POST {ITEM}/put_archive": (act(200, query="path=/x", body={"data": ""}),),
    f"POST {ITEM}/commit": (act(query="repository=web"),),
    f"POST {ITEM}/network_attach": (act(200, query="network={network}"),),
    f"POST {ITEM}/network_detach": (act(query="network={network}"),),
    f"GET {ITEM}/network_list": (look(),),
    # There are none: who may ask is told so.
    f"POST {ITEM}/add_security_group": (act(400, query="name=web"),),
    f"POST {ITEM}/remove_security_group": (act(400, query="name=web"),),
    "GET networks": (Case((200, 200, 200, 200)), administer(query="all_projects=1")),
    "POST networks": (
        administer(body={"name": "backend"}),
        administer(body={"name": "backend", "project_id": "demo"}),
        administer(body={"name": "backend", "shared": True}),
        administer(body={"name": "backend", "subnets": [{"cidr": "10.9.0.0/24"}]}),
    ),
    "GET networks/{network}": (look(),),
    "DELETE networks/{network}": (Case((404, 403, 403, 204)),),
    f"GET {ITEM}/container_actions": (look(),),
    f"GET {ITEM}/container_actions/{{request_id}}": (look(),),
    "GET images": (administer(),),
    "POST images": (Case((403, 403, 403, 202), body={"repo": "busybox", "host": HOST}),),
    # An image that is not there is bad input in Zun's API v1.
    "GET images/{uuid}": (Case((400, 403, 403, 200)),),
    "DELETE images/{uuid}": (Case((400, 403, 403, 200)),),
    "GET images/{name}/search": (Case((200, 200, 200, 200)),),
    "GET images/{owner}/{name}/search": (Case((200, 200, 200, 200)),),
    "GET registries": (Case((200, 200, 200, 200)), administer(query="all_projects=1")),
    "POST registries": (Case((201, 403, 201, 201), body={"registry": {"domain": "d"}}),),
    "GET registries/{ident}": (look(),),
    "PATCH registries/{ident}": (act(200, body={"registry": {"domain": "e"}}),),
    "DELETE registries/{ident}": (act(204),),
    "GET quotas/{project_id}": (Case((403, 200, 200, 200)),),
    "PUT quotas/{project_id}": (administer(body={"containers": 1}),),
    "DELETE quotas/{project_id}": (Case((403, 403, 403, 200)),),
    "GET quotas/{project_id}/defaults": (Case((403, 200, 200, 200)),),
    "GET quota_classes/{name}": (administer(),),
    "PUT quota_classes/{name}": (administer(body={"containers": 1}),),
    f"GET {ITEM}/logs": (look(),),
    f"GET {ITEM}/top": (look(),),
    f"GET {ITEM}/stats": (look(),),
    f"GET {ITEM}/explain": (look(),),
    "POST placement/dry_run": (question(),),
    "POST placement/capacity": (question(),),
    "POST placement/defragment": (administer(body={"cpu": 1, "memory": 64}),),
    "GET capsules": (Case((200, 200, 200, 200)), Case((200, 200, 200, 200), query="all_projects=1")),
    "POST capsules": (
        Case((202, 403, 202, 202), body=CAPSULE),
        Case((403, 403, 403, 202), body=isolated_capsule("node")),
        Case((202, 403, 202, 202), body=isolated_capsule("core")),
    ),
    "GET capsules/{capsule}": (look(),),
    "DELETE capsules/{capsule}": (act(204), Case((403, 403, 403, 204), query="all_projects=1")),
    "GET groups": (Case((200, 200, 200, 200)), administer(query="all_projects=1")),
    "POST groups": (Case((201, 403, 201, 201), body={"name": "web", "policy": "affinity"}),),
    "GET groups/{group}": (look(),),
    "DELETE groups/{group}": (act(204),),
    "GET sets": (Case((200, 200, 200, 200)), administer(query="all_projects=1")),
    "GET sets/{set}": (look(),),
    "POST sets/{set}/start": (act(),),
    "POST sets/{set}/stop": (act(),),
    "POST sets/{set}/replace": (act(),),
    "DELETE sets/{set}": (
        act(204, query="stop=1"),
        Case((404, 403, 403, 204), query="force=1"),
        Case((403, 403, 403, 204), query="stop=1&all_projects=1"),
    ),
    "GET aggregates": (administer(),),
    "POST aggregates": (Case((403, 403, 403, 201), body={"name": "fast"}),),
    "GET aggregates/{aggregate}": (administer(),),
    "PATCH aggregates/{aggregate}": (administer(body={"name": "faster"}),),
    "DELETE aggregates/{aggregate}": (Case((403, 403, 403, 204)),),
    "POST aggregates/{aggregate}/add_host": (administer(body={"host": HOST}),),
    "POST aggregates/{aggregate}/remove_host": (administer(body={"host": HOST}),),
    "POST aggregates/{aggregate}/set_metadata": (administer(body={"metadata": {"ssd": "true"}}),),
    "GET hosts": (administer(),),
    "GET hosts/{host}": (administer(),),
    "GET hosts/{host}/topology": (administer(),),
    "POST hosts/{host}/audit": (administer(),),
    "POST hosts/{host}/evacuate": (administer(body={"dry_run": True}),),
    "POST hosts/{host}/drain": (administer(body={"dry_run": True}),),
    "GET hosts/{host}/drain": (Case((403, 403, 403, 404)),),  # it is not being drained
    "DELETE hosts/{host}/drain": (Case((403, 403, 403, 404)),),
    "GET hosts/{host}/traits": (administer(),),
    "PUT hosts/{host}/traits": (administer(body={"traits": []}),),
    "GET services": (administer(),),
    "PUT services/enable": (administer(body=SERVICE),),
    "PUT services/disable": (administer(body=SERVICE),),
    "PUT services/force_down": (administer(body={**SERVICE, "forced_down": False}),),
    "DELETE services": (administer(query="host=host-1&binary=zun-compute"),),
    "GET volumes": (Case((200, 200, 200, 200)), administer(query="all_projects=1")),
    "GET volumes/{volume}": (look(),),
    "DELETE volumes/{volume}": (act(204),),
    "GET availability_zones": (Case((200, 200, 200, 200)),),
}


def routes(dependencies: Dependencies) -> dict[str, Route]:
    """Every row of the route table, by ``METHOD path``."""
    rows = [route for noun in NOUNS for route in noun(dependencies).routes()]
    return {f"{route.method} {route.path}": route for route in rows}


def send(ask: Callable[..., Reply], route: Route, case: Case, ident: str) -> Reply:
    """Send the request of ``case``. ``ask`` is called like ``Client.send``, with the person's proof in it."""
    names = _names(route, ident)
    path = "/v1/" + route.path.format(**names) + (f"?{case.query.format(**names)}" if case.query else "")
    version = {"OpenStack-API-Version": f"container {min(route.until, microversion.MAX)}"}
    body = {} if case.body is None else {"body": case.body}
    return ask(route.method, path, headers=version, **body)


_numbers = itertools.count()


def _names(route: Route, ident: str) -> dict[str, str]:
    """Make fresh rows in the project that owns container ``ident``, and return values for the path's variables."""
    owner, number, path = containers.get(ident)["project_id"], next(_numbers), route.path
    names = {"ident": ident, "host": HOST, "name": "busybox", "owner": "library", "project_id": owner}
    if "{group}" in path:
        values = {"name": f"group-{number}", "project_id": owner, "policy": "affinity", "rules": {}}
        names["group"] = groups.insert(values)["uuid"]
    elif "{set}" in path:
        names["set"] = held_set(owner, f"set-{number}")
    elif "{capsule}" in path:
        values = {**CAPSULE_ROW, "uuid": uuidutils.generate_uuid(), "name": f"capsule-{number}", "project_id": owner}
        names["capsule"] = capsules.insert(values, [])["uuid"]
    elif "{aggregate}" in path:
        names["aggregate"] = aggregates.insert(f"aggregate-{number}", {})["uuid"]
        if path.endswith("remove_host"):
            aggregates.add_host(names["aggregate"], HOST)
    elif "{request_id}" in path:
        names["request_id"] = f"req-{number}"
        container_actions.start(ident, "stop", request_id=names["request_id"], user_id=None, project_id=owner)
    elif path.startswith("images/{uuid}"):
        image = {"project_id": owner, "host": HOST, "repo": f"image-{number}", "tag": "latest"}
        names["uuid"] = images.insert(image)["uuid"]
    elif "{network}" in path or path.endswith(("/network_attach", "/network_detach")):
        values = {"name": f"network-{number}", "project_id": owner, "user_id": None, "shared": False}
        names["network"] = networks.insert(values, (), POOL)["uuid"]
        if path.endswith("/network_detach"):
            network_ports.attach(ident, {"network": names["network"]})
    elif path.startswith("registries/{ident}"):
        names["ident"] = registries.insert({"project_id": owner, "user_id": "alice", "domain": "d"})["uuid"]
    elif "{volume}" in path:
        names["volume"] = held_volume(owner, f"volume-{number}")
    elif path.endswith("/explain"):
        explained(ident, EXPLANATION)
    return names
