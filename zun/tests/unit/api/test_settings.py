# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.api.settings import Range, Settings
from zun.common import exceptions
from zun.tests.fixtures import own_conf


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("auth_encryption_key", "short", "auth_encryption_key: a key has at least 32 ASCII characters"),
        ("auth_encryption_key_file", "/nowhere", r"auth_encryption_key_file cannot be read: .*/nowhere"),
        ("maximum_cpus", 0.05, r"minimum_cpus = 0\.1 and maximum_cpus = 0\.05"),
        ("maximum_cpus", float("nan"), "maximum_cpus = nan"),
        ("minimum_cpus", float("nan"), "minimum_cpus = nan"),
        ("default_cpu", float("nan"), "default_cpu = nan"),
        ("default_image_driver", "glanc", "default_image_driver = glanc is none of image_driver_list = docker"),
        ("default_image_driver", "glance", "default_image_driver = glance is none of image_driver_list = docker"),
        ("image_driver_list", ["nova", "docker"], "image_driver_list: there is no image driver nova"),
        ("image_driver_list", [], "default_image_driver = docker is none of image_driver_list = $"),
        ("maximum_cpus", 0.5, r"default_cpu = 1 is not between minimum_cpus = 0\.1 and maximum_cpus = 0\.5"),
        ("default_cpu", -1.0, "default_cpu = -1 is not between"),
        ("default_cpu", 0.09, r"default_cpu = 0\.09 is not between"),
        ("minimum_memory", 1024, "default_memory = 512 is not between minimum_memory = 1024"),
        ("default_memory", 8193, "default_memory = 8193 is not between"),
        ("maximum_memory", 3, "minimum_memory = 4 and maximum_memory = 3"),
        ("minimum_disk", 161, "minimum_disk = 161 and maximum_disk = 160"),
        ("capsule__sandbox_image", "", r"\[capsule\] sandbox_image: '' is not the name of an image"),
        ("capsule__sandbox_image", "Pause", r"\[capsule\] sandbox_image: 'Pause' is not the name of an image"),
        ("network__subnet_pool", "10.224.0.1/12", r"subnet_pool = 10\.224\.0\.1/12: .*host bits"),
        ("network__subnet_pool", "fd00::/48", "subnet_pool = fd00::/48"),
        ("network__subnet_pool", "10.224.0.0/28", "subnet_prefix = 24 is shorter than the prefix of subnet_pool"),
    ],
)
def test_a_setting_that_no_service_can_start_with_is_named(option, value, said):
    with pytest.raises(exceptions.Misconfigured, match=said):
        Settings.from_conf(own_conf(**{option: value}))


def test_edges_that_a_service_starts_with():
    edges = {"minimum_cpus": 2, "default_cpu": 2, "maximum_cpus": 2, "minimum_disk": 160, "maximum_memory": 512}
    settings = Settings.from_conf(own_conf(**edges))
    assert (settings.cpu, settings.disk, settings.memory) == (Range(2, 2), Range(160, 160), Range(4, 512))
