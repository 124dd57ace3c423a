# SPDX-License-Identifier: Apache-2.0
"""In every microversion, the API gives the answers that the texts in ``corpus`` show.

``corpus`` has a text file for each noun: requests to a small cloud, with the whole answer of the first microversion
that has the request, and the differences of later ones. ``openapi.txt`` has the OpenAPI document in the same form, but
sorted where no order counts.
``ZUN_CORPUS=write`` writes the files anew: what then differs is what clients see of a change.
"""

import difflib
import json
import os
import pathlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from zun.api import microversion
from zun.api.microversion import Version
from zun.api.routes import Route
from zun.tests.functional.api.client import Reply
from zun.tests.functional.cloud import configuration
from zun.tests.functional.worlds import Front, World
from zun.tests.unit.api.table import ROUTES

FOLDER = pathlib.Path(__file__).parent / "corpus"
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DRAWN = re.compile(
    r'(req-)[0-9a-f-]{36}|("hostname": ")[0-9a-f]{12}|("host_port": )[0-9]{5}|("name": "capsule-pod-)[a-z]+-[0-9]+'
    r"|([0-9]:[0-9]{2})\.[0-9]{6}"
)
"""Values that differ from run to run: request ids, random names and ports, fractions of seconds. They are cut off."""
HEADERS = ("content-type", "location", "cache-control", "allow")
"""The headers that are compared. Others name the version, the request or the length."""

RUN = {"image": "zun-demo", "command": ["sleep", "1000"], "memory": 64}
CAPSULE = {
    "template": {
        "kind": "capsule",
        "metadata": {"name": "pod", "labels": {"app": "web"}},
        "spec": {"containers": [{"image": "zun-demo", "command": ["sleep", "1000"]}], "restartPolicy": "Always"},
    }
}
DEDICATED = {
    **RUN,
    "name": "dedicated",
    "cpu": 2,
    "cpu_policy": "dedicated",
    "numa_nodes": 1,
    "nets": [{"network": "front"}],
    "mounts": [
        {"type": "bind", "source": "dGV4dA==", "destination": "/data"},
        {"type": "volume", "source": "kept", "destination": "/kept"},
    ],
    "environment": {"A": "b"},
    "restart_policy": {"Name": "on-failure", "MaximumRetryCount": "2"},
    "hostname": "web",
    "workdir": "/",
    "hints": {"group": "apart"},
    "capabilities": ["NET_RAW"],
}
LOOKED_AFTER = {
    **RUN,
    "name": "looked-after",
    "exposed_ports": {"80/tcp": {}},
    "healthcheck": {"cmd": "true", "interval": 10, "timeout": 5, "retries": 3},
    "entrypoint": ["/bin/sh"],
    "interactive": True,
    "tty": True,
}
MADE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("POST", "networks", {"name": "front", "subnets": [{"cidr": "10.99.0.0/24"}]}),
    ("POST", "groups", {"name": "apart", "policy": "anti-affinity"}),
    ("POST", "registries", {"registry": {"name": "mine", "domain": "reg.example"}}),
    ("POST", "aggregates", {"name": "racks", "availability_zone": "here"}),
    ("POST", "aggregates/racks/add_host", {"host": "one"}),
    ("POST", "aggregates/racks/set_metadata", {"metadata": {"rack": "3"}}),
    ("PUT", "hosts/one/traits", {"traits": ["CUSTOM_FAST"]}),
    ("PUT", "quotas/demo", {"containers": 7}),
    ("PUT", "quota_classes/default", {"memory": 4096}),
    ("POST", "images", {"repo": "zun-demo", "host": "one"}),
    ("POST", "containers?run=true", {**RUN, "name": "shared", "cpu": 1, "labels": {"a": "b"}}),
    ("POST", "containers?run=true", DEDICATED),
    ("POST", "containers?run=true", {**RUN, "name": "mixed", "cpu": 1.5, "cpu_policy": "mixed", "dedicated_cpus": 1}),
    ("POST", "containers?run=true", LOOKED_AFTER),
    ("POST", "containers?run=true", {**RUN, "name": "too-large", "cpu": 9, "cpu_policy": "dedicated"}),
    ("POST", "containers/shared/stop", {}),
    ("POST", "containers/dedicated/commit?repository=kept&tag=1", {}),
    ("POST", "containers/dedicated/resize_container", {"cpu": 3}),
    ("POST", "capsules", CAPSULE),
    ("POST", "containers", {**RUN, "name": "many", "cpu": 1, "count": 1, "set": {"spread": "host"}}),
    ("POST", "placement/dry_run", {"memory": 64, "cpu": 2, "cpu_policy": "dedicated", "count": 3}),
    ("POST", "placement/capacity", {"memory": 64, "cpu": 2, "cpu_policy": "dedicated"}),
)
"""The requests that make what later ones ask for."""

