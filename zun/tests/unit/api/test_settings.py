# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.api.settings import Settings
from zun.common import exceptions
from zun.tests.fixtures import own_conf


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("auth_encryption_key", "short", "auth_encryption_key: a key has at least 32 ASCII characters"),
        ("auth_encryption_key_file", "/nowhere", r"auth_encryption_key_file cannot be read: .*/nowhere"),
        ("network__subnet_pool", "10.224.0.1/12", r"subnet_pool = 10\.224\.0\.1/12: .*host bits"),
        ("network__subnet_pool", "fd00::/48", "subnet_pool = fd00::/48"),
        ("network__subnet_pool", "10.224.0.0/28", "subnet_prefix = 24 is shorter than the prefix of subnet_pool"),
    ],
)
def test_a_setting_that_no_service_can_start_with_is_named(option, value, said):
    with pytest.raises(exceptions.Misconfigured, match=said):
        Settings.from_conf(own_conf(**{option: value}))
