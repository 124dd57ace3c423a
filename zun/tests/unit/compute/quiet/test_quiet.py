# SPDX-License-Identifier: Apache-2.0
import pathlib
import random
import socket
import struct
import threading

import pytest

from zun.common import traits
from zun.compute.quiet import profiles, rules
from zun.compute.quiet.irqbalance import Irqbalance
from zun.compute.quiet.quiet import QuietKernel
from zun.compute.quiet.rules import Claimed, Machine
from zun.objects.wishes import Wishes
from zun.tests.unit.compute.quiet.kernels import made, values, write
from zun.topology import CpuSet
from zun.topology.files import Tree

LOW = "name:low-latency,governor:performance,min_mhz:2000,energy_preference:performance,deepest_state:C1"
AWAKE = "name:awake,deepest_state:POLL"
OFFERED = profiles.parsed([LOW, AWAKE])
IRQS = [f"proc/irq/{irq}/smp_affinity_list" for irq in (24, 26, 27)]
WORKERS = "sys/devices/virtual/workqueue/cpumask"
CARD = "0000:81:00.1"
NO_PARTITIONS = "CPUs cannot be partitions: the host has no control groups of version 2 with the cpuset controller"


def claim(cpus, devices=(), **wishes):
    return Claimed(CpuSet(cpus), Wishes(**wishes), devices)


class Host:
    """A made machine, and the claims of its containers."""

    def __init__(self, root, **options):
        self.root, self.options, self.claims = root, options, []
        self.quiet = self.started()

    def started(self):
        return QuietKernel(
            self.root, self.root / "kept/host.json", lambda: list(self.claims), offered=OFFERED, **self.options
        )

    def settle(self, *claims, thorough=False):
        self.claims = list(claims)
        self.quiet.settle(thorough=thorough)
        return values(self.root)


@pytest.fixture
def host(tmp_path):
    made(tmp_path)
    return Host(tmp_path)


def test_interrupts_and_workers_leave_and_come_back(host):
    before = values(host.root)
    after = host.settle(claim("2-3"), claim("6"))
    assert {after[path] for path in IRQS} == {"0-1,4-5,7"}
    assert after["proc/irq/default_smp_affinity"] == after[WORKERS] == "000000b3"
    assert {after[path] for path in IRQS} == {host.settle(claim("2-3"), claim("6"))[path] for path in IRQS}
    assert host.settle(claim("6"))[IRQS[0]] == "0-5,7"
    assert host.settle() == before


@pytest.mark.parametrize(
    ("default", "wish", "left"),
    [
        pytest.param("away", None, "0-5,7", id="default-away"),
        pytest.param("away", "any", "0-7", id="the-wish-decides"),
        pytest.param("any", None, "0-7", id="default-any"),
        pytest.param("any", "away", "0-5,7", id="on-request"),
        pytest.param("fixed", "away", "0-7", id="fixed"),
    ],
)
def test_option_and_wish(tmp_path, default, wish, left):
    made(tmp_path)
    assert Host(tmp_path, interrupts=default).settle(claim("6", interrupts=wish))[IRQS[0]] == left


def test_interrupts_stay_when_every_cpu_is_claimed(host):
    assert {host.settle(claim("0-7"))[path] for path in IRQS} == {"0-7"}


def test_interrupt_that_was_only_there_goes_to_all_others(host):
    write(host.root, IRQS[0], "6")
    assert host.settle(claim("6"))[IRQS[0]] == "0-5,7"
    assert host.settle()[IRQS[0]] == "6"


def test_own_interrupts_of_a_card_come_to_the_container(host):
    write(host.root, f"sys/bus/pci/devices/{CARD}/msi_irqs/26", "msix")
    after = host.settle(claim("4-5", (CARD,), interrupts="own"), claim("2"))
    assert [after[path] for path in IRQS] == ["0-1,3,6-7", "4-5", "0-1,3,6-7"]
    assert host.settle(claim("4-5", (CARD,)))[IRQS[1]] == "0-3,6-7"