NAMED = {
    "ident": "dedicated",
    "capsule": "pod",
    "group": "apart",
    "set": "many",
    "network": "front",
    "host": "one",
    "aggregate": "racks",
    "project_id": "demo",
    "name": "default",
    "volume": "kept",
}
MORE = (
    *("containers/shared", "containers/mixed", "containers/looked-after", "containers/too-large", "registries/mine"),
    *("containers/too-large/explain", "containers/too-large/container_actions", "containers/no-such-container"),
)
"""Further requests by GET."""
ELSEWHERE = {
    *("containers/{ident}/attach", "containers/{ident}/get_archive", "containers/{ident}/stats"),
    "images/{owner}/{name}/search",
}
"""Requests by GET whose answers are streams, or figures of the moment."""
WRONG = {"no-such-argument": 1}
"""The body of every other request: its error names what is missing, or what is possible."""


@pytest.fixture(scope="module")
def answered(lasting_database, tmp_path_factory) -> Iterator[dict[str, str]]:
    """The text of each file, by its name."""
    conf = configuration(api__auth_strategy="noauth", api__host_names=["zun.example"], api__access_log=False)
    texts: dict[str, list[str]] = defaultdict(list)
    ids: dict[str, str] = {}  # in the order in which answers have them

    def plain(text: str) -> str:
        text = DRAWN.sub(lambda found: found[found.lastindex], text)
        return UUID.sub(lambda found: ids.setdefault(found[0], f"00000000-0000-4000-8000-{len(ids) + 1:012}"), text)

    def tell(method: str, path: str, versions: Iterable[Version], *body: Any) -> None:
        text = texts[re.split("[/?]", path)[0]]
        text.append(plain(f"{method} /v1/{path}{''.join(f' {json.dumps(each)}' for each in body)}\n"))
        answers = ((str(each), world.ask(method, path, *body, version=str(each))) for each in versions)
        text.extend(told((version, plain(shown(reply)).splitlines()) for version, reply in answers))

    with lasting_database.empty():
        world = World(conf, tmp_path_factory.mktemp("state"), Front(conf))
        try:
            for method, path, body in MADE:
                tell(method, path, [microversion.MAX], body)
                world.go_on()
            names = defaultdict(lambda: "unknown", NAMED, uuid=world.ask("GET", "images").json["images"][0]["uuid"])
            for route in (each for each in ROUTES if each.method == "GET" and each.path not in ELSEWHERE):
                tell("GET", route.path.format_map(names), versions_of(route))
            for path in MORE:
                tell("GET", path, microversion.EVERY)
            for route in (each for each in ROUTES if each.method in ("POST", "PUT", "PATCH")):
                tell(route.method, route.path.format_map(names), versions_of(route), WRONG)
            documents = ((str(each), world.api.get(f"/v1/openapi.json?version={each}")) for each in microversion.EVERY)
            texts["openapi"] = list(told((version, sorted_lines(reply)) for version, reply in documents))
            yield {name: "".join(lines) for name, lines in texts.items()}
        finally:
            world.close()


def versions_of(route: Route) -> list[Version]:
    return [each for each in microversion.EVERY if route.since <= each <= route.until]


def told(found: Iterable[tuple[str, list[str]]]) -> Iterator[str]:
    """Yield the lines of the first version, and the differences of each later one that has any."""
    before: list[str] | None = None
    for version, now in found:
        if now != before:
            yield f"  {version}:\n"
            yield from (f"    {line}\n" for line in (now if before is None else differences(before, now)))
        before = now


def differences(before: list[str], now: list[str]) -> Iterator[str]:
    """Yield the lines of a unified diff, without the numbers of lines."""
    _, _, *lines = difflib.unified_diff(before, now, n=1, lineterm="")
    return ("@@" if line.startswith("@@") else line for line in lines)


def shown(reply: Reply) -> str:
    try:
        body = json.dumps(reply.json, indent=1, ensure_ascii=False)
    except ValueError:
        body = reply.body.decode()
    headers = [f"{name}: {reply.headers[name]}" for name in HEADERS if name in reply.headers]
    return "\n".join([str(reply.status), *headers, body])


def sorted_lines(reply: Reply) -> list[str]:
    """Return the lines of a document, with sorted members and sorted names of required members: no order counts."""
    found = json.loads(reply.body, object_hook=lambda members: members | _sorted(members))
    return json.dumps(found, indent=1, sort_keys=True).splitlines()


def _sorted(members: dict[str, Any]) -> dict[str, Any]:
    required = members.get("required")
    return {"required": sorted(required)} if isinstance(required, list) else {}


def test_answers_are_those_of_the_corpus(answered):
    if os.environ.get("ZUN_CORPUS") == "write":
        FOLDER.mkdir(exist_ok=True)
        for name, text in answered.items():
            (FOLDER / f"{name}.txt").write_text(text)
    kept = {each.stem: each.read_text() for each in FOLDER.glob("*.txt")}
    assert kept.keys() == answered.keys()
    for name, text in answered.items():
        changed = list(difflib.unified_diff(kept[name].splitlines(), text.splitlines(), lineterm=""))
        assert not changed, "\n".join([f"{name}.txt:", *changed[:60]])
