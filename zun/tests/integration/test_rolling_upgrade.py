# SPDX-License-Identifier: Apache-2.0
"""Upgrade a cloud service by service, in the order of doc/source/admin/upgrade.rst, while requests arrive.

By default this release is the old one, and the new one is simulated: this release with one more column, field of an
object and message. ``ZUN_TEST_RELEASE_BEFORE`` names a commit of the release before; then this release is the new one.
"""

import os
import threading
import types
import uuid

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration import another_release
from zun.tests.integration.programs import Api, free_port

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(580)]
BEFORE = os.environ.get("ZUN_TEST_RELEASE_BEFORE")


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """The environments of the programs of the ``old`` and of the ``new`` release."""
    folder = tmp_path_factory.mktemp("release")
    if BEFORE:
        return types.SimpleNamespace(old=another_release.of_commit(BEFORE, folder), new=None)
    return types.SimpleNamespace(old=None, new=another_release.next_release(folder))


@pytest.fixture
def service(program, tmp_path, rabbit_url, database_url):
    """Makes a program of a release: ``service("compute", "a", environment)``. The hosts' containers are in memory."""
    name = f"test-{uuid.uuid4().hex[:8]}"

    def make(module, who, environment, words=(), **settings):
        made = program(
            module,
            f"{module}-{who}-{'this' if environment is None else 'other'}",
            words=words,
            DEFAULT={
                "host": who,
                "transport_url": rabbit_url,
                "control_exchange": name,
                "state_path": tmp_path / f"state-{who}",
            },
            database={"connection": database_url},
            oslo_messaging_rabbit={"rabbit_quorum_queue": "true", "heartbeat_timeout_threshold": 10},
            **settings,
        )
        made.environment = environment
        return made

    return make


class Customers:
    """Create, list, look at and delete containers all the time, on a thread of their own. A failure is kept."""

    def __init__(self, api):
        self.api = api
        self.rounds = 0
        self.hosts = set()
        self.failures = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self):
        while not self._stop.is_set():
            try:
                self._round(self.api)
            except Exception as exc:
                self.failures.append(exc)

    def _round(self, api):
        made = api.run(cpu=0.1, image="demo", command=["sleep", "1000"])
        shown = api.settled(made)
        assert shown["status"] == "Running", shown["status_reason"]
        assert made in {each["uuid"] for each in api.get("/containers")["containers"]}
        answer = api.request("DELETE", f"/containers/{made}?force=true")
        assert answer.status_code == 204, answer.text
        self.hosts.add(shown["host"])
        self.rounds += 1

    def end(self):
        self._stop.set()
        self._thread.join(120)


@pytest.fixture
def cloud(service, releases):
    """Everything of the old release, on which customers work."""
    code, said = service("db_manage", "schema", releases.old, words=("upgrade",)).run_to_end()
    assert code == 0, said

    def api(environment):
        port = free_port()
        made = service("api", f"p{port}", environment, api={"port": port, "auth_strategy": "noauth"})
        return made, Api(f"http://127.0.0.1:{port}/v1")

    def scheduler(environment, who):
        return service("scheduler", who, environment, scheduler={"sweep_interval": 1, "lost_after": 10})

    def compute(environment, host):
        fake = {"container_driver": "fake", "reserved_host_memory_mb": 128}
        return service("compute", host, environment, compute=fake, network={"driver": "fake"})

    made = types.SimpleNamespace(make_api=api, make_scheduler=scheduler, make_compute=compute)
    made.scheduler = scheduler(releases.old, "s1")
    made.computes = {host: compute(releases.old, host) for host in ("a", "b")}
    made.server, made.api = api(releases.old)
    for each in (made.scheduler, *made.computes.values(), made.server):
        each.start()
    return made


def check(cloud, customers, step):
    """Every customer is served after the ``step``, and each host has an answer of its own."""
    rounds = customers.rounds
    for host in cloud.computes:
        made = cloud.api.run(cpu=0.1, host=host, image="demo", command=["sleep", "1000"])
        shown = cloud.api.settled(made)
        assert (shown["status"], shown["host"]) == ("Running", host), f"{step}: {shown['status_reason']}"
        assert cloud.api.request("GET", f"/containers/{made}/stats").status_code == 200, step
        resized = cloud.api.request("PATCH", f"/containers/{made}?memory=128")
        assert resized.status_code == 200, f"{step}: {resized.text}"
        assert cloud.api.request("DELETE", f"/containers/{made}?force=true").status_code == 204, step
    wait_for(lambda: customers.failures or customers.rounds > rounds, 60)
    assert customers.failures == [], step


def test_no_request_fails_during_a_rolling_upgrade(cloud, service, releases):
    new, customers = releases.new, Customers(cloud.api)
    check(cloud, customers, "before")

    code, said = service("db_manage", "schema", new, words=("upgrade",)).run_to_end()
    assert code == 0, said
    check(cloud, customers, "new schema")

    added = cloud.make_scheduler(new, "s2")
    added.start()
    check(cloud, customers, "one scheduler of each release")
    cloud.scheduler.stop()
    check(cloud, customers, "new schedulers")

    early, early_api = cloud.make_api(new)  # out of order, to see that nothing but the new message is refused
    early.start()
    if not BEFORE:
        made = early_api.run(cpu=0.1, image="demo", command=["sleep", "1000"])
        assert early_api.settled(made)["status"] == "Running"
        refused = early_api.request("GET", f"/containers/{made}/top")
        assert refused.status_code == 503
        assert "older release" in refused.text

    for host in list(cloud.computes):
        cloud.computes[host].stop()
        cloud.computes[host] = cloud.make_compute(new, host)
        cloud.computes[host].start()
        check(cloud, customers, f"new host {host}")

    old_api = cloud.server
    customers.api = cloud.api = early_api
    check(cloud, customers, "new API")
    old_api.stop()
    check(cloud, customers, "everything new")
    made = cloud.api.run(cpu=0.1, image="demo", command=["sleep", "1000"])
    assert cloud.api.settled(made)["status"] == "Running"
    assert cloud.api.request("GET", f"/containers/{made}/top").status_code == 200
    if not BEFORE:
        assert any(b"The colour is blue" in each.log.read_bytes() for each in cloud.computes.values())
    customers.end()
    assert customers.failures == []
    assert customers.hosts == {"a", "b"}