def test_new_device_follows_at_the_next_thorough_look(host):
    host.settle(claim("6"))
    write(host.root, "proc/irq/40/smp_affinity_list", "0-7")
    table = host.root / "proc/interrupts"
    table.write_text(table.read_text() + "40: 0 0 0 0 0 0 0 0 MSI 40-edge x\n")
    assert host.settle(claim("6"))["proc/irq/40/smp_affinity_list"] == "0-7"
    assert host.settle(claim("6"), thorough=True)["proc/irq/40/smp_affinity_list"] == "0-5,7"


def test_stuck_interrupt_is_named_and_stops_nothing(host):
    fixed = pathlib.Path("/sys/devices/system/cpu/possible")  # nobody can write this list
    stuck = host.root / IRQS[1]
    stuck.unlink()
    stuck.symlink_to(fixed)
    write(host.root, "proc/irq/26/nvme0q1/x", "")
    write(host.root, "sys/devices/system/cpu/online", "0-8191")
    after = host.settle(claim(fixed.read_text().strip()), claim("7"))
    assert 7 not in CpuSet(after[IRQS[0]]) and after[IRQS[0]] != "0-7"
    [(irq, why)] = host.quiet.stuck.items()
    assert (irq, why.partition(": ")[0]) == (26, "dev26, nvme0q1")
    host.settle()
    assert host.quiet.stuck == {}


def test_profile_sets_clock_and_sleep_states(host):
    before = values(host.root)
    after = host.settle(claim("4-5", power_profile="low-latency"), claim("6", power_profile="awake"))
    clock = "sys/devices/system/cpu/cpufreq/policy4"
    assert [after[f"{clock}/{name}"] for name in ("scaling_governor", "scaling_min_freq")] == ["performance", "2000000"]
    assert after[f"{clock}/energy_performance_preference"] == "performance"
    limit = "sys/devices/system/cpu/cpu{}/power/pm_qos_resume_latency_us"
    assert [after[limit.format(cpu)] for cpu in (4, 5, 6, 7)] == ["2", "2", "n/a", "0"]
    assert host.settle() == before


def test_clock_of_two_cpus_is_kept_while_one_needs_it(host):
    two = [claim("4", power_profile="low-latency"), claim("5", power_profile="low-latency")]
    host.settle(*two)
    assert host.settle(two[1])["sys/devices/system/cpu/cpufreq/policy4/scaling_governor"] == "performance"
    assert host.settle()["sys/devices/system/cpu/cpufreq/policy4/scaling_governor"] == "schedutil"


def test_abilities_are_traits_and_notes(host):
    can, notes = host.quiet.abilities(range(8), "systemd")
    assert can == {traits.MOVES_INTERRUPTS, traits.of_profile("low-latency"), traits.of_profile("awake")}
    assert notes == (NO_PARTITIONS,)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name:a,governor:fast", "CPU 0 has no governor fast: it has schedutil, performance"),
        ("name:a,energy_preference:x",
         "CPU 0 has no energy preference x: it has performance, balance_performance, power"),
        ("name:a,min_mhz:5000", "CPU 0 runs at 800 to 3600 MHz, never at least 5000"),
        ("name:a,deepest_state:C9", "CPU 0 has no sleep state C9: it has POLL, C1, C6"),
    ],
)
def test_profile_that_the_machine_lacks_is_told(host, text, why):
    [profile] = profiles.parsed([text]).values()
    assert profiles.problem(profile, Tree(host.root), range(8)) == why


@pytest.mark.parametrize(
    "text", ["governor:x", "name:A", "name:a,speed:1", "name:a,name:b", "name:a,min_mhz:0", "name:a,min_mhz:x", "name:"]
)
def test_unreadable_profile_is_refused_with_its_text(text):
    with pytest.raises(ValueError, match="^" + repr(text)):
        profiles.parsed([text])


def test_two_profiles_of_one_name_are_refused():
    with pytest.raises(ValueError, match="there is a profile a already"):
        profiles.parsed(["name:a,governor:x", "name:a"])


