# SPDX-License-Identifier: Apache-2.0
import pytest
from oslo_config import cfg

from zun import conf as zun_conf
from zun.compute.networks import Published


def read(tmp_path, group, **options):
    """The configuration of a file."""
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in options.items())]
    (tmp_path / "zun.conf").write_text("\n".join(lines))
    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf([], project="zun", default_config_files=[str(tmp_path / "zun.conf")], default_config_dirs=[])
    return conf


@pytest.mark.parametrize(
    ("group", "option", "value"),
    [
        # Docker takes a name for no address at all, and publishes at all that the host has.
        ("network", "published_address", "localhost"),
        ("network", "published_address", "node-1.example"),
        ("websocket_proxy", "base_url", "node-1.example:6784"),
        ("websocket_proxy", "base_url", "https://node-1.example/"),
    ],
)
def test_values_that_would_only_fail_later_are_refused(tmp_path, group, option, value):
    conf = read(tmp_path, group, **{option: value})
    with pytest.raises(ValueError, match=option):
        conf[group][option]


@pytest.mark.parametrize("ports", ["40000-40010", "40010-40000"])
def test_published_ports(tmp_path, ports):
    conf = read(tmp_path, "network", published_address="::1", published_ports=ports)
    assert Published.from_conf(conf) == Published("::1", 40000, 40010)
