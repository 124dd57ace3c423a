# SPDX-License-Identifier: Apache-2.0
"""Probes are asked in time, their answers kept for one run, and nobody is told what is known."""

import queue
import socket
import threading

import pytest
from oslo_utils import uuidutils

from zun.common import exceptions
from zun.common.probes import Probe, Role
from zun.compute.container.prober import MOST_OF_CAPSULE, Prober, failure_of
from zun.container.fake.driver import InMemoryDriver
from zun.objects import Container
from zun.tests.fixtures import wait_for

POD, OTHER = uuidutils.generate_uuid(), uuidutils.generate_uuid()
OFTEN = {"periodSeconds": 0.01, "timeoutSeconds": 5}


@pytest.fixture
def driver():
    return InMemoryDriver()


@pytest.fixture
def looks():
    return queue.Queue()


@pytest.fixture
def prober(driver, looks):
    made = Prober(driver)
    made.start(looks.put)
    yield made
    made.stop()


def running(driver, uuid=None, **probes):
    uuid = uuid or uuidutils.generate_uuid()
    container = Container(
        uuid=uuid, name="web", kind="member", capsule_uuid=POD, image="demo", command=["sleep", "1000"], cpu=1.0,
        memory=64, status="Running", started_at=None, status_detail=None, request={"probes": probes}, disk=0,
        container_id=None, entrypoint=None, auto_remove=False, restart_policy={}, hostname=None, cpu_policy="shared",
    )  # fmt: skip
    driver.create(container, cpuset_cpus="0", cpuset_mems="0")
    driver.start(container)
    return container


def health(prober, driver, container):
    return prober.seen(container, driver.show(container)).health