def test_host_is_as_before_after_random_claims_kills_and_releases(tmp_path):
    """100 sequences; at a kill the agent starts anew from its record, with the claims of that moment."""
    wishes = [{}, {"interrupts": "any"}, {"power_profile": "low-latency"}, {"power_profile": "awake"}]
    for number in range(100):
        root, draw = tmp_path / str(number), random.Random(number)
        made(root)
        host, before, claims = Host(root), values(root), []
        for _ in range(draw.randint(3, 12)):
            step = draw.choice(("claim", "release", "kill"))
            free = [cpu for cpu in range(8) if all(cpu not in each.cpus for each in claims)]
            if step == "claim" and free:
                claims.append(claim([draw.choice(free)], **draw.choice(wishes)))
            elif step == "release" and claims:
                claims.remove(draw.choice(claims))
            elif step == "kill":
                host.quiet = host.started()
            host.settle(*claims)
        assert host.settle() == before, number


def test_traits_of_wishes_keep_a_request_from_other_hosts():
    assert Wishes().traits == Wishes(interrupts="any").traits == frozenset()
    assert Wishes(interrupts="away", power_profile="low-latency").traits == {
        "CUSTOM_ZUN_MOVES_INTERRUPTS", "CUSTOM_ZUN_POWER_PROFILE_LOW_LATENCY",
    }  # fmt: skip


def test_offline_cpu_of_an_own_card_leaves_the_interrupt_to_others():
    machine = Machine(CpuSet("0-5"), CpuSet("26"), {CARD: CpuSet("26")})
    settings = {each.path: each for each in rules.interrupt_settings(
        [claim("6-7", (CARD,), interrupts="own"), claim("2")], CpuSet("2,6-7"), machine)}  # fmt: skip
    assert settings["proc/irq/26/smp_affinity_list"].wanted("0-5") == "0-1,3-5"


class Daemon(threading.Thread):
    """Answers like irqbalance on a socket, and keeps what it was told by whom."""

    def __init__(self, root, process, banned):
        super().__init__(daemon=True)
        self.path, self.banned, self.told = str(root / f"irqbalance{process}.sock"), banned, []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.listener.bind(self.path)
        self.listener.listen()
        write(root, "proc/net/unix", f"Num\n0000: 00000002 00000000 00010000 0001 01 123 {self.path}")
        self.start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                words, control, _, _ = connection.recvmsg(4096, socket.CMSG_SPACE(12))
                [(_, kind, data)] = control
                assert kind == socket.SCM_CREDENTIALS and struct.unpack("3i", data)[1] >= 0
                self.told.append(words.decode())
                if words == b"setup":
                    connection.sendall(f"SLEEP 10 IRQ 24 LOAD 0 BANNED {self.banned}".encode())


def test_irqbalance_is_told_beside_its_own_banned_cpus(host):
    daemon = Daemon(host.root, 77, "00000001")
    host.settle(claim("6"))
    host.settle()
    assert daemon.told == ["setup", "settings cpus 0 6", "settings cpus 0"]
    host.settle(claim("6"))
    host.quiet = host.started()  # an agent that starts again reads its own CPUs as banned
    daemon.banned = "00000041"
    host.settle(claim("6"), thorough=True)
    host.settle()
    assert daemon.told[-1] == "settings cpus 0"


def test_irqbalance_that_nobody_told_is_left_alone(host):
    daemon = Daemon(host.root, 77, "00000000")
    host.settle()
    assert daemon.told == []


def test_irqbalance_without_a_socket_stops_nothing(host, caplog):
    write(host.root, "proc/net/unix", f"0: 2 0 1 1 1 1 {host.root}/irqbalance5.sock")
    assert Irqbalance(host.root / "proc/net/unix").ban(CpuSet("6")) is False
    assert "irqbalance was not told" in caplog.text
    assert host.settle(claim("6"))[IRQS[0]] == "0-5,7"
