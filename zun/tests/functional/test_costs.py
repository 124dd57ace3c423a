# SPDX-License-Identifier: Apache-2.0
"""Requests with sizes at each limit of the OpenAPI document and beyond it, against a whole cloud in memory.

None is answered 500, and none beyond a limit is accepted. What they cost is counted by ``benchmarks/costs.py``, which
sends all of them. Here each tenth is sent, or as many as ``ZUN_COSTS_STEP`` says.
"""

import itertools
import os

import pytest

from zun.api import app as api_app
from zun.db import models, session
from zun.tests.functional import costly
from zun.tests.functional.cloud import Cloud, machine

STEP = int(os.environ.get("ZUN_COSTS_STEP", "25"))


@pytest.fixture(scope="module")
def application(tmp_path_factory):
    session.configure(f"sqlite:///{tmp_path_factory.mktemp('costs')}/zun.sqlite")
    models.metadata.create_all(session.engine())
    cloud = Cloud({"one": machine(), "two": machine()}, **costly.OPTIONS)
    yield api_app.build(cloud.conf, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)
    cloud.stop()
    session.dispose()


@pytest.mark.parametrize("version", costly.VERSIONS, ids=str)
def test_no_size_is_a_defect_or_passes_a_limit(application, version):
    """Every operation has its turn: the step is no divisor of what most of them have."""
    for request in itertools.islice(costly.requests(application, version), 0, None, STEP):
        reply = costly.sent(application, version, request)
        assert reply.status != 500, (request.method, request.path[:80], request.told, reply)
        assert not request.refused or 400 <= reply.status < 500, (request.method, request.path[:80], request.told)
