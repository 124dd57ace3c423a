# SPDX-License-Identifier: Apache-2.0
"""Values that are checked at the start of a program."""

import pathlib

import pytest
from oslo_config import cfg
from oslo_config import types as option_types

from zun import conf as zun_conf
from zun.conf import values
from zun.messaging import rpc


def read(folder: pathlib.Path, text: str = "") -> cfg.ConfigOpts:
    """Return the configuration of a file with ``text``."""
    (folder / "zun.conf").write_text(text)
    conf = cfg.ConfigOpts()
    rpc.register_opts(zun_conf.register_opts(conf))
    conf([], project="zun", default_config_files=[str(folder / "zun.conf")], default_config_dirs=[])
    values.take_repeated(conf)
    return conf


def with_default() -> list[tuple[str, str]]:
    """Return the options that an empty value would change."""
    return [
        (group.GROUP, option.name)
        for group in zun_conf.GROUPS
        for option in group.OPTS
        if option.default not in (None, "")
        and not isinstance(option.type, option_types.List | option_types.Dict)
        and option.name != "log_max_size"
    ]


def test_every_number_and_text_is_in_the_table():
    assert len(with_default()) > 100


@pytest.mark.parametrize(("group", "option"), with_default())
def test_an_empty_value_is_named_at_the_start(tmp_path, group, option):
    with pytest.raises(cfg.Error, match=rf"\[{group}\] {option}\b"):
        values.check(read(tmp_path, f"[{group}]\n{option} =\n"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[api]\nmax_limit =", "[api] max_limit is empty: give a value, or remove the option for its default 1000"),
        ("[DEFAULT]\nrpc_response_timeout =", "[DEFAULT] rpc_response_timeout is empty"),
        ("[glance]\ntimeout =", "[glance] timeout is empty"),
        ("[devices]\nalias =", "[devices] alias is empty: give a value, or remove the option for no value"),
        ("[compute]\ncontainer_driver = docker.driver.DockerDriver", "is of another release: write docker"),
        ("[network]\ndriver = kuryr", "[network] driver = kuryr is of another release: write neutron"),
        ("[compute]\nworkers = many", "[compute] workers"),
        ("[compute]\ncpu_allocation_ratio = nan", "[compute] cpu_allocation_ratio must be a number, got nan"),
        ("[oslo_messaging_rabbit]\nkombu_reconnect_delay = -NaN", "kombu_reconnect_delay must be a number, got nan"),
    ],
)
def test_a_value_that_cannot_be_used_is_told(tmp_path, text, said):
    with pytest.raises(cfg.Error) as refused:
        values.check(read(tmp_path, text))
    assert said in str(refused.value)


def test_all_wrong_values_are_told_at_once(tmp_path):
    with pytest.raises(cfg.Error) as refused:
        values.check(read(tmp_path, "[api]\nmax_limit =\nworkers = x\n[network]\ndriver = kuryr\n"))
    assert [line.split(" ")[1].rstrip(":") for line in str(refused.value).splitlines()] == [
        "workers",
        "max_limit",
        "driver",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[docker]\nca_file =\nlog_max_size =\ndefault_registry =\ndrop_capabilities =",
        "[DEFAULT]\ndefault_schedule_zone =\n[compute]\ncpu_shared_set =\nlabels =",
        "[network]\ndenied_destinations =\ndriver =",
    ],
)
def test_an_empty_value_for_none_is_taken(tmp_path, text):
    values.check(read(tmp_path, text))


def test_an_empty_variable_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("OS_COMPUTE__RESERVED_HOST_MEMORY_MB", "")
    with pytest.raises(cfg.Error, match=r"\[compute\] reserved_host_memory_mb is empty"):
        values.check(read(tmp_path))


@pytest.mark.parametrize(
    ("variable", "section", "option"),
    [
        ("OS_DEVICES__DEVICE_SPEC", "devices", "device_spec"),
        ("OS_DEVICES__ALIAS", "devices", "alias"),
        ("OS_OSLO_MESSAGING_NOTIFICATIONS__DRIVER", "oslo_messaging_notifications", "driver"),
    ],
)
def test_an_option_that_may_be_repeated_is_one_value_of_the_environment(
    tmp_path, monkeypatch, variable, section, option
):
    """oslo.config cuts the text into letters."""
    monkeypatch.setenv(variable, '{"vendor_id": "10de"}')
    conf = read(tmp_path, f"[{section}]\n{option} = of the file\n")
    values.check(conf)
    assert conf[section][option] == ['{"vendor_id": "10de"}']
