# SPDX-License-Identifier: Apache-2.0
import pytest
from oslo_config import cfg

from zun.api.settings import Settings
from zun.common import exceptions
from zun.conf import register_opts


def configured(option, value, group):
    conf = register_opts(cfg.ConfigOpts())
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override(option, value, group=group)
    return conf


@pytest.mark.parametrize(
    ("option", "value", "group", "said"),
    [
        ("auth_encryption_key", "short", None, "auth_encryption_key: a key has at least 32 ASCII characters"),
        ("auth_encryption_key_file", "/nowhere", None, r"auth_encryption_key_file cannot be read: .*/nowhere"),
        ("subnet_pool", "10.224.0.1/12", "network", r"subnet_pool = 10\.224\.0\.1/12: .*host bits"),
        ("subnet_pool", "fd00::/48", "network", "subnet_pool = fd00::/48"),
        ("subnet_pool", "10.224.0.0/28", "network", "subnet_prefix = 24 is shorter than the prefix of subnet_pool"),
    ],
)
def test_a_setting_that_no_service_can_start_with_is_named(option, value, group, said):
    with pytest.raises(exceptions.Misconfigured, match=said):
        Settings.from_conf(configured(option, value, group))
