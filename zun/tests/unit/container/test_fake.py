# SPDX-License-Identifier: Apache-2.0
"""Abilities of the in-memory driver that Docker lacks: failures, disobedience, a log of calls."""

from dataclasses import replace

import pytest

from zun.common import exceptions
from zun.common.states import Status
from zun.container.driver.container import ContainerView
from zun.container.driver.images import ImageFacts, RegistryAuth
from zun.container.driver.inspector import KernelView
from zun.container.fake import DEFAULT_FACTS, InMemoryDriver, Update
from zun.container.fake.runtime import pretend, signal_number
from zun.tests.unit.container.contract import listening
from zun.tests.unit.container.samples import Sample
from zun.topology import CpuSet


@pytest.fixture
def driver() -> InMemoryDriver:
    return InMemoryDriver()


def running(driver: InMemoryDriver, container: Sample, cpus: str = "2-3", mems: str = "1") -> Sample:
    driver.create(container, cpuset_cpus=cpus, cpuset_mems=mems)
    driver.start(container)
    return container


def view(driver: InMemoryDriver, container: Sample) -> KernelView:
    state = driver.show(container)
    assert state is not None
    found = driver.kernel_view(container, state)
    assert found is not None
    return found


def test_any_ids_and_any_image_unless_told(driver: InMemoryDriver) -> None:
    container = running(driver, Sample(image="whatever"), cpus="900", mems="72-73")
    assert view(driver, container).cgroup_mems == CpuSet("72-73")
    assert driver.find_image("whatever") is not None


def test_failures_are_counted(driver: InMemoryDriver) -> None:
    container = Sample()
    driver.create(container, cpuset_cpus="0", cpuset_mems="0")
    driver.fail("start", exceptions.DockerError(error="first"), times=2)
    driver.fail("start", exceptions.Unavailable())
    for expected in (exceptions.DockerError, exceptions.DockerError, exceptions.Unavailable):
        with pytest.raises(expected):
            driver.start(container)
        state = driver.show(container)
        assert state is not None and state.never_started
    driver.start(container)


def test_failure_after_the_work_is_done(driver: InMemoryDriver) -> None:
    container = Sample()
    driver.fail("create", exceptions.Unavailable(), after=True)
    with pytest.raises(exceptions.Unavailable):
        driver.create(container, cpuset_cpus="0", cpuset_mems="0")
    assert driver.show(container) is not None


def test_hook_sees_the_container_before_the_work(driver: InMemoryDriver) -> None:
    seen: list[object] = []

    def look(container: ContainerView | None) -> None:
        assert container is not None
        seen.append((container.uuid, driver.show(container)))

    driver.before("create", look)
    container = Sample()
    driver.create(container, cpuset_cpus="0", cpuset_mems="0")
    assert seen == [(container.uuid, None)]


@pytest.mark.parametrize(("repairable", "healed"), [(True, True), (False, False)])
def test_disobedience(driver: InMemoryDriver, repairable: bool, healed: bool) -> None:
    container = running(driver, Sample())
    driver.disobey(container.uuid, cpus="0-7", repairable=repairable)
    assert view(driver, container).cpus == CpuSet("0-7")
    assert view(driver, container).mems == CpuSet("1")
    driver.update(container, memory=64)
    assert view(driver, container).cpus == CpuSet("0-7")
    driver.update(container, cpuset_cpus="2-3")
    assert (view(driver, container).cpus == CpuSet("2-3")) is healed
    driver.disobey(container.uuid)
    assert view(driver, container).cpus == CpuSet("2-3")


def test_disobedience_before_there_is_an_object(driver: InMemoryDriver) -> None:
    container = Sample()
    driver.disobey(container.uuid, mems=CpuSet("0"))
    assert view(driver, running(driver, container)).cgroup_mems == CpuSet("0")


def test_updates_are_told_in_order_even_if_refused(driver: InMemoryDriver) -> None:
    container = running(driver, Sample())
    driver.update(container, cpuset_cpus="4", cpuset_mems="0")
    with pytest.raises(exceptions.Invalid):
        driver.update(container, cpuset_cpus="")
    driver.update(container, cpu=2.0, memory=64)
    assert driver.updates == [
        Update(container.uuid, None, None, "4", "0"),
        Update(container.uuid, None, None, "", None),
        Update(container.uuid, 2.0, 64, None, None),
    ]


