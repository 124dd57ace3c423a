# SPDX-License-Identifier: Apache-2.0
import pytest
from oslo_config import cfg

import zun.conf
from zun.cmd.compute import load_network_driver
from zun.common import exceptions
from zun.network.docker import DockerNetworks
from zun.network.podman import PodmanNetworks


@pytest.fixture
def conf():
    made = zun.conf.register_opts(cfg.ConfigOpts())
    made([], project="zun", default_config_files=[])
    return made


@pytest.mark.parametrize(("runtime", "kind"), [("docker", DockerNetworks), ("podman", PodmanNetworks)])
def test_networks_are_those_of_the_runtime(conf, runtime, kind):
    conf.set_override("container_driver", runtime, group="compute")
    assert type(load_network_driver(conf)) is kind


@pytest.mark.parametrize(("runtime", "networks"), [("podman", "neutron"), ("podman", "docker"), ("docker", "podman")])
def test_networks_of_another_engine_are_refused(conf, runtime, networks):
    conf.set_override("container_driver", runtime, group="compute")
    conf.set_override("driver", networks, group="network")
    with pytest.raises(exceptions.Misconfigured, match=rf"\[network\] driver = {networks} does not work"):
        load_network_driver(conf)
