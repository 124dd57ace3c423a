# SPDX-License-Identifier: Apache-2.0
"""The connection to a Docker daemon that is replaced by another release."""

import pathlib
import threading

import pytest

from zun.common import exceptions
from zun.container.docker import DockerDriver
from zun.container.docker.client import LABEL_HOST, LABEL_UUID, Engine, Settings
from zun.container.driver.events import RESYNC
from zun.network.docker import DockerNetworks
from zun.tests.unit.container.daemon import OLD, Daemon, serving
from zun.tests.unit.container.samples import Sample

NEW = (44, 52)
BEFORE_MINIMUM = (12, 41)  # a release that has every version up to its own


@pytest.mark.parametrize(
    ("before", "after"),
    [pytest.param(OLD, NEW, id="upgrade"), pytest.param(NEW, BEFORE_MINIMUM, id="back")],
)
def test_other_release_is_spoken_to_in_its_version(
    tmp_path: pathlib.Path, before: tuple[int, int], after: tuple[int, int]
) -> None:
    with serving(tmp_path / "docker.sock", before) as daemon:
        driver, networks = DockerDriver(Settings(daemon.url)), DockerNetworks(Engine(Settings(daemon.url)))
        for versions in (before, after, before):
            daemon.versions = versions
            driver.ping()
            assert networks.present() == set() and driver.list() == {}
            container = Sample()
            assert driver.create(container, cpuset_cpus="1", cpuset_mems="0") == "made"
            assert daemon.bodies[-1]["HostConfig"]["CpusetCpus"] == "1"
            assert daemon.asked[-1] == f"/v1.{versions[1]}/containers/create"


def test_same_release_is_asked_for_its_version_once(daemon: Daemon) -> None:
    driver = DockerDriver(Settings(daemon.url))
    for _ in range(3):
        driver.ping()
    assert daemon.asked == ["/version", *["/v1.43/_ping"] * 3]


def test_request_from_a_stream_is_not_sent_twice(daemon: Daemon) -> None:
    driver, container = DockerDriver(Settings(daemon.url)), Sample()
    driver.ping()
    daemon.versions = NEW
    with pytest.raises(exceptions.Unavailable, match=r"replaced by another release\. Try again"):
        driver._engine.api.put_archive(f"zun-{container.uuid}", "/", iter([b"a", b"b"]))
    with pytest.raises(exceptions.InvalidValue, match="no tar"):
        driver.put_archive(container, "/", iter([b"a", b"b"]))


def test_daemon_that_refuses_its_own_version_is_away(daemon: Daemon) -> None:
    driver = DockerDriver(Settings(daemon.url))
    driver.ping()
    daemon.refusal = lambda path: None if path == "/version" else "Client Version is too old"  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(exceptions.Unavailable):
            driver.ping()


def test_lost_events_describe_the_daemon_anew(daemon: Daemon) -> None:
    driver, stop = DockerDriver(Settings(daemon.url)), threading.Event()

    def limited() -> bool:
        driver.create(Sample(), cpuset_cpus="", cpuset_mems="")
        return "LogConfig" in daemon.bodies[-1]["HostConfig"]

    assert limited()
    daemon.versions, daemon.logs = (24, 45), "journald"  # both versions are in both ranges
    assert limited(), "nothing told of the other daemon yet"
    events = driver.events(stop)
    for _ in range(2):  # each stream ends at once
        assert next(events).action == RESYNC
    stop.set()
    assert not limited()
    assert daemon.asked[-1] == "/v1.45/containers/create"


def test_object_found_by_a_name_that_it_is_losing_gets_the_name_back(daemon: Daemon) -> None:
    container = Sample()
    name, labels = f"zun-{container.uuid}", {LABEL_UUID: container.uuid, LABEL_HOST: "localhost"}
    renamed = {"Id": "it", "Name": "/elsewhere", "Config": {"Labels": labels}}
    daemon.answers = {
        f"/containers/{name}/json": (200, renamed),  # what Docker says between the event and the end of a rename
        "/containers/json": (200, [{"Id": "it", "ImageID": "image", "Names": ["/elsewhere"]}]),
        "/containers/it/rename": (204, {}),
        "/containers/it/json": (200, {**renamed, "Name": f"/{name}"}),
    }
    found = Engine(Settings(daemon.url)).find(container)
    assert found is not None and found["Name"] == f"/{name}"
    assert "/v1.43/containers/it/rename" in daemon.asked
