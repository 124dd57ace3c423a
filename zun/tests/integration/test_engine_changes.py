# SPDX-License-Identifier: Apache-2.0
"""Another Docker, or another store, comes under containers that run, while their agent stays up.

The slow tests need Docker's packages of two Debian suites: ``tools/engine.sh fetch trixie sid``.
"""

import contextlib
import os
import pathlib
import signal
import types

import pytest

import zun
from zun.common import exceptions
from zun.common.mounts import Kind, Mount
from zun.db import compute_nodes
from zun.db import containers as db
from zun.tests.fixtures import becomes, wait_for
from zun.tests.integration.container.own_daemon import OwnDaemon, need_own_daemon
from zun.tests.integration.host import Host, group_of
from zun.volume.volumes import Volumes

pytestmark = pytest.mark.docker

ROOT = pathlib.Path(zun.__file__).parents[1]
ENGINES = pathlib.Path(os.environ.get("ZUN_RUN_DIR", ROOT / ".run")) / "engines"
LIVE = "--live-restore"
CONTAINERD = ("--storage-driver=native", "--feature=containerd-snapshotter=true")
NO = {"Name": "no", "MaximumRetryCount": "0"}
ALWAYS = {"Name": "always", "MaximumRetryCount": "0"}


class Engine:
    """One data folder, and the Docker that serves it now."""

    def __init__(self, folder):
        self.folder = folder
        self.daemon = None

    def be(self, suite, *options):
        """Stop the present Docker, and start that of ``suite`` (None: of this machine) in its place."""
        self.stop()
        program = "dockerd" if suite is None else str(ENGINES / suite / "bin" / "dockerd")
        plain = self.folder / "daemon.json"  # not the one of this machine
        plain.write_text("{}")
        self.daemon = OwnDaemon(self.folder, f"--config-file={plain}", *options, program=program)
        self.daemon.start()

    def stop(self):
        if self.daemon is not None and self.daemon._process is not None:
            self.daemon.stop()

    @property
    def url(self):
        return self.daemon.url


@pytest.fixture
def engine(docker_url, database, short_path, monkeypatch):
    need_own_daemon()
    monkeypatch.setenv("ZUN_ENGINE_WORK", str(ROOT))
    made = Engine(short_path)
    yield made
    made.daemon.clean()


@pytest.fixture
def suites():
    missing = [each for each in ("trixie", "sid") if not (ENGINES / each / "bin" / "dockerd").exists()]
    if missing:
        reason = f"no packages of {', '.join(missing)}: tools/engine.sh fetch {' '.join(missing)}"
        pytest.fail(reason) if os.environ.get("ZUN_REQUIRE_ENGINES") == "1" else pytest.skip(reason)


@contextlib.contextmanager
def on(engine):
    """Give a host whose agent looks at its engine each second."""
    real = types.SimpleNamespace(as_volumes=lambda: Volumes.of_host(engine.folder / "mounts"))
    periods = {"compute__heartbeat_interval": 1, "compute__sync_container_state_interval": 2}
    host = Host(engine.url, volumes=real, **periods)
    try:
        yield host
    finally:
        host.clean()


def told(host):
    return compute_nodes.find(host.name)["engine"]


def usable(host, version):
    """Wait until the host has told that it uses an engine of this version."""
    wait_for(lambda: told(host)["away"] is None and told(host)["version"].startswith(version), 60)


def away(host, words):
    """Wait until the host has told with these words that it cannot use its engine, and return why.

    While another engine is on its way, the reason is that none answers.
    """
    return wait_for(lambda: (why := told(host)["away"]) and words in why and why, 60)


def kernel_cpus(pid):
    return (group_of(pid) / "cpuset.cpus").read_text().strip()


def agrees(host, container, pid=None, *, executes=True):
    """Assert that row, claim, runtime and kernel agree; with ``pid``, that the process is the one of before."""
    row = becomes(container, status="Running", task_state=None)
    assert row["cpuset"] == container.cpuset
    plan = host.cloud.agents[host.name].tracker.usage.claim(container.uuid)
    state = host.driver.show(container)
    assert (state.container_id, state.cpuset_cpus) == (container.container_id, row["cpuset"]["cpuset_cpus"])
    assert kernel_cpus(state.pid) == str(plan.cpus) if plan.dedicated else kernel_cpus(state.pid)
    assert pid in (None, state.pid)
    if not executes:
        return
    output, code = host.driver.execute(container, ["cat", "/keep/mark"], 30)
    assert (output.strip(), code) == ("mine", 0)


def marked(host, **fields):
    """Run a container with a volume, and write a file there."""
    mounts = [Mount(Kind.VOLUME, "/keep", fields["name"]).to_dict()]
    container = host.run(command=["sleep", "100000"], mounts=mounts, **fields)
    assert host.driver.execute(container, ["sh", "-c", "echo mine > /keep/mark"], 30)[1] == 0
    return container


def two(host):
    """Return a container with a CPU of its own, and one that is started again by its policy."""
    pinned = marked(host, name="pinned", cpu_policy="dedicated", cpu=1.0)
    return pinned, marked(host, name="shared", cpu=0.2, restart_policy=ALWAYS)


def scheduler_knows(host):
    """Return why the scheduler believes that the engine is away, None if it believes that it is there."""
    host.cloud.scheduler.table.refresh()
    return host.cloud.scheduler.table.host(host.name).engine_away


def refused(host, container):
    """Assert that a host without its engine answers clearly, and is chosen for nothing."""
    with pytest.raises(exceptions.Unavailable):
        host.driver.execute(container, ["true"], 30)
    wait_for(lambda: scheduler_knows(host))
    created = host.cloud.run(host.context)
    assert created.status == "Error"
    assert "its container engine cannot be used" in created.status_reason


