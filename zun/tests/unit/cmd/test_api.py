# SPDX-License-Identifier: Apache-2.0
import contextlib

import pytest
from oslo_config import cfg

from zun.cmd import api
from zun.conf import register_opts


@pytest.mark.parametrize(
    ("settings", "starts"),
    [
        pytest.param({"host_ip": "127.0.0.1"}, True, id="loopback"),
        pytest.param({"host_ip": "127.1.2.3"}, True, id="another-of-loopback"),
        pytest.param({"host_ip": "::1"}, True, id="loopback-of-ipv6"),
        pytest.param({"host_ip": "::ffff:127.0.0.1"}, True, id="loopback-of-both"),
        pytest.param({"host_ip": "localhost"}, True, id="a-name-of-loopback"),
        pytest.param({"host_ip": "0.0.0.0"}, False, id="everywhere"),
        pytest.param({"host_ip": "::"}, False, id="everywhere-in-ipv6"),
        pytest.param({"host_ip": "192.0.2.7"}, False, id="an-address"),
        pytest.param({"host_ip": "0.0.0.0", "allow_noauth_on_any_address": True}, True, id="as-the-operator-wants"),
        pytest.param({"host_ip": "0.0.0.0", "auth_strategy": "keystone"}, True, id="who-asks-is-checked"),
    ],
)
def test_without_identity_it_listens_on_loopback(settings, starts):
    conf = register_opts(cfg.ConfigOpts())
    conf([], default_config_files=[], default_config_dirs=[])
    for option, value in {"auth_strategy": "noauth", **settings}.items():
        conf.set_override(option, value, group="api")
    with contextlib.nullcontext() if starts else pytest.raises(SystemExit, match="noauth on"):
        api.check_noauth(conf)
