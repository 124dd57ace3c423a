# SPDX-License-Identifier: Apache-2.0
"""Archives through real messages, piece by piece."""

import pytest

from zun.common import exceptions
from zun.compute import archives
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine

LARGE = bytes(range(256)) * 4096 * 5  # five pieces


@pytest.fixture
def cloud(database):
    cloud = Cloud({"one": machine(cells=1)}, compute__audit_interval=0)
    yield cloud
    cloud.stop()


@pytest.mark.parametrize(
    "data", [b"", b"x", LARGE[: archives.PIECE], LARGE + b"x"], ids=["none", "one", "piece", "more"]
)
def test_there_and_back(cloud, context, data):
    container = cloud.run(context)
    sent = (data[start : start + 700_000] for start in range(0, len(data), 700_000))
    cloud.compute_api.put_archive(context, container, "/tmp", sent)
    stat, pieces = cloud.compute_api.get_archive(context, container, "/tmp")
    assert stat["size"] == len(data)
    assert b"".join(pieces) == data


def test_what_is_not_there(cloud, context):
    container = cloud.run(context)
    with pytest.raises(exceptions.InvalidValue, match="/nothing"):
        cloud.compute_api.get_archive(context, container, "/nothing")


def test_a_runtime_that_refuses_half_way(cloud, context):
    container = cloud.run(context)
    cloud.drivers["one"].fail("put_archive", exceptions.InvalidValue("path: it is no directory"))
    with pytest.raises(exceptions.InvalidValue, match="no directory"):
        cloud.compute_api.put_archive(context, container, "/tmp", [b"x"] * 50)


def test_a_sender_that_breaks_off(cloud, context):
    container = cloud.run(context)

    def broken():
        yield b"x"
        raise exceptions.Base64Exception(reason="no")

    with pytest.raises(exceptions.Base64Exception):
        cloud.compute_api.put_archive(context, container, "/tmp", broken())
    transfers = cloud.agents["one"].archives
    wait_for(lambda: not transfers.running())
    assert (container.uuid, "/tmp") not in cloud.drivers["one"].archives


def test_a_reader_that_breaks_off(cloud, context):
    container = cloud.run(context)
    cloud.compute_api.put_archive(context, container, "/tmp", [LARGE])
    _, pieces = cloud.compute_api.get_archive(context, container, "/tmp")
    next(pieces)
    assert cloud.agents["one"].archives.running() == 1
    pieces.close()
    wait_for(lambda: not cloud.agents["one"].archives.running())


def test_a_transfer_that_nobody_moves_on_ends(cloud, context):
    container = cloud.run(context)
    cloud.compute_api.put_archive(context, container, "/tmp", [LARGE])
    transfers = archives.Archives(cloud.drivers["one"], idle=0)
    forgotten = transfers.open_get(container, "/tmp")["id"]
    transfers.open_get(container, "/tmp")
    assert transfers.running() == 1
    with pytest.raises(exceptions.Conflict, match="took too long"):
        transfers.pull(forgotten)
