# SPDX-License-Identifier: Apache-2.0
"""Create capsules of real containers over HTTP, and look into them."""

import shlex

from zun.tests.fixtures import wait_for

SETTLED = ("Running", "Stopped", "Error")


def container(script, cpu=1, memory=32, **members):
    requests = {"cpu": cpu, "memory": memory}
    return {"image": "zun-demo", "command": ["sh", "-c", script], "resources": {"requests": requests}, **members}


def create(api, *containers, inits=(), **spec):
    body = {"kind": "capsule", "metadata": {"name": "pod"}, "spec": {"containers": list(containers), **spec}}
    body["spec"]["initContainers"] = list(inits)
    answer = api.request("POST", "/capsules", json={"template": body})
    assert answer.status_code == 202, answer.text
    return answer.json()["uuid"]


def settled(api, uuid_):
    def look():
        shown = api.get(f"/capsules/{uuid_}")
        return shown if shown["status"] in SETTLED else None

    return wait_for(look, 120)


def said(api, shown, *command):
    """Return the output of a command in a container of a capsule."""
    answer = api.request("POST", f"/containers/{shown['uuid']}/execute", params={"command": shlex.join(command)})
    assert answer.status_code == 200, answer.text
    assert answer.json()["exit_code"] == 0, answer.text
    return answer.json()["output"]
