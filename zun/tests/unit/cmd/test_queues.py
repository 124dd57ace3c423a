# SPDX-License-Identifier: Apache-2.0
"""Names of the queues for answers to programs of a host that has a user of RabbitMQ of its own."""

import os

import pytest
from oslo_concurrency import lockutils

from zun.cmd.compute import name_queues
from zun.messaging import rpc, senders
from zun.objects.service import PROXY_BINARY
from zun.tests.functional.cloud import configuration

NOBODY = 65534


@pytest.fixture
def conf(tmp_path):
    made = configuration(host="one", state_path=str(tmp_path))
    rpc.register_opts(made)
    made.set_override("transport_url", f"rabbit://{senders.user_of_host('one')}:secret@localhost/zun")
    yield made
    lockutils.set_defaults(None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_is_not_root_can_count_its_queues(conf, tmp_path):
    """zun-wsproxy may not write to the folder of zun-compute, which ``state_path`` names for both."""
    tmp_path.chmod(0o700)
    name_queues(conf, PROXY_BINARY)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setuid(NOBODY)
            with lockutils.lock(f"zun-test-{os.getpid()}", external=True):
                code = 0
            lockutils.remove_external_lock_file(f"zun-test-{os.getpid()}")
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
