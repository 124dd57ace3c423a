# SPDX-License-Identifier: Apache-2.0
"""The answer that each of four people gets at every route. Whoever does not say who they are gets 401 at all of them.

The stranger is a member of another project. Reader and member are of the project that owns the container. The
administrator is of a third project.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zun.api import microversion
from zun.api.controllers.v1 import NOUNS, Parts
from zun.api.routes import Route
from zun.db import aggregates, containers, explanations, groups
from zun.tests.functional.api.client import Reply

PEOPLE = ("stranger", "reader", "member", "admin")
PROJECTS = {"stranger": "other", "reader": "demo", "member": "demo", "admin": "operators"}
ROLES = {"stranger": "member", "reader": "reader", "member": "member", "admin": "admin"}
HOST = "host-1"


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
    return Case((200, 200, 200, 200), body={"cpu": 1, "memory": 64})


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
SERVICE = {"host": HOST, "binary": "zun-compute"}
ITEM = "containers/{ident}"
CASES: dict[str, Sequence[Case]] = {
    "GET containers": (Case((200, 200, 200, 200)), administer(query="all_projects=1"), administer(query="host=x")),
    # The stranger creates it in the project that is theirs.
    "POST containers": (
        Case((202, 403, 202, 202), body={"image": "demo"}),
        Case((403, 403, 403, 202), body={"image": "demo", "runtime": "runc"}),
        Case((403, 403, 403, 202), body={"image": "demo", "host": HOST}),
        Case((403, 403, 403, 202), body={"image": "demo", "image_pull_policy": "never"}),
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
    f"GET {ITEM}/logs": (look(),),
    f"GET {ITEM}/top": (look(),),
    f"GET {ITEM}/stats": (look(),),
    f"GET {ITEM}/explain": (look(),),
    "POST placement/dry_run": (question(),),
    "POST placement/capacity": (question(),),
    "GET groups": (Case((200, 200, 200, 200)), administer(query="all_projects=1")),
    "POST groups": (Case((201, 403, 201, 201), body={"name": "web", "policy": "affinity"}),),
    "GET groups/{group}": (look(),),
    "DELETE groups/{group}": (act(204),),
    "GET aggregates": (administer(),),
    "POST aggregates": (Case((403, 403, 403, 201), body={"name": "fast"}),),
    "GET aggregates/{aggregate}": (administer(),),
    "PATCH aggregates/{aggregate}": (administer(body={"name": "fast"}),),
    "DELETE aggregates/{aggregate}": (Case((403, 403, 403, 204)),),
    "POST aggregates/{aggregate}/add_host": (administer(body={"host": HOST}),),
    "POST aggregates/{aggregate}/remove_host": (administer(body={"host": HOST}),),
    "POST aggregates/{aggregate}/set_metadata": (administer(body={"metadata": {"ssd": "true"}}),),
    "GET hosts": (administer(),),
    "GET hosts/{host}": (administer(),),
    "GET hosts/{host}/topology": (administer(),),
    "POST hosts/{host}/audit": (administer(),),
    "GET services": (administer(),),
    "PUT services/enable": (administer(body=SERVICE),),
    "PUT services/disable": (administer(body=SERVICE),),
    "PUT services/force_down": (administer(body={**SERVICE, "forced_down": False}),),
    "DELETE services": (administer(query="host=host-1&binary=zun-compute"),),
    "GET availability_zones": (Case((200, 200, 200, 200)),),
}


def routes(parts: Parts) -> dict[str, Route]:
    """Every row of the route table, by ``METHOD path``."""
    rows = [route for noun in NOUNS for route in noun(parts).routes()]
    return {f"{route.method} {route.path}": route for route in rows}


def send(ask: Callable[..., Reply], route: Route, case: Case, ident: str) -> Reply:
    """Send the request of ``case``. ``ask`` is called like ``Client.send``, with the person's proof in it."""
    path = "/v1/" + route.path.format(**_names(route, ident)) + (f"?{case.query}" if case.query else "")
    version = {"OpenStack-API-Version": f"container {min(route.until, microversion.MAX)}"}
    body = {} if case.body is None else {"body": case.body}
    return ask(route.method, path, headers=version, **body)


_numbers = itertools.count()


def _names(route: Route, ident: str) -> dict[str, str]:
    """What the variables of the path stand for: rows made anew, of the project that owns container ``ident``."""
    names, number = {"ident": ident, "host": HOST}, next(_numbers)
    if "{group}" in route.path:
        owner = containers.get(ident)["project_id"]
        values = {"name": f"group-{number}", "project_id": owner, "policy": "affinity", "rules": {}}
        names["group"] = groups.insert(values)["uuid"]
    if "{aggregate}" in route.path:
        names["aggregate"] = aggregates.insert(f"aggregate-{number}", {})["uuid"]
        if route.path.endswith("remove_host"):
            aggregates.add_host(names["aggregate"], HOST)
    if route.path.endswith("/explain"):
        explanations.put(ident, EXPLANATION)
    return names
