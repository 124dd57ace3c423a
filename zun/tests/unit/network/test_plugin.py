# SPDX-License-Identifier: Apache-2.0
"""The socket of the network driver: what may be in its place."""

import socket

import pytest

from zun.common import exceptions
from zun.network.plugin import Server


def test_a_socket_of_a_killed_run_is_replaced(tmp_path):
    path = tmp_path / "zun.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    server = Server(path, None)
    server.start()
    server.stop()
    assert not path.exists()


def test_a_socket_on_which_another_process_listens_stays(tmp_path):
    path = tmp_path / "zun.sock"
    first = Server(path, None)
    first.start()
    with pytest.raises(exceptions.Misconfigured, match="another process listens there"):
        Server(path, None).start()
    assert path.is_socket()
    first.stop()
    assert not path.exists()


def test_a_server_that_stops_late_leaves_the_socket_of_the_next(tmp_path):
    path = tmp_path / "zun.sock"
    first, second = Server(path, None), Server(path, None)
    first.start()
    path.rename(tmp_path / "old.sock")
    second.start()
    first.stop()
    assert path.is_socket()
    second.stop()
    assert not path.exists()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_socket_is_not_removed(tmp_path, kind):
    path, other = tmp_path / "zun.conf", tmp_path / "other"
    other.write_text("theirs")
    path.write_text("theirs") if kind == "file" else path.symlink_to(other)
    with pytest.raises(exceptions.Misconfigured, match=r"plugin_socket = .*zun.conf: something that is no socket"):
        Server(path, None).start()
    assert path.read_text() == "theirs"
