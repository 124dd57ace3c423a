# SPDX-License-Identifier: Apache-2.0
"""The network driver that Docker calls: its socket, and calls that end after newer ones."""

import queue
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from zun.common import exceptions
from zun.network.plugin import WIRING, Server, Wires
from zun.neutron.ports import Wiring


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


# A call of Docker that is still under way when a newer call has been answered: each test steps its threads by hand.

PORT, OTHER = "11111111-port", "22222222-port"
SLOT = "0000:81:10.0"


class Switch:
    """Knows which endpoint's wiring is plugged: by the MAC address, which is of the endpoint in these tests."""

    def __init__(self):
        self.plugged = {}

    def start(self):
        return

    def plug(self, wiring):
        self.plugged[wiring.slot or wiring.port] = wiring.mac
        return "zun0"

    def unplug(self, wiring):
        self.plugged.pop(wiring.slot or wiring.port, None)


class Neutron:
    """Tells that it was asked, and answers when the test says so."""

    def __init__(self):
        self.asked, self.answers = queue.SimpleQueue(), queue.SimpleQueue()

    def port(self, uuid):
        self.asked.put(uuid)
        return {"status": self.answers.get(timeout=60)}


class Late(dict):
    """The body of a call, which arrives at once and is read as late as the test wants."""

    def __init__(self, fields):
        super().__init__(fields)
        self.arrived, self.goes_on = threading.Event(), threading.Event()

    def __getitem__(self, name):
        self.arrived.set()
        assert self.goes_on.wait(60)
        return super().__getitem__(name)

    def get(self, name, default=None):
        return self[name]


@pytest.fixture
def switch():
    return Switch()


@pytest.fixture
def wires(tmp_path, switch):
    made = Wires(tmp_path / "wires", {"ovs": switch, "hw_veb": switch}, Neutron(), 60)
    made.start()
    return made


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as threads:
        yield threads


def creation(endpoint, port=PORT, slot=""):
    wiring = Wiring(port, "container", "network", endpoint, 1500, slot=slot, binding="hw_veb" if slot else "ovs")
    return {"EndpointID": endpoint, "Options": {WIRING: wiring.to_json()}}


def created(wires, endpoint, **fields):
    wires.answer("NetworkDriver.CreateEndpoint", creation(endpoint, **fields))


def deleted(wires, endpoint):
    wires.answer("NetworkDriver.DeleteEndpoint", {"EndpointID": endpoint})


def joining(pool, wires, endpoint):
    """A Join that has plugged the port and waits until the port is active."""
    call = pool.submit(wires.answer, "NetworkDriver.Join", {"EndpointID": endpoint})
    wires._neutron.asked.get(timeout=60)
    return call


def joined(pool, wires, endpoint):
    call = joining(pool, wires, endpoint)
    wires._neutron.answers.put("ACTIVE")
    assert call.result(60)["InterfaceName"]["SrcName"] == "zun0"


def again(pool, wires):
    joined(pool, wires, "e1")


def after_docker_was_killed(pool, wires):
    created(wires, "e2")
    joined(pool, wires, "e2")


def after_the_endpoint_was_deleted(pool, wires):
    deleted(wires, "e1")
    created(wires, "e2")
    joined(pool, wires, "e2")


@pytest.mark.parametrize("newer", [again, after_docker_was_killed, after_the_endpoint_was_deleted])
def test_a_join_that_fails_late_unplugs_no_newer_one(wires, switch, newer):
    first, second = Neutron(), Neutron()
    with ThreadPoolExecutor(2) as pool:
        created(wires, "e1")
        wires._neutron = first
        late = joining(pool, wires, "e1")
        wires._neutron = second
        newer(pool, wires)
        plugged = dict(switch.plugged)
        first.answers.put("ERROR")
        with pytest.raises(exceptions.PortUnusable, match="is ERROR"):
            late.result(60)
    assert switch.plugged == plugged != {}


def test_a_join_that_fails_unplugs_its_own(wires, switch, pool):
    created(wires, "e1")
    call = joining(pool, wires, "e1")
    wires._neutron.answers.put("ERROR")
    with pytest.raises(exceptions.PortUnusable, match="is ERROR"):
        call.result(60)
    assert switch.plugged == {}


def late_create(wires):
    return "NetworkDriver.CreateEndpoint", Late(creation("e1"))


def late_join(wires):
    return "NetworkDriver.Join", Late({"EndpointID": "e1"})


@pytest.mark.parametrize("newer", [again, after_docker_was_killed])
@pytest.mark.parametrize("late", [late_create, late_join])
def test_a_call_read_late_changes_nothing_newer(wires, switch, pool, late, newer):
    created(wires, "e1")
    call, body = late(wires)
    under_way = pool.submit(wires.answer, call, body)
    assert body.arrived.wait(60)
    newer(pool, wires)
    plugged, files = dict(switch.plugged), sorted(wires._folder.iterdir())
    body.goes_on.set()
    with pytest.raises(ValueError, match=r"too late|does not exist"):
        under_way.result(60)
    assert (switch.plugged, sorted(wires._folder.iterdir())) == (plugged, files)


def by_delete(wires):
    deleted(wires, "e1")


def by_sweep(wires):
    wires.sweep(lambda ports: set(ports) - {PORT})


@pytest.mark.parametrize("remove", [by_delete, by_sweep])
def test_an_old_port_takes_no_function_from_its_next_port(wires, switch, pool, remove):
    created(wires, "e1", slot=SLOT)
    joined(pool, wires, "e1")
    created(wires, "e2", port=OTHER, slot=SLOT)  # Docker was killed before it deleted the first endpoint
    joined(pool, wires, "e2")
    remove(wires)
    assert switch.plugged == {SLOT: "e2"}
