# SPDX-License-Identifier: Apache-2.0
"""Upgrade a cloud service by service, in the order of doc/source/admin/upgrade.rst, while requests arrive.

``before``: from an earlier commit to this release, and back. Host ``a`` has real containers. ``next``: from this
release to a simulated one, which is this release with one more column, field of an object and message, and back.

One host is upgraded out of order, when everything else but the schema is old.
"""

import os
import threading
import types
import uuid

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration import another_release
from zun.tests.integration.programs import Api, free_port

pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.distributed, pytest.mark.timeout(580)]
BEFORE = os.environ.get("ZUN_TEST_RELEASE_BEFORE", "90044020e23cac2b893701f07a2a254b488d3175")
"""The release before: before the conductor, and when all hosts shared one exchange with the schedulers."""


@pytest.fixture(params=["before", "next"])
def releases(request, tmp_path_factory):
    """The environments of the programs of the ``old`` and of the ``new`` release; None is this one."""
    if request.param == "next":
        folder = tmp_path_factory.mktemp("next")
        return types.SimpleNamespace(old=None, new=another_release.next_release(folder), next=True)
    missing = another_release.missing(BEFORE)
    if missing and another_release.is_shallow():
        pytest.skip(missing)
    assert not missing, missing
    folder = tmp_path_factory.mktemp("before")
    return types.SimpleNamespace(old=another_release.of_commit(BEFORE, folder), new=None, next=False)


@pytest.fixture
def service(program, tmp_path, rabbit_url, database_url):
    """Makes a program of a release: ``service("compute", "a", environment)``."""
    name = f"test-{uuid.uuid4().hex[:8]}"

    def make(module, who, environment, words=(), **settings):
        made = program(
            module,
            f"{module}-{who}-{'this' if environment is None else 'other'}",
            words=words,
            DEFAULT={
                "host": f"{name}-{who}",
                "transport_url": rabbit_url,
                "control_exchange": name,
                "state_path": tmp_path / f"state-{who}",
            },
            database={"connection": database_url},
            oslo_messaging_rabbit={"rabbit_quorum_queue": "true", "heartbeat_timeout_threshold": 10},
            **settings,
        )
        made.environment, made.host = environment, f"{name}-{who}"
        return made

    return make


class Customers:
    """Create, list, look at and delete containers all the time, on a thread of their own. A failure is kept.

    The containers of the host ``entered`` also execute a command.
    """

    def __init__(self, api):
        self.api, self.entered = api, None
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
        made = api.run(cpu=0.1)
        shown = api.settled(made)
        assert shown["status"] == "Running", shown["status_reason"]
        assert made in {each["uuid"] for each in api.get("/containers")["containers"]}
        if shown["host"] == self.entered:
            answer = api.request("POST", f"/containers/{made}/execute?command=echo%20here")
            assert answer.status_code == 200, answer.text
        answer = api.request("DELETE", f"/containers/{made}?force=true")
        assert answer.status_code == 204, answer.text
        self.hosts.add(shown["host"])
        self.rounds += 1

    def end(self):
        self._stop.set()
        self._thread.join(120)


class Cloud:
    """The programs of a cloud, first all of the old release. Host ``b`` asks the conductor where its release can."""

    def __init__(self, service, releases, docker_url):
        self.service, self.releases, self._docker_url = service, releases, docker_url
        old = releases.old
        self.upgrade_schema(old)
        self.conductor = self.start_conductor(old, "c1") if releases.next else None
        self.scheduler = self.start_scheduler(old, "s1")
        self.computes = {who: self.start_compute(old, who) for who in ("a", "b")}
        self.server, self.api = self.start_api(old)
        self.kept = None

    @property
    def has_docker(self):
        """Whether host ``a`` has real containers."""
        return not self.releases.next

    @property
    def early_host(self):
        """The host that is upgraded before scheduler and API; ``b`` also before the conductor that it asks."""
        return "b" if self.releases.next else "a"

    @property
    def late_host(self):
        return "a" if self.early_host == "b" else "b"

    def upgrade_schema(self, environment):
        code, said = self.service("db_manage", "schema", environment, words=("upgrade",)).run_to_end()
        assert code == 0, said

    def upgrade_check(self, environment):
        """Return exit code and output of ``zun-status upgrade check``."""
        return self.service("status", "check", environment, words=("upgrade", "check")).run_to_end()

    def start_api(self, environment):
        port = free_port()
        made = self.service("api", f"p{port}", environment, api={"port": port, "auth_strategy": "noauth"})
        made.start()
        return made, Api(f"http://127.0.0.1:{port}/v1")

    def start_conductor(self, environment, who):
        made = self.service("conductor", who, environment)
        made.start()
        return made

    def start_scheduler(self, environment, who):
        made = self.service("scheduler", who, environment, scheduler={"sweep_interval": 1, "lost_after": 10})
        made.start()
        return made

    def start_compute(self, environment, who):
        settings = {"compute": {"reserved_host_memory_mb": 128}}
        if who == "a" and self.has_docker:
            settings["docker"] = {"api_url": self._docker_url}
        else:
            settings["compute"] |= {"container_driver": "fake"}
            settings["network"] = {"driver": "fake"}
        if who == "b" and (environment is None or self.releases.next):
            settings["compute"] |= {"database": "conductor"}
        made = self.service("compute", who, environment, **settings)
        made.start()
        return made

    def replace(self, who, environment):
        """Restart the agent of host ``who`` with another release."""
        self.computes[who].stop()
        self.computes[who] = self.start_compute(environment, who)


