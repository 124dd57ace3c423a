# SPDX-License-Identifier: Apache-2.0
"""Links that NVML tells, through the process that asks: the real program, and others in its place."""

import ctypes.util
import json
import logging
import os
import sys
from dataclasses import replace

import pytest

from zun.compute.host.machine import PROGRAM, NvmlFacts
from zun.topology import HostTopology
from zun.topology.devices import Device, DeviceType

A, B = "0000:1a:00.0", "0000:1c:00.0"
GPUS = HostTopology(devices=(Device(A, "10de", "2330", "030200"), Device(B, "10de", "2330", "030200")))
BOTH = {"links": {A: [B, "0000:99:00.0"], B: [A]}, "mig": []}


def told(machine):
    return [device.links for device in machine.devices]


def prints(text):
    return ("printf", "%s", text)


def test_links_of_nvml_are_added(caplog):
    caplog.set_level(logging.INFO)
    assert told(NvmlFacts(prints(json.dumps(BOTH))).added_to(GPUS)) == [(B,), (A,)]
    assert caplog.messages == []


def test_mig_instances_get_their_profiles():
    """NVML adds no instance to the machine. An instance that NVML does not name keeps its profile and class."""
    part = replace(
        GPUS.devices[0], address=f"{A}/gi1/ci0", type=DeviceType.PART, physical=A, resource_class="CUSTOM_MIG"
    )
    other, third = (replace(part, address=f"{A}/gi{number}/ci0") for number in (2, 3))
    one = {"gpu": A, "gpu_instance": 1, "compute_instance": 0, "profile": "1g.10gb", "uuid": "MIG-a"}
    answer = {"links": {}, "mig": [one, {**one, "gpu_instance": 2, "profile": None}, {**one, "gpu_instance": 7}]}
    machine = HostTopology(devices=(*GPUS.devices, part, other, third))
    facts = NvmlFacts(prints(json.dumps(answer)))
    assert facts.added_to(machine).devices == (
        *GPUS.devices,
        replace(part, profile="1g.10gb", uuid="MIG-a", resource_class="CUSTOM_MIG_1G_10GB"),
        replace(other, uuid="MIG-a"),
        third,
    )


@pytest.mark.parametrize(("command", "reason"), [
    (prints('{"error": "NVML Shared Library Not Found"}'), "NVML Shared Library Not Found"),
    (prints('{"error": 7}'), "7"),
    (prints(""), "the answer cannot be read: ''"),
    (prints("[1]"), "the answer cannot be read: '[1]'"),
    (prints('{"links": {}, "mig": [1]}'), "the answer cannot be read: '{\"links\": {}, \"mig\": [1]}'"),
    (prints('{"links": [1]}'), "the answer cannot be read: '{\"links\": [1]}'"),
    (prints('{"links": {"a": 1}}'), "the answer cannot be read: '{\"links\": {\"a\": 1}}'"),
    (("sh", "-c", "kill -SEGV $$"), "the process that asks ended with status -11"),
    (("sh", "-c", "exit 3"), "the process that asks ended with status 3"),
    (("/nowhere/p",), "the process that asks does not start: [Errno 2] No such file or directory: '/nowhere/p'"),
])
def test_no_answer_is_said_once_and_leaves_no_links(caplog, command, reason):
    caplog.set_level(logging.INFO)
    facts = NvmlFacts(command)
    assert [told(facts.added_to(GPUS)) for _ in range(2)] == [[(), ()]] * 2
    assert caplog.messages == [f"NVML does not tell the NVLink links and MIG profiles of this host's GPUs: {reason}"]
    assert {record.levelname for record in caplog.records} == {"INFO"}


@pytest.mark.parametrize("device", [
    pytest.param(Device(A, "1002", "74a1", "120000"), id="amd"),
    pytest.param(Device(A, "10de", "10f0", "040300"), id="the-sound-of-a-gpu"),
    pytest.param(Device("/dev/nvidia0"), id="a-file"),
])
def test_machine_without_an_nvidia_gpu_asks_nobody(tmp_path, device):
    machine = HostTopology(devices=(device,))
    assert NvmlFacts(("touch", str(tmp_path / "asked"))).added_to(machine) is machine
    assert not (tmp_path / "asked").exists()


def test_links_that_files_tell_stay():
    machine = HostTopology(devices=(Device(A, "10de", "2330", "030200", links=("0000:00:01.0",)), GPUS.devices[1]))
    assert told(NvmlFacts(prints(json.dumps(BOTH))).added_to(machine)) == [("0000:00:01.0", B), (A,)]


def test_last_answer_counts_while_there_is_none(tmp_path):
    answer = tmp_path / "answer"
    answer.write_text(json.dumps(BOTH))
    facts = NvmlFacts(("cat", str(answer)))
    assert told(facts.added_to(GPUS)) == [(B,), (A,)]
    answer.unlink()
    assert told(facts.added_to(GPUS)) == [(B,), (A,)]


def test_call_that_does_not_return_holds_up_nobody(tmp_path, caplog):
    """One process asks at a time, and its answer counts when it comes."""
    caplog.set_level(logging.INFO)
    os.mkfifo(tmp_path / "answer")
    facts = NvmlFacts(("cat", str(tmp_path / "answer")), seconds=0.01)
    assert [told(facts.added_to(GPUS)) for _ in range(3)] == [[(), ()]] * 3
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "there is no answer within 0.01 seconds", "an earlier call has not returned yet",
    ]  # fmt: skip
    (tmp_path / "answer").write_text(json.dumps(BOTH))  # until somebody reads
    while told(facts.added_to(GPUS)) != [(B,), (A,)]:
        pass


def test_program_says_what_the_package_says(monkeypatch, tmp_path):
    """The program runs as a process, with a package in the place of the real one."""
    (tmp_path / "pynvml.py").write_text(
        "class NVMLError(Exception):\n    pass\ndef nvmlInit():\n    raise NVMLError('Driver Not Loaded')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    answer = os.popen(" ".join(PROGRAM)).read()
    assert json.loads(answer) == {"error": "Driver Not Loaded"}


def test_program_without_the_package(caplog):
    caplog.set_level(logging.INFO)
    NvmlFacts((sys.executable, "-S", *PROGRAM[1:])).added_to(GPUS)  # without packages
    assert [message.partition(": ")[2] for message in caplog.messages] == ["the package nvidia-ml-py is not installed"]


@pytest.mark.skipif(ctypes.util.find_library("nvidia-ml") is not None, reason="this machine has a driver of NVIDIA")
def test_real_package_without_a_driver(caplog):
    pytest.importorskip("pynvml")
    caplog.set_level(logging.INFO)
    assert told(NvmlFacts().added_to(GPUS)) == [(), ()]
    assert [message.partition(": ")[2] for message in caplog.messages] == ["NVML Shared Library Not Found"]
