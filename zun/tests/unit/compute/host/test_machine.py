# SPDX-License-Identifier: Apache-2.0
import json

from zun.compute.host.machine import discovered
from zun.tests.unit.topology.machines import PLAIN, build, changed
from zun.topology.devices import DeviceType


def test_devices_of_every_kind(tmp_path):
    root = build(tmp_path, {**PLAIN, "devices": {"0000:81:00.0": {"files": {"numa_node": "1\n"}}}})
    (root / "dev").symlink_to("/dev")
    (root / "etc/cdi").mkdir(parents=True)
    card = {"name": "c", "containerEdits": {"env": ["A=1"]}}
    (root / "etc/cdi/a.json").write_text(json.dumps({"cdiVersion": "0.6.0", "kind": "a.com/b", "devices": [card]}))
    (root / "etc/cdi/b.json").write_text("")
    found = discovered(str(root))
    kinds = [device.type for device in found.devices]
    assert kinds == [DeviceType.PCI, *[DeviceType.PATH] * (len(kinds) - 2), DeviceType.CDI]
    assert "/dev/zero" in [device.address for device in found.devices]
    assert [note.split(" is left")[0] for note in found.notes] == ["CDI file /etc/cdi/b.json"]


def test_devices_of_every_kind_are_on_the_only_cell(tmp_path):
    root = build(tmp_path, changed(nodes={2: {"cpus": "0-7"}}, devices={"0000:81:00.0": {}}))
    (root / "dev").symlink_to("/dev")
    (root / "etc/cdi").mkdir(parents=True)
    (root / "etc/cdi/a.json").write_text(
        json.dumps({"cdiVersion": "0.6.0", "kind": "a.com/b", "devices": [{"name": "c", "containerEdits": {}}]})
    )
    assert {device.cell for device in discovered(str(root)).devices} == {2}
