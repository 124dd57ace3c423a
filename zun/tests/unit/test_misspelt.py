# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest
from oslo_config import cfg
from oslo_log import log as oslo_log

from zun import conf as zun_conf
from zun.conf import misspelt
from zun.messaging import rpc


def told(tmp_path: pathlib.Path, text: str) -> list[str]:
    """Return the warnings about a file with ``text``, without its path."""
    file = tmp_path / "zun.conf"
    file.write_text(text)
    conf = cfg.ConfigOpts()
    oslo_log.register_options(conf)
    rpc.register_opts(conf)
    zun_conf.register_opts(conf)
    conf([], project="zun", default_config_files=[str(file)], default_config_dirs=[])
    lines = list(misspelt.misspelt(conf))
    assert all(line.startswith(f"{file}: ") for line in lines)
    return [line.removeprefix(f"{file}: ") for line in lines]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[compute]\ncpu_dedicatd_set = 1", "[compute] has no option cpu_dedicatd_set.*did you mean cpu_dedicated_set"),
        ("[DEFAULT]\ncpu_dedicated_set = 1", "[DEFAULT] has no option cpu_dedicated_set.*belongs into [compute]"),
        ("[compute]\nplenty = 1", "[compute] has no option plenty.*remove it"),
        ("[comptue]\nworkers = 1", "no section [comptue].*did you mean [compute]"),
        ("[DEFAULT]\nstate_pth = /", "[DEFAULT] has no option state_pth.*did you mean state_path"),
        ("[DEFAULT]\ntransport_ulr = /", "[DEFAULT] has no option transport_ulr.*did you mean transport_url"),
        ("[database]\nconection = x", "[database] has no option conection.*did you mean connection"),
        ("[database]\nslave_connection = x", "[database] has no option slave_connection.*ignored"),
        ("[database]\nmax_retries = -1", "[database] has no option max_retries.*remove it"),
        ("[database]\nconnection_recycle_time = 9", "[database] has no option connection_recycle_time.*remove it"),
    ],
)
def test_what_is_ignored_is_told(tmp_path: pathlib.Path, text: str, said: str) -> None:
    (line,) = told(tmp_path, text)
    assert all(part in line for part in said.split(".*"))


def test_what_is_read_or_somebody_elses_is_not_told(tmp_path: pathlib.Path) -> None:
    text = """
    [DEFAULT]
    host = h1
    logfile = an old name
    backlog = of another library
    transport-url = fake://
    [compute]
    cpu_dedicated_set = 1
    [database]
    connection = sqlite://
    max-pool-size = 5
    [keystone_authtoken]
    username = zun
    [oslo_messaging_rabbit]
    rabbit_quorum_queue = true
    [mycloud]
    licence = 1
    """
    assert told(tmp_path, "\n".join(line.strip() for line in text.splitlines())) == []


def test_files_of_a_folder_are_read_too(tmp_path: pathlib.Path) -> None:
    (tmp_path / "50-cpus.conf").write_text("[compute]\nreserved_host_cpu = 0\n")
    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf(["--config-dir", str(tmp_path)], project="zun", default_config_files=[])
    (line,) = misspelt.misspelt(conf)
    assert line.startswith(f"{tmp_path}/50-cpus.conf: ") and "reserved_host_cpus" in line
