# SPDX-License-Identifier: Apache-2.0
import dataclasses
import pathlib
import socketserver
import threading
from collections.abc import Callable, Iterator

import pytest
from oslo_config import cfg

from zun import objects
from zun.common import exceptions
from zun.conf import register_opts
from zun.container.docker import DockerDriver, facts
from zun.container.docker.client import Settings
from zun.container.docker.profile import Profile
from zun.container.driver.container import ContainerView
from zun.container.driver.driver import ContainerDriver
from zun.container.driver.state import RuntimeState
from zun.container.fake import InMemoryDriver
from zun.tests.http_servers import Handler, serving
from zun.tests.unit.container.samples import Sample

READ = sorted(name for name, value in vars(ContainerView).items() if isinstance(value, property))


@pytest.mark.parametrize("name", READ)
def test_rows_and_samples_have_what_drivers_read(name: str) -> None:
    assert name in objects.Container.fields
    assert name in {field.name for field in dataclasses.fields(Sample)}


@pytest.mark.parametrize("make", [InMemoryDriver, lambda: DockerDriver(Settings())], ids=["memory", "docker"])
def test_drivers_need_no_runtime_to_be_made(make: Callable[[], object]) -> None:
    assert isinstance(make(), ContainerDriver)


def test_default_profile_is_that_of_the_options() -> None:
    conf = register_opts(cfg.ConfigOpts())
    conf([], default_config_files=[], default_config_dirs=[])
    made = Settings.from_conf(conf, connections=1)
    assert (made.profile, made.memory_swap_mib) == (Settings().profile, Settings().memory_swap_mib)


@pytest.mark.parametrize("driver", [InMemoryDriver, DockerDriver])
def test_entry_points_read_the_configuration(driver: type[InMemoryDriver] | type[DockerDriver]) -> None:
    conf = register_opts(cfg.ConfigOpts())
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("host", "agent-7")
    conf.set_override("default_timeout", 9, group="docker")
    conf.set_override("default_memory_swap", 128, group="docker")
    conf.set_override("pids_limit", 0, group="docker")
    conf.set_override("no_new_privileges", False, group="docker")
    conf.set_override("drop_capabilities", "ALL", group="docker")
    conf.set_override("ulimits", "core=0", group="docker")
    conf.set_override("log_max_size", "1k", group="docker")
    conf.set_override("log_max_files", 9, group="docker")
    made = driver.from_conf(conf)
    if isinstance(made, InMemoryDriver):
        assert made.facts().name == "agent-7"
    else:
        assert made.settings == Settings(
            host_label="agent-7",
            default_timeout=9,
            memory_swap_mib=128,
            profile=Profile(0, False, ("ALL",), (("core", 0, 0),), "1k", 9),
            connections=conf.compute.workers + 8,
        )


def test_states_are_values() -> None:
    state = RuntimeState("id", None, None, None, None, None, 0, "", "")
    assert state.never_started
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.pid = 1  # type: ignore[misc]


class Hanging(socketserver.ThreadingUnixStreamServer):
    """A Docker that has told its version, and answers nothing more until ``goes_on`` is set."""

    daemon_threads = True

    def __init__(self, path: pathlib.Path) -> None:
        self.goes_on = threading.Event()
        super().__init__(str(path), _Answers)


class _Answers(Handler):
    server: Hanging

    def do_GET(self) -> None:
        if not self.path.endswith("/version"):
            self.server.goes_on.wait()
        self.answer(200, {"ApiVersion": "1.41"})


@pytest.fixture
def hanging(tmp_path: pathlib.Path) -> Iterator[Hanging]:
    with serving(Hanging(tmp_path / "docker.sock")) as server:
        yield server
        server.goes_on.set()


def test_hanging_daemon_is_detected_before_the_default_timeout(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = DockerDriver(Settings(f"unix://{hanging.server_address!s}", default_timeout=3600))
    monkeypatch.setattr(facts, "PING_SECONDS", 0.1)
    with pytest.raises(exceptions.Unavailable, match="in time"):
        driver.ping()
    hanging.goes_on.set()
    driver.ping()


def test_no_daemon_answers_no_ping(tmp_path: pathlib.Path) -> None:
    with pytest.raises(exceptions.Unavailable):
        DockerDriver(Settings(f"unix://{tmp_path}/none")).ping()
