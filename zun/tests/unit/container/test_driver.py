# SPDX-License-Identifier: Apache-2.0
import dataclasses
from collections.abc import Callable

import pytest
from oslo_config import cfg

from zun import objects
from zun.conf import register_opts
from zun.container.docker import DockerDriver
from zun.container.docker.client import Settings
from zun.container.driver import ContainerDriver, ContainerView, RuntimeState
from zun.container.fake import InMemoryDriver
from zun.tests.unit.container.samples import Sample

READ = sorted(name for name, value in vars(ContainerView).items() if isinstance(value, property))


@pytest.mark.parametrize("name", READ)
def test_rows_and_samples_have_what_drivers_read(name: str) -> None:
    assert name in objects.Container.fields
    assert name in {field.name for field in dataclasses.fields(Sample)}


@pytest.mark.parametrize("make", [InMemoryDriver, lambda: DockerDriver(Settings())], ids=["memory", "docker"])
def test_drivers_need_no_runtime_to_be_made(make: Callable[[], object]) -> None:
    assert isinstance(make(), ContainerDriver)


@pytest.mark.parametrize("driver", [InMemoryDriver, DockerDriver])
def test_entry_points_read_the_configuration(driver: type[InMemoryDriver] | type[DockerDriver]) -> None:
    conf = register_opts(cfg.ConfigOpts())
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("host", "agent-7")
    conf.set_override("default_timeout", 9, group="docker")
    conf.set_override("default_memory_swap", 128, group="docker")
    made = driver.from_conf(conf)
    if isinstance(made, InMemoryDriver):
        assert made.facts().name == "agent-7"
    else:
        assert made.settings == Settings(
            host_label="agent-7",
            default_timeout=9,
            memory_swap_mib=128,
            connections=conf.compute.workers + 8,
        )


def test_states_are_values() -> None:
    state = RuntimeState("id", None, None, None, None, None, 0, "", "")
    assert state.never_started
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.pid = 1  # type: ignore[misc]