@pytest.fixture
def cloud(service, releases, docker_url, engine):
    made = Cloud(service, releases, docker_url)
    yield made
    made.api.delete_all()
    for network in engine.networks(filters={"label": [f"zun.host={made.computes['a'].host}", "zun.default"]}):
        engine.remove_network(network["Id"])


def check(cloud, customers, step):
    """Every customer is served after the ``step``, each host has an answer of its own, and containers run on."""
    rounds, api = customers.rounds, cloud.api
    for host in (each.host for each in cloud.computes.values()):
        made = api.run(cpu=0.1, host=host)
        shown = api.settled(made)
        assert (shown["status"], shown["host"]) == ("Running", host), f"{step}: {shown['status_reason']}"
        assert api.request("GET", f"/containers/{made}/stats").status_code == 200, step
        resized = api.request("PATCH", f"/containers/{made}?memory=128")
        assert resized.status_code == 200, f"{step}: {resized.text}"
        assert api.request("DELETE", f"/containers/{made}?force=true").status_code == 204, step
    if cloud.kept:
        answer = api.request("POST", f"/containers/{cloud.kept}/execute?command=cat%20/tmp/kept")
        assert (answer.status_code, answer.json().get("output")) == (200, "here\n"), f"{step}: {answer.text}"
    wait_for(lambda: customers.failures or customers.rounds > rounds, 60)
    assert customers.failures == [], step


def test_no_request_fails_during_a_rolling_upgrade(cloud, releases):
    old, new, customers = releases.old, releases.new, Customers(cloud.api)
    if cloud.has_docker:
        script = "echo here > /tmp/kept; sleep 1000"
        cloud.kept = cloud.api.run(cpu=0.1, host=cloud.computes["a"].host, command=["sh", "-c", script])
        assert cloud.api.settled(cloud.kept)["status"] == "Running"
    check(cloud, customers, "before")

    code, said = cloud.upgrade_check(new)
    assert (code, "'zun-db-manage upgrade'" in " ".join(said.replace("|", " ").split())) == (2, True), said
    cloud.upgrade_schema(new)
    check(cloud, customers, "new schema")
    code, said = cloud.upgrade_check(new)
    assert code == 0, said

    cloud.replace(cloud.early_host, new)
    check(cloud, customers, "new host, everything else old")

    added = cloud.start_conductor(new, "c2")
    if cloud.conductor:
        cloud.conductor.stop()
    cloud.conductor = added
    added = cloud.start_scheduler(new, "s2")
    check(cloud, customers, "one scheduler of each release, new conductor")
    cloud.scheduler.stop()
    cloud.scheduler = added
    check(cloud, customers, "new scheduler")

    early, early_api = cloud.start_api(new)  # out of order, to see that nothing but the new message is refused
    made = early_api.run(cpu=0.1, host=cloud.computes[cloud.late_host].host)
    assert early_api.settled(made)["status"] == "Running"
    if releases.next:
        refused = early_api.request("GET", f"/containers/{made}/top")
        assert refused.status_code == 503
        assert "older release" in refused.text
    assert early_api.request("DELETE", f"/containers/{made}?force=true").status_code == 204

    cloud.replace(cloud.late_host, new)
    check(cloud, customers, "new hosts")
    if cloud.has_docker:  # containers of the fake driver end with their agent
        customers.entered = cloud.computes["a"].host  # not before: old agents lose commands while they stop

    old_api, cloud.server = cloud.server, early
    customers.api = cloud.api = early_api
    check(cloud, customers, "new API")
    old_api.stop()
    made = cloud.api.run(cpu=0.1)
    assert cloud.api.settled(made)["status"] == "Running"
    assert cloud.api.request("GET", f"/containers/{made}/top").status_code == 200
    if releases.next:
        assert any(b"The colour is blue" in each.log.read_bytes() for each in cloud.computes.values())
    go_back(cloud, customers, old)
    customers.end()
    assert customers.failures == []
    assert customers.hosts == {each.host for each in cloud.computes.values()}


def go_back(cloud, customers, old):
    """Go back to the old release in the opposite order. Before ``next`` no release had a conductor."""
    new_api = cloud.server
    cloud.server, back = cloud.start_api(old)
    customers.api = cloud.api = back
    check(cloud, customers, "old API in front of new hosts")
    new_api.stop()
    for who in ("a", "b"):
        cloud.replace(who, old)
    check(cloud, customers, "old hosts")
    added = cloud.start_scheduler(old, "s3")
    cloud.scheduler.stop()
    cloud.scheduler = added
    added = cloud.start_conductor(old, "c3") if cloud.releases.next else None
    cloud.conductor.stop()
    cloud.conductor = added
    check(cloud, customers, "everything old")
