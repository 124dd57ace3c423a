# SPDX-License-Identifier: Apache-2.0
"""Members may choose one runtime and no other: from the policy file to Docker, with a second runtime of its daemon."""

import shutil

import docker
import pytest

from zun.tests.integration.container import own_daemon
from zun.tests.integration.programs import Api

pytestmark = pytest.mark.docker


@pytest.fixture
def daemon(docker_url, short_path):
    """A Docker with the runtimes ``boxed`` and ``other``, which are runc by other names."""
    runc = shutil.which("runc")
    with own_daemon.running(short_path, f"--add-runtime=boxed={runc}", f"--add-runtime=other={runc}") as made:
        yield made


def test_a_member_gets_the_runtime_of_a_rule(on_docker, daemon, tmp_path):
    rules = tmp_path / "policy.yaml"
    rules.write_text('"container:create:runtime:boxed": "@"\n"container:create:runtime:absent": "@"\n')
    service = on_docker(docker={"api_url": daemon.url}, oslo_policy={"policy_file": rules})
    service.start()
    administrator, member = Api(service.url, "demo"), Api(service.url, "demo")
    member._session.headers["X-Roles"] = "member"
    try:
        shown = member.settled(member.run(cpu=0.2, runtime="boxed"))
        assert shown["status"] == "Running", shown["status_reason"]
        engine = docker.APIClient(daemon.url, version="auto")
        assert engine.inspect_container(f"zun-{shown['uuid']}")["HostConfig"]["Runtime"] == "boxed"
        engine.close()
        body = {"image": "zun-demo", "cpu": 0.2, "memory": 64, "runtime": "other"}
        refused = member.request("POST", "/containers", json=body)
        assert refused.status_code == 403 and "container:create:runtime:other" in refused.text
        nowhere = member.settled(member.run(cpu=0.2, runtime="absent"))
        assert nowhere["status"] == "Error" and "RuntimeFilter" in nowhere["status_reason"]
    finally:
        administrator.delete_all()
        service.stop()