def test_process_that_ends_by_itself(driver: InMemoryDriver) -> None:
    container = running(driver, Sample())
    driver.exit(container.uuid, 3)
    state = driver.show(container)
    assert state is not None
    assert (state.status, state.exit_code) == (Status.STOPPED, 3)


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        ({"Name": "no", "MaximumRetryCount": "0"}, 1, Status.STOPPED),
        ({"Name": "always", "MaximumRetryCount": "0"}, 0, Status.RUNNING),
        ({"Name": "unless-stopped"}, 1, Status.RUNNING),
        ({"Name": "on-failure", "MaximumRetryCount": "0"}, 1, Status.RUNNING),
        ({"Name": "on-failure", "MaximumRetryCount": "0"}, 0, Status.STOPPED),
    ],
)
def test_restart_policy(driver: InMemoryDriver, policy: dict[str, str], code: int, expected: Status) -> None:
    container = running(driver, Sample(restart_policy=policy))
    driver.exit(container.uuid, code)
    state = driver.show(container)
    assert state is not None and state.status is expected
    driver.stop(container)
    stopped = driver.show(container)
    assert stopped is not None and stopped.status is Status.STOPPED


def test_command_that_ends_at_once_and_is_always_restarted(driver: InMemoryDriver) -> None:
    container = running(driver, Sample(command=["true"], restart_policy={"Name": "always"}))
    state = driver.show(container)
    assert state is not None and state.status is Status.RESTARTING
    driver.stop(container)
    state = driver.show(container)
    assert state is not None and state.status is Status.STOPPED


def test_pull_from_the_registry() -> None:
    driver = InMemoryDriver(images={}, registry={"web:1": ImageFacts("sha256:1", command=("serve",))})
    assert driver.find_image("web:1") is None
    facts = driver.pull_image("web:1")
    assert facts.command == ("serve",) and facts == driver.find_image("web:1")
    assert facts.digests == (f"web@{driver.image_digest('web:1')}",) == tuple(driver.image_digests())
    assert driver.pull_image(facts.digests[0]) == facts == driver.find_image("sha256:1")
    assert driver.pulls == ["web:1", *facts.digests]
    with pytest.raises(exceptions.ImageNotFound):
        driver.pull_image("web:2")


def test_a_registry_that_wants_an_account() -> None:
    driver = InMemoryDriver(images={}, registry={"own.io/web:1": ImageFacts("sha256:1")})
    driver.accounts["own.io"] = mine = RegistryAuth("me", "1")
    for auth in (None, RegistryAuth("me", "2")):
        with pytest.raises(exceptions.ImageNotFound):
            driver.pull_image("own.io/web:1", auth)
        with pytest.raises(exceptions.ImageNotFound):
            driver.image_digest("own.io/web:1", auth)
    assert driver.pull_image("own.io/web:1", mine).digests[0].endswith(driver.image_digest("own.io/web:1", mine))


def test_every_listener_hears_its_own_host(driver: InMemoryDriver) -> None:
    other = InMemoryDriver(replace(DEFAULT_FACTS, name="host-2"), runtime=driver.runtime)
    with listening(driver) as first, listening(driver) as second, listening(other) as third:
        container = running(driver, Sample())
        for inbox in (first, second):
            event = inbox.get(timeout=60)
            assert (event.uuid, event.action) == (container.uuid, "start")
        assert third.empty()
    assert not any(driver.runtime.listeners.values())


def test_logs_by_time_and_number(driver: InMemoryDriver) -> None:
    container = running(driver, Sample())
    for line in ("a", "b", "c"):
        driver.write_log(container.uuid, line)
    assert driver.logs(container, tail="2") == "b\nc\n"
    assert driver.logs(container, tail="9") == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("command", "expected"),
    [(["echo", "a", "b"], ("a b\n", 0, 0.0)), (["false"], ("", 1, 0.0)), (["sleep", "9"], ("", 0, 9.0))],
)
def test_pretend(command: list[str], expected: tuple[str, int, float]) -> None:
    outcome = pretend(command)
    assert outcome is not None
    assert (outcome.output, outcome.code, outcome.seconds) == expected


def test_pretend_unknown() -> None:
    assert pretend(["httpd", "-f"]) is None
    assert pretend([]) is None


@pytest.mark.parametrize(("name", "number"), [("SIGTERM", 15), ("term", 15), ("9", 9), ("SIGKILL", 9)])
def test_signal_number(name: str, number: int) -> None:
    assert signal_number(name) == number
