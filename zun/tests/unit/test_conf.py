# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import types

import pytest
from keystoneauth1 import loading
from oslo_config import cfg
from oslo_config import types as option_types

import zun
from zun import conf as zun_conf
from zun.cmd import program
from zun.compute.container.networks import Published
from zun.compute.service import ComputeService
from zun.conf import opts
from zun.container.fake import InMemoryDriver
from zun.db import session
from zun.network.fake import InMemoryNetworks
from zun.tests.fixtures import written_conf


def read(tmp_path, group, **options):
    """The configuration of a file."""
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in options.items())]
    return written_conf(tmp_path, "\n".join(lines))


@pytest.mark.parametrize(
    ("group", "option", "value"),
    [
        # Docker takes a name for no address at all, and publishes at all that the host has.
        ("network", "published_address", "localhost"),
        ("network", "published_address", "node-1.example"),
        ("DEFAULT", "minimum_cpus", "0"),
        ("DEFAULT", "minimum_memory", "0"),
        ("DEFAULT", "minimum_disk", "-1"),
        ("DEFAULT", "maximum_cpus", "inf"),
        ("compute", "cpu_allocation_ratio", "1e15"),  # one such host and no scheduler could add up what it has
        ("compute", "workers", "10001"),
        ("api", "max_limit", str(10**20)),
        ("api", "workers", "10001"),
        ("DEFAULT", "default_schedule_zone", "z" * 256),
        ("DEFAULT", "default_availability_zone", "z" * 256),
        ("compute", "availability_zone", "z" * 256),
        ("docker", "default_memory_swap", "-2"),
        ("docker", "drop_capabilities", "CAP_NET_RAW"),
        ("docker", "ulimits", "files=1"),
        ("docker", "ulimits", "nofile=2:1"),
        ("docker", "ulimits", "nofile=-1:1"),
        ("docker", "log_max_size", "50 MB"),
        ("docker", "log_max_size", "0"),
        ("docker", "log_max_files", "1"),
        ("docker", "api_url", "/var/run/docker.sock"),
        ("docker", "api_url", "localhost"),
        ("database", "max_pool_size", "-1"),
        ("database", "max_overflow", "-2"),
        ("websocket_proxy", "base_url", "node-1.example:6784"),
        ("websocket_proxy", "base_url", "https://node-1.example/"),
    ],
)
def test_values_that_would_only_fail_later_are_refused(tmp_path, group, option, value):
    conf = read(tmp_path, group, **{option: value})
    with pytest.raises(ValueError, match=option):
        conf[option] if group == "DEFAULT" else conf[group][option]


def numbers():
    options = ((group.GROUP, option) for group in zun_conf.GROUPS for option in group.OPTS)
    return [(group, option.name) for group, option in options if isinstance(option.type, option_types.Number)]


@pytest.mark.parametrize(("group", "option"), numbers())
def test_no_number_is_too_large_for_who_uses_it(tmp_path, group, option):
    """A clock, a column of a database, an answer of the API: each would fail at its first use, and not at the start."""
    conf = read(tmp_path, group, **{option: 2**31})
    with pytest.raises(ValueError, match=rf"{option} .*Should be less than or equal to"):
        conf[option] if group == "DEFAULT" else conf[group][option]


@pytest.mark.parametrize("ports", ["40000-40010", "40010-40000"])
def test_published_ports(tmp_path, ports):
    conf = read(tmp_path, "network", published_address="::1", published_ports=ports)
    assert Published.from_conf(conf) == Published("::1", 40000, 40010)


def test_default_database_is_below_state_path(tmp_path):
    """Every program has one default: zun-db-manage finds the database of the all-in-one."""
    conf = read(tmp_path, "DEFAULT", state_path=tmp_path)
    assert conf.database.connection == f"sqlite:///{tmp_path}/zun.sqlite"


class Watched:
    """A group of options that remembers in ``read`` which of them somebody asked for."""

    def __init__(self, group):
        self._group, self.read = group, set()

    def __getattr__(self, name):
        self.read.add(name)
        return getattr(self._group, name)


def test_every_database_option_of_the_sample_is_read(tmp_path):
    watched = Watched(read(tmp_path, "DEFAULT", state_path=tmp_path).database)
    program.open_database(types.SimpleNamespace(database=watched))
    session.dispose()
    sampled = [option.dest for name, options in opts.list_opts() if name == "database" for option in options]
    assert sorted(sampled) == sorted(watched.read)


def test_the_code_names_every_option_of_its_own():
    """keystoneauth reads its options of the sections that log in to other services."""
    library = [
        *loading.get_adapter_conf_options(),
        *loading.get_session_conf_options(),
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options("password"),
    ]
    folder = pathlib.Path(zun.__file__).parent
    files = (path for path in folder.rglob("*.py") if path.relative_to(folder).parts[0] not in ("conf", "tests"))
    named = set(re.findall(r"\w+", " ".join(path.read_text() for path in files)))
    own = {option.dest for _, options in opts.list_opts() for option in options} - {each.dest for each in library}
    assert len(own) > 100 and own - named == set()


def test_an_agent_whose_audits_would_fail_does_not_start(tmp_path):
    conf = read(tmp_path, "compute", audit_repair="perhaps")
    with pytest.raises(cfg.ConfigFileValueError, match=r"audit_repair.*perhaps"):
        ComputeService(conf, InMemoryDriver(), InMemoryNetworks())