def test_stopped_docker_gets_no_containers_until_it_is_back(engine):
    engine.be(None, LIVE)
    with on(engine) as host:
        version = told(host)["version"]
        container = marked(host, name="kept", cpu_policy="dedicated", cpu=1.0)
        pid = host.driver.show(container).pid
        engine.stop()
        away(host, "does not answer")
        refused(host, container)
        engine.be(None, LIVE)
        usable(host, version)
        agrees(host, container, pid)
        wait_for(lambda: scheduler_knows(host) is None)
        host.run()


def test_docker_with_an_empty_folder_ends_nothing(engine, short_path):
    """Docker also finds an empty folder if the disk of its folder was not mounted at boot. The processes run on here,
    because of live-restore.
    """
    engine.be(None, LIVE)
    with on(engine) as host:
        version = told(host)["version"]
        container = marked(host, name="kept", cpu_policy="dedicated", cpu=1.0)
        before, pid = db.get(container.uuid), host.driver.show(container).pid
        engine.be(None, LIVE, f"--data-root={short_path}/empty")
        away(host, f"folder is {short_path}/empty")
        refused(host, container)
        assert db.get(container.uuid) == before
        assert kernel_cpus(pid) == container.cpuset["cpuset_cpus"]
        engine.be(None, LIVE)
        usable(host, version)
        agrees(host, container, pid)


def test_process_that_docker_does_not_know_keeps_its_cpus(engine, short_path):
    """The operator gave the former store up, while a process of one of its containers runs on."""
    engine.be(None, LIVE)
    with on(engine) as host:
        container = marked(host, name="kept", cpu_policy="dedicated", cpu=1.0, auto_heal=True)
        pid = host.driver.show(container).pid
        engine.be(None, LIVE, f"--data-root={short_path}/empty")
        file = pathlib.Path(away(host, "remove ").partition("remove ")[2].partition(":")[0])
        file.unlink()
        row = becomes(container, status="Unknown")
        assert f"process {pid})" in row["status_reason"]
        host.cloud.compute_api.delete(host.context, container, force=True)
        wait_for(lambda: db.get(container.uuid)["kind"] == "leftover")
        assert host.cloud.agents[host.name].tracker.usage.claim(container.uuid)
        os.kill(pid, signal.SIGKILL)
        host.cloud.gone(container)


@pytest.mark.slow
@pytest.mark.usefixtures("suites")
def test_upgrade_and_back_with_live_restore(engine):
    engine.be("trixie", LIVE)
    with on(engine) as host:
        usable(host, "26.1")
        assert host.driver._engine.api.api_version == "1.45"
        kept = two(host)
        pids = [host.driver.show(each).pid for each in kept]
        engine.stop()
        away(host, "does not answer")
        refused(host, kept[0])
        engine.be("sid", LIVE)
        usable(host, "28.5")
        assert host.driver._engine.api.api_version == "1.51"
        for container, pid in zip(kept, pids, strict=True):
            agrees(host, container, pid)
        later = marked(host, name="later", cpu=0.2)
        engine.be("trixie", LIVE)
        usable(host, "26.1")
        assert host.driver._engine.api.api_version == "1.45"
        for container, pid in zip(kept, pids, strict=True):
            agrees(host, container, pid)
        # Docker with containerd 1.7 ends what it has started with containerd 2, and cannot start it beside its shim.
        row = becomes(later, status="Stopped")
        assert (row["exit_code"], row["cpuset"]) == (137, later.cpuset)


@pytest.mark.slow
@pytest.mark.usefixtures("suites")
def test_upgrade_and_back_without_live_restore(engine):
    engine.be("trixie")
    with on(engine) as host:
        usable(host, "26.1")
        pinned, shared = two(host)
        for suite, version in (("sid", "28.5"), ("trixie", "26.1")):
            engine.be(suite)
            usable(host, version)
            becomes(pinned, status="Stopped")
            agrees(host, shared)
            host.cloud.compute_api.start(host.context, pinned)
            agrees(host, pinned)


@pytest.mark.slow
@pytest.mark.usefixtures("suites")
@pytest.mark.parametrize("live", [pytest.param((LIVE,), id="live-restore"), pytest.param((), id="stopped")])
@pytest.mark.parametrize(("first", "second"), [
    pytest.param((), CONTAINERD, id="to-containerd"),
    pytest.param(CONTAINERD, (), id="from-containerd"),
])  # fmt: skip
def test_other_image_store_ends_nothing(engine, first, second, live):
    engine.be("sid", *live, *first)
    with on(engine) as host:
        pinned, shared = two(host)
        pids = [host.driver.show(each).pid for each in (pinned, shared)]
        before = [db.get(each.uuid) for each in (pinned, shared)]
        engine.be("sid", *live, *second)
        assert "does not show 2 containers" in away(host, "keeper of images is")
        refused(host, pinned)
        agent = host.cloud.agents[host.name]
        agent._compare()
        wait_for(lambda: not agent.queue.busy())
        after = [db.get(each.uuid) for each in (pinned, shared)]
        assert [each["cpuset"] for each in after] == [each["cpuset"] for each in before]
        assert {each["status"] for each in after} <= {"Running", "Stopped"}  # without live-restore they ended before
        if live:
            assert after == before
            assert kernel_cpus(pids[0]) == pinned.cpuset["cpuset_cpus"]
        engine.be("sid", *live, *first)
        usable(host, "28.5")
        if not live:
            becomes(pinned, status="Stopped")
            host.cloud.compute_api.start(host.context, pinned)
        # Each Docker here has a mount namespace of its own: it sees no files of what containerd's store had mounted.
        executes = not (live and first)
        agrees(host, pinned, pids[0] if live else None, executes=executes)
        agrees(host, shared, pids[1] if live else None, executes=executes)