@pytest.mark.parametrize(
    ("asked", "answer", "failure"),
    [
        ({"exec": {"command": ["true"]}}, None, None),
        ({"exec": {"command": ["false"]}}, None, "exit code 1"),
        ({"exec": {"command": ["sleep", "70"]}}, None, "The command did not end within 5 s in web"),
        ({"tcpSocket": {"port": 80}}, b"", None),
        ({"tcpSocket": {"port": 80}}, None, "Connection refused"),
        ({"httpGet": {"port": 80}}, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", None),
        ({"httpGet": {"port": 80}}, b"HTTP/1.1 302 Found\r\nLocation: http://a.example/\r\n\r\n", None),
        ({"httpGet": {"port": 80}}, b"HTTP/1.0 503 Service Unavailable\r\n\r\n", "503 Service Unavailable"),
        ({"httpGet": {"port": 80}}, b"HTTP/1.1 199 Odd\r\n\r\n", "199 Odd"),
        ({"httpGet": {"port": 80}}, b"SSH-2.0-dropbear\r\n", "SSH-2.0-dropbear"),
        ({"httpGet": {"port": 80}}, b"HTTP/1.1 500 Oh\0\x1b[31m\r\n\r\n", "500 Oh  [31m"),
        ({"httpGet": {"port": 80}}, b"", "Remote end closed connection without response"),
        ({"httpGet": {"port": 80}}, None, "Connection refused"),
    ],
)
def test_one_question(driver, asked, answer, failure):
    container = running(driver)
    if answer is not None:
        driver.answer(container.uuid, 80, answer)
    found = failure_of(driver, container, Probe.of(Role.LIVENESS, {**asked, "timeoutSeconds": 5}))
    assert (found is None) is (failure is None) and (failure or "") in (found or "")
    assert (found or "").isprintable()


def test_a_server_that_answers_too_slowly_fails_in_time(driver):
    """Each byte comes within the timeout of a read: the whole answer has the timeout."""
    container = running(driver)
    driver.answer(container.uuid, 80, b"HTTP/1.1 200 OK\r\n")
    sockets = []
    connect = driver.connect

    def hold(*args):  # the other end stays open
        ours, theirs = socket.socketpair()
        theirs.sendall(b"HTTP/1.1 200 OK\r\n")
        sockets.append(theirs)
        return ours

    driver.connect = hold
    asked = Probe.of(Role.LIVENESS, {"httpGet": {"port": 80}, "timeoutSeconds": 0.05})
    assert failure_of(driver, container, asked) == "no answer within 0.05 s"
    driver.connect = connect


def test_readiness_comes_and_goes(prober, driver, looks):
    container = running(driver, readiness={"tcpSocket": {"port": 80}, "failureThreshold": 1, **OFTEN})
    assert health(prober, driver, container).told() == "not ready"
    assert looks.get(timeout=10) == container.uuid
    refused = "not ready: readiness probe: connect to capsule:80: Connection refused"
    assert health(prober, driver, container).told() == refused
    driver.answer(container.uuid, 80, b"")
    assert looks.get(timeout=10) == container.uuid and health(prober, driver, container).told() == "ready"
    driver.answer(container.uuid, 80, None)
    assert looks.get(timeout=10) == container.uuid and not health(prober, driver, container).ready
    assert looks.empty()  # what did not change is not told


def test_start_up_is_told_before_the_readiness_is_known(prober, driver, looks):
    """Other containers wait for the start-up alone. The text for users stays ``not ready``."""
    startup = {"exec": {"command": ["true"]}, **OFTEN}
    container = running(driver, startup=startup, readiness={"tcpSocket": {"port": 80}, "initialDelaySeconds": 600})
    health(prober, driver, container)
    assert looks.get(timeout=10) == container.uuid
    assert health(prober, driver, container).started and not health(prober, driver, container).ready


def test_a_new_run_is_asked_anew_after_a_failure(prober, driver, looks):
    container = running(driver, liveness={"exec": {"command": ["false"]}, "failureThreshold": 2, **OFTEN})
    health(prober, driver, container)
    assert looks.get(timeout=10) == container.uuid
    assert "failed 2 times in a row (false: exit code 1)" in health(prober, driver, container).failed
    driver.reboot(container)
    assert health(prober, driver, container).failed is None
    assert looks.get(timeout=10) == container.uuid and health(prober, driver, container).failed
    driver.exit(container.uuid)
    assert prober.seen(container, driver.show(container)).health is None and not prober._watches


def test_a_paused_container_is_not_asked(prober, driver, looks):
    container = running(driver, liveness={"exec": {"command": ["true"]}, "failureThreshold": 1, **OFTEN})
    asked = queue.Queue()
    driver.before("execute", asked.put)
    assert health(prober, driver, container).failed is None
    asked.get(timeout=10)
    driver.pause(container)
    prober.seen(container, driver.show(container))
    while not asked.empty():
        asked.get()
    driver.unpause(container)
    assert health(prober, driver, container).failed is None
    asked.get(timeout=10)
    assert looks.empty()


def test_what_an_earlier_service_found_out_stays(prober, driver):
    container = running(driver, readiness={"tcpSocket": {"port": 80}, "periodSeconds": 1000})
    container.started_at, container.status_detail = driver.show(container).started_at, "ready"
    assert health(prober, driver, container).ready


def test_nothing_is_asked_while_the_engine_is_away(prober, driver, looks):
    container = running(driver, liveness={"exec": {"command": ["true"]}, "failureThreshold": 1, **OFTEN})
    asked = queue.Queue()

    def away(_container):
        asked.put(None)
        raise exceptions.Unavailable("the engine does not answer")

    driver.before("execute", away)
    health(prober, driver, container)
    for _ in range(3):
        asked.get(timeout=10)
    assert looks.empty() and health(prober, driver, container).failed is None


def test_a_capsule_that_hangs_has_few_probes_at_a_time(prober, driver):
    """The others of the capsule wait for their turn, and those of other capsules do not."""
    go, inside = threading.Event(), threading.Semaphore(0)

    def hang(container):
        if container.capsule_uuid == POD:
            inside.release()
            go.wait(30)

    driver.before("execute", hang)
    slow = {"exec": {"command": ["true"]}, **OFTEN}
    for _ in range(MOST_OF_CAPSULE + 2):
        each = running(driver, readiness=slow)
        prober.seen(each, driver.show(each))
    for _ in range(MOST_OF_CAPSULE):
        assert inside.acquire(timeout=10)
    other = running(driver, readiness=slow)
    other.capsule_uuid = OTHER
    prober.seen(other, driver.show(other))
    assert wait_for(lambda: health(prober, driver, other).ready)
    assert not inside.acquire(blocking=False)
    go.set()
    assert inside.acquire(timeout=10)


@pytest.mark.parametrize(
    ("detail", "started", "ready"),
    [
        ("ready", True, True),
        ("not ready: readiness probe: connect to capsule:80: Connection refused", True, False),
        ("not ready: start-up probe: false: exit code 1", False, False),
        ("not ready", False, False),
        (None, False, False),
    ],
)
def test_a_restarted_service_goes_on_with_what_was_found_out(driver, detail, started, ready):
    """A container that has started is not restarted because its start-up probe fails by now."""
    asked = {"exec": {"command": ["false"]}}
    container = running(driver, startup=asked, readiness=asked)
    container.started_at, container.status_detail = driver.show(container).started_at, detail
    found = health(Prober(driver), driver, container)
    assert (found.started, found.ready) == (started, ready)
