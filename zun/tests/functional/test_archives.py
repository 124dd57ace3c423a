# SPDX-License-Identifier: Apache-2.0
"""Archives through real messages, piece by piece."""

import base64
import threading

import pytest

from zun.common import exceptions
from zun.compute.images import sessions
from zun.tests.fixtures import new_container, wait_for

LARGE = bytes(range(256)) * 4096 * 5  # five pieces


@pytest.mark.parametrize(
    "data", [b"", b"x", LARGE[: sessions.PIECE], LARGE + b"x"], ids=["none", "one", "piece", "more"]
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


def test_who_breaks_off_is_told_why_also_when_the_host_is_not(cloud, context, monkeypatch):
    container = cloud.run(context)
    cloud.compute_api.put_archive(context, container, "/tmp", [LARGE])
    _, pieces = cloud.compute_api.get_archive(context, container, "/tmp")
    next(pieces)

    def broken():
        yield b"x"
        raise exceptions.Base64Exception(reason="no")

    def away(*_, **__):
        raise exceptions.HostUnavailable()

    monkeypatch.setattr(cloud.compute_api, "_tell", away)
    with pytest.raises(exceptions.Base64Exception):
        cloud.compute_api.put_archive(context, container, "/tmp", broken())
    pieces.close()


@pytest.fixture
def space(tmp_path):
    return sessions.Space(tmp_path / "archives", limit_mib=1)


def test_a_transfer_that_nobody_moves_on_ends(cloud, context, space):
    container = cloud.run(context)
    cloud.compute_api.put_archive(context, container, "/tmp", [b"x"])
    transfers = sessions.Archives(cloud.drivers["one"], space, idle=-1)
    reading, writing = transfers.open_get(container, "/tmp")["id"], transfers.open_put(container, "/tmp")
    transfers.sweep()
    assert transfers.running() == 0
    for move_on in (lambda: transfers.pull(reading), lambda: transfers.push(writing, "")):
        with pytest.raises(exceptions.Conflict, match="took too long"):
            move_on()


class Runtime:
    """Tells what its container's lock is held for."""

    def __init__(self, chunks=()):
        self.chunks, self.locked, self.got = chunks, False, None

    def get_archive(self, container, path):
        def locked():
            self.locked = True
            try:
                yield from self.chunks
            finally:
                self.locked = False

        return locked(), {}

    def put_archive(self, container, path, chunks):
        self.locked = True
        self.got = b"".join(chunks)
        self.locked = False


def test_the_runtime_waits_for_no_reader(database, context, space):
    """Docker describes no container, and gives it no other CPUs, while an archive of it is under way."""
    runtime = Runtime([b"x" * 1000] * 1000)
    transfers = sessions.Archives(runtime, space)
    transfer = transfers.open_get(new_container(context), "/")["id"]
    first = transfers.pull(transfer)
    wait_for(lambda: not runtime.locked)
    rest = list(iter(lambda: transfers.pull(transfer), ""))
    assert b"".join(base64.b64decode(each) for each in [first, *rest]) == b"x" * 1_000_000
    assert transfers.running() == 0


def test_the_runtime_waits_for_no_sender(database, context, space):
    runtime = Runtime()
    transfers = sessions.Archives(runtime, space)
    transfer = transfers.open_put(new_container(context), "/")
    for _ in range(2):
        transfers.push(transfer, base64.b64encode(b"piece").decode())
        assert not runtime.locked and runtime.got is None
    transfers.finish(transfer)
    assert (runtime.got, transfers.running()) == (b"piecepiece", 0)


def test_one_that_is_closed_while_the_runtime_is_at_it(database, context, space):
    """It breaks off, and the file goes with the last one who has to do with it."""
    going, go_on, wanted = threading.Event(), threading.Event(), []

    def chunks():
        yield b"x"
        going.set()
        assert go_on.wait(60)
        yield b"x"
        wanted.append("more")

    runtime = Runtime(chunks())
    transfers = sessions.Archives(runtime, space)
    transfer = transfers.open_get(new_container(context), "/")["id"]
    assert going.wait(60)
    transfers.close(transfer)
    assert not is_free(space)
    go_on.set()
    wait_for(lambda: is_free(space))
    assert (runtime.locked, wanted) == (False, [])


def is_free(space):
    """Whether all of its room can be taken."""
    try:
        space.take(1 << 20)
    except exceptions.Unavailable:
        return False
    space.take(-1 << 20)
    return True


def test_there_is_room_for_so_much_and_no_more(database, context, space):
    transfers = sessions.Archives(Runtime([bytes(1 << 19)] * 3), space)
    transfer = transfers.open_put(new_container(context), "/")
    whole = base64.b64encode(bytes(1 << 20)).decode()
    transfers.push(transfer, whole)
    with pytest.raises(exceptions.Unavailable, match="archive_space_mb"):
        transfers.push(transfer, "AAAA")
    transfers.close(transfer)
    transfer = transfers.open_get(new_container(context), "/")["id"]
    with pytest.raises(exceptions.Unavailable, match="archive_space_mb"):
        list(iter(lambda: transfers.pull(transfer), ""))
    wait_for(lambda: is_free(space))
