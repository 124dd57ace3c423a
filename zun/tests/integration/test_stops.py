# SPDX-License-Identifier: Apache-2.0
"""Docker ends a container that is being stopped slowly, or starts it again, and the rows and the claims follow."""

import pytest

from zun.db import containers as db
from zun.tests.fixtures import wait_for
from zun.tests.functional.actions import HOUR, WELL, accept_delete, asked, ended
from zun.tests.integration.host import Host

pytestmark = [pytest.mark.docker, pytest.mark.in_turn]

TELLS = ["sh", "-c", "trap 'echo asked' TERM; while :; do sleep 0.1; done"]


@pytest.fixture
def host(database, docker_url):
    host = Host(docker_url)
    yield host
    for each in host.engine.containers(filters={"label": f"zun.host={host.name}"}):
        host.engine.kill(each["Id"])
    host.clean()


@pytest.fixture
def container(host):
    return host.run(command=TELLS, cpu_policy="dedicated")


def begin(host, container, action):
    """Ask for it, and wait until the container has been told."""
    getattr(host.cloud.compute_api, action)(asked(action, container, 2), container, timeout=HOUR)
    wait_for(lambda: b"asked" in host.engine.logs(f"zun-{container.uuid}"))


def test_a_kill(host, container):
    begin(host, container, "stop")
    host.cloud.compute_api.kill(asked("kill", container, 3), container, signal="SIGHUP")
    assert ended(container, "req-3") == WELL["kill"]
    assert db.get(container.uuid)["task_state"] == "container_stopping"
    host.cloud.compute_api.kill(asked("kill", container, 4), container)
    assert (ended(container, "req-2"), ended(container, "req-4")) == (WELL["stop"], WELL["kill"])
    found = host.cloud.settled(container)
    assert (found.status, found.status_reason, found.exit_code) == ("Stopped", None, 137)
    assert found.cpuset is not None


@pytest.mark.parametrize("how", [{"force": True}, {"stop_timeout": 1}], ids=["force", "stop"])
@pytest.mark.parametrize("action", ["stop", "reboot"])
def test_a_deletion(host, container, action, how):
    if action == "reboot":
        host.cloud.accept_reboot(container)
    begin(host, container, action)
    accept_delete(container)
    host.cloud.compute_api.delete(host.context, container, **how)
    host.cloud.gone(container)
    assert host.engine.containers(all=True, filters={"label": f"zun.uuid={container.uuid}"}) == []
    assert list(host.cloud.agents[host.name].tracker.usage.owners) == []


@pytest.mark.parametrize("kind", ["dedicated", "shared"])
def test_a_restart(host, kind):
    """It is seen to run where it is to, and ended when the kernel was told otherwise."""
    container = host.run(cpu_policy=kind, cpu=1.0)
    wrong, pid = "1" if host.config(container) == "0" else "0", host.pid(container)

    def reboot():
        host.cloud.accept_reboot(container)
        host.cloud.compute_api.reboot(host.context, container, timeout=0)
        return host.cloud.settled(container)

    found = reboot()
    assert (found.status, found.status_reason) == ("Running", None) and host.pid(container) not in (0, pid)
    view = host.driver.kernel_view
    host.driver.kernel_view = lambda *given: host.cpus_file(container).write_text(wrong) and view(*given)
    found = reboot()
    assert found.status == "Error" and f"its cgroup allows CPUs {wrong}, the plan is" in found.status_reason
    assert host.pid(container) == 0
