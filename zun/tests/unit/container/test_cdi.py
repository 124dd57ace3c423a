# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest
import yaml

from zun.container.cdi import CdiMount, DeviceNode, Edits, load, parse
from zun.topology.devices import Device, DeviceType

CARD: dict[str, Any] = {
    "cdiVersion": "0.6.0",
    "kind": "vendor.com/card",
    "containerEdits": {"env": ["LIBRARY=/opt/card"]},
    "devices": [
        {
            "name": "0",
            "containerEdits": {
                "deviceNodes": [
                    {"path": "/dev/card", "hostPath": "/dev/card0", "permissions": "rw"}, {"path": "/dev/ctl"}
                ],
                "env": ["CARD=0", "OPTIONS=a=b"],
                "mounts": [{"hostPath": "/opt", "containerPath": "/opt", "options": ["ro", "bind"]}],
                "additionalGids": [44],
            },
        },
        {"name": "1", "containerEdits": {"hooks": [{"hookName": "createContainer", "path": "/bin/hook"}]}},
        {"name": "2", "containerEdits": {"intelRdt": {"closID": "x"}, "netDevices": []}},
    ],
}


def write(root, path, content) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content if isinstance(content, str) else json.dumps(content))


def named(name: str, *nodes: str) -> dict[str, Any]:
    return {"name": name, "containerEdits": {"deviceNodes": [{"path": node} for node in nodes]}}


def spec(*devices: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"cdiVersion": "0.6.0", "kind": "vendor.com/card", "devices": list(devices), **members}


def test_edits_of_a_device() -> None:
    first, second, third = parse(CARD, "/etc/cdi/card.json")
    assert (first.name, first.file, first.common) == (
        "vendor.com/card=0", "/etc/cdi/card.json", Edits(environment={"LIBRARY": "/opt/card"})
    )
    assert first.edits == Edits(
        nodes=(DeviceNode("/dev/card", "/dev/card0", "rw"), DeviceNode("/dev/ctl", "/dev/ctl", "rwm")),
        environment={"CARD": "0", "OPTIONS": "a=b"},
        mounts=(CdiMount("/opt", "/opt", ("ro", "bind")),),
        gids=(44,),
    )
    assert first.edits.environment == {"CARD": "0", "OPTIONS": "a=b"}
    assert second.edits.others == ("hook createContainer (/bin/hook)",)
    assert third.edits.others == ("intelRdt",)


@pytest.mark.parametrize(("content", "problem"), [
    ([], r"\$: \[\] is not of type 'object'"),
    ({"kind": "a.com/b", "devices": []}, "'cdiVersion' is a required property"),
    (spec(kind="card"), r"\$.kind: 'card' does not match"),
    (spec({"name": "0"}), r"\$.devices\[0\]: 'containerEdits' is a required property"),
    (spec(named("a b")), r"\$.devices\[0\].name"),
    (spec(named("0", "card0")), r"deviceNodes\[0\].path: 'card0' does not match"),
    (spec(containerEdits={"env": ["LIBRARY"]}), r"containerEdits.env\[0\]"),
    (spec(containerEdits={"additionalGids": ["video"]}), r"additionalGids\[0\]: 'video' is not of type 'integer'"),
])
def test_not_a_cdi_file(content: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse(content, "x.json")


def test_files_of_both_folders(tmp_path) -> None:
    write(tmp_path, "etc/cdi/a.json", spec(named("0", "/dev/old"), named("1", "/dev/one")))
    write(tmp_path, "var/run/cdi/b.yaml", yaml.safe_dump(spec(named("0", "/dev/new"))))
    write(tmp_path, "etc/cdi/c.txt", "of no concern")
    found = load(tmp_path)
    assert found.notes == ()
    assert found.devices() == (
        Device("vendor.com/card=0", type=DeviceType.CDI, nodes=("/dev/new",)),
        Device("vendor.com/card=1", type=DeviceType.CDI, nodes=("/dev/one",)),
    )
    assert found.by_name["vendor.com/card=0"].file == "/var/run/cdi/b.yaml"


def test_no_folder_is_no_device(tmp_path) -> None:
    assert load(tmp_path).by_name == {}


def test_broken_files_are_left_out(tmp_path) -> None:
    write(tmp_path, "etc/cdi/a.json", "{")
    write(tmp_path, "etc/cdi/b.yaml", "a: [")
    write(tmp_path, "etc/cdi/c.json", {"kind": "a.com/b"})
    (tmp_path / "etc/cdi/d.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "etc/cdi/e.json").mkdir()
    write(tmp_path, "etc/cdi/f.json", spec(named("0", "/dev/card0")))
    found = load(tmp_path)
    assert list(found.by_name) == ["vendor.com/card=0"]
    assert [note.split(" is left out")[0] for note in found.notes] == [
        f"CDI file /etc/cdi/{name}" for name in ("a.json", "b.yaml", "c.json", "d.yaml", "e.json")
    ]


def test_a_name_in_conflict_is_nobody_s(tmp_path) -> None:
    write(tmp_path, "etc/cdi/a.json", spec(named("0", "/dev/a"), named("1", "/dev/one")))
    write(tmp_path, "etc/cdi/b.json", spec(named("0", "/dev/b")))
    write(tmp_path, "etc/cdi/c.json", spec(named("0", "/dev/c")))
    found = load(tmp_path)
    assert list(found.by_name) == ["vendor.com/card=1"]
    assert found.notes == (
        "CDI device vendor.com/card=0 is left out: /etc/cdi/a.json and /etc/cdi/b.json and /etc/cdi/c.json describe "
        "it; keep one of them",
    )


def test_a_later_folder_ends_a_conflict(tmp_path) -> None:
    write(tmp_path, "etc/cdi/a.json", spec(named("0", "/dev/a")))
    write(tmp_path, "etc/cdi/b.json", spec(named("0", "/dev/b")))
    write(tmp_path, "var/run/cdi/c.json", spec(named("0", "/dev/c")))
    assert load(tmp_path).by_name["vendor.com/card=0"].edits.nodes == (DeviceNode("/dev/c", "/dev/c"),)
