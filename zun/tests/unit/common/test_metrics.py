# SPDX-License-Identifier: Apache-2.0
import socket
import urllib.request

import pytest
from oslo_config import cfg

from zun import conf as zun_conf
from zun.common import exceptions, metrics


@pytest.fixture
def conf():
    made = zun_conf.register_opts(cfg.ConfigOpts())
    made([], project="zun-test", default_config_files=[], default_config_dirs=[])
    return made


def test_serve(conf):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    metrics.serve(conf, port)
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    assert "zun_scheduler_retries_total" in text


@pytest.mark.parametrize("serve", [metrics.serve, metrics.serve_sum])
def test_nothing_without_a_port(conf, serve):
    serve(conf, None)


def test_workers_without_a_folder_serve_nothing(conf, caplog, monkeypatch):
    monkeypatch.delenv(metrics.FOLDER_VARIABLE, raising=False)
    metrics.serve_sum(conf, 1)
    assert "[metrics] api_port has no effect: PROMETHEUS_MULTIPROC_DIR is not set" in caplog.text


@pytest.mark.parametrize("serve", [metrics.serve, metrics.serve_sum])
def test_a_port_that_is_taken(conf, serve, tmp_path, monkeypatch):
    monkeypatch.setenv(metrics.FOLDER_VARIABLE, str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(exceptions.Misconfigured, match=rf"127\.0\.0\.1, port {port}: Address already in use\. "):
            serve(conf, port)
