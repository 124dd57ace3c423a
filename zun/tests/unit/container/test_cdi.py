# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest
import yaml

from zun.container.cdi import CdiMount, DeviceNode, Edits, load, parse
from zun.topology.devices import Device, DeviceType

CARD: dict[str, Any] = {
    "cdiVersion": "1.1.0",
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
                "additionalGids": [44, 0],
            },
        },
        {"name": "1", "containerEdits": {"hooks": [{"hookName": "createContainer", "path": "/bin/hook"}]}},
        {"name": "2", "containerEdits": {
            "intelRdt": {"closID": "x"}, "netDevices": [{"hostInterfaceName": "ens1", "name": "eth1"}],
        }},
        {"name": "3", "containerEdits": {"deviceNodes": [
            {"path": "/dev/pipe", "type": "p"}, {"path": "/dev/seen", "permissions": "none"},
            {"path": "/dev/owned", "type": "c", "major": 10, "minor": 3, "fileMode": 384, "uid": 0, "gid": 44},
        ]}},
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
    first, second, third, fourth = parse(CARD, "/etc/cdi/card.json")
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
    assert third.edits.others == ("intelRdt", "netDevices")
    assert third.edits.interfaces == ("ens1",)
    assert fourth.edits.others == (
        "the pipe /dev/pipe", "permissions none of /dev/seen", "fileMode of /dev/owned", "uid of /dev/owned",
        "gid of /dev/owned",
    )


@pytest.mark.parametrize(("content", "problem"), [
    ([], r"\$: \[\] is not of type 'object'"),
    (None, r"\$: None is not of type 'object'"),
    ({"kind": "a.com/b", "devices": []}, "'cdiVersion' is a required property"),
    (spec(), r"\$.devices: \[\] should be non-empty"),
    (spec(named("0", "/dev/a"), kind="card"), r"\$.kind: 'card' does not match"),
    (spec(named("0", "/dev/a"), surprise=1), "'surprise' was unexpected"),
    (spec({"name": "0"}), r"\$.devices\[0\]: 'containerEdits' is a required property"),
    (spec(named("0", "/dev/a"), named("0", "/dev/b")), r"\$.devices: two devices have the name '0'"),
    (spec(named("0")), r"\$.devices\[0\].containerEdits is empty"),
    (spec(named("0", "/dev/a"), containerEdits={"env": ["LIBRARY"]}), r"containerEdits.env\[0\]"),
    (spec(named("0", "/dev/a"), name="x", NAME="y"), "'NAME', 'name' were unexpected"),
    ({**spec(named("0", "/dev/a")), "KIND": "a.com/b"}, "kind is given twice"),
])
def test_not_a_cdi_file(content: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse(content, "x.json")


def of(version: str, name: Any = "a", *, kind: str = "vendor.com/card", **edits: Any) -> dict[str, Any]:
    """Return a file of the version with one device."""
    return {"cdiVersion": version, "kind": kind, "devices": [{"name": name, "containerEdits": edits or NULL}]}


def node(**members: Any) -> dict[str, Any]:
    return {"deviceNodes": [{"path": "/dev/null", **members}]}


def hook(**members: Any) -> dict[str, Any]:
    return {"hooks": [{"hookName": "prestart", "path": "/bin/hook", **members}]}


def mount(**members: Any) -> dict[str, Any]:
    return {"mounts": [{"hostPath": "/a", "containerPath": "/b", **members}]}


def interfaces(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"netDevices": [{"hostInterfaceName": host, "name": name} for host, name in pairs]}


NULL = node()
NEWEST = "1.1.0"


@pytest.mark.parametrize("content", [
    *(pytest.param(of(version), id=f"version-{version}") for version in ("0.3.0", "0.4.0", "0.8.0", NEWEST, "v0.6.0")),
    pytest.param(of("0.5.0", "0"), id="a-name-of-a-digit"),
    *(pytest.param(of("0.5.0", name), id=f"name-{name}") for name in ("gpu:0", "gpu.0", "gpu_0", "GPU-0")),
    pytest.param(of("0.6.0", kind="vendor.com/gpu.shared"), id="a-class-with-a-dot"),
    pytest.param(of("0.6.0", kind="v_1.com/" + "c" * 63), id="the-longest-class"),
    pytest.param(of("0.5.0", **node(hostPath="/dev/zero")), id="host-path"),
    *(pytest.param(of("0.3.0", **node(permissions=each)), id=f"permissions-{each}") for each in ("", "rr", "rwmrwm")),
    *(pytest.param(of("0.3.0", **node(type=each)), id=f"type-{each}") for each in ("b", "c", "u", "p")),
    *(pytest.param(of("0.3.0", **hook(hookName=each)), id=each) for each in ("prestart", "createRuntime", "poststop")),
    pytest.param(of("0.3.0", **hook(timeout=1, args=["a"], env=["A=b"])), id="all-of-a-hook"),
    pytest.param(of("0.4.0", **mount(type="bind", options=["ro"])), id="mount-type"),
    pytest.param(of("0.4.0", **mount(hostPath="tmpfs", type="tmpfs")), id="a-mount-without-a-file"),
    pytest.param({**of("0.6.0"), "annotations": {"a": "b", "c": 1}}, id="annotations"),
    pytest.param(of("0.7.0", additionalGIDs=[0, 2**32 - 1]), id="groups-as-the-specification-spells-them"),
    pytest.param(of("0.7.0", intelRdt={"closID": "x", "enableCMT": True}), id="a-member-that-1.1-dropped"),
    pytest.param(of("0.7.0", intelRdt={}), id="an-empty-rdt"),
    pytest.param(of(NEWEST, intelRdt={"closID": "/", "schemata": ["MB:0=70"], "enableMonitoring": True}), id="rdt"),
    pytest.param(of(NEWEST, **interfaces(("ens1", "eth1"), ("ens2", "eth2"))), id="interfaces"),
    pytest.param({**of("0.6.0"), "annotations": None, "containerEdits": None}, id="null-is-unset"),
    pytest.param(of("0.3.0", env=["A=1"], mounts=[], netDevices=[], additionalGids=[]), id="an-empty-list-is-unset"),
])
def test_an_engine_loads_the_file(content: dict[str, Any]) -> None:
    (device,) = parse(content, "x.json")
    assert device.name == f"{content['kind']}={content['devices'][0]['name']}"


@pytest.mark.parametrize(("content", "problem"), [
    *(
        pytest.param(of(version), rf"\$.cdiVersion: '{version}' is not known", id=f"version-{version}")
        for version in ("9.9.9", "0.1.0", "0.2.0", "0.6", "0.9.0", "1.2.0", "vv0.6.0", "")
    ),
    pytest.param(of("0.4.0", "0"), "device name '0' needs cdiVersion 0.5.0 or later, got 0.4.0", id="digit"),
    pytest.param(of("0.5.0", kind="a.com/b.c"), "a class with a dot needs cdiVersion 0.6.0", id="dot"),
    pytest.param(of("0.3.0", **node(hostPath="/dev/a")), r"Nodes\[0\].hostPath needs cdiVersion 0.5.0", id="host"),
    pytest.param(
        {**of("0.4.0"), "containerEdits": node(hostPath="/dev/a")}, r"\$.containerEdits.*hostPath needs", id="common"
    ),
    pytest.param(of("0.3.0", **mount(type="bind")), r"mounts\[0\].type needs cdiVersion 0.4.0", id="mount-type"),
    pytest.param({**of("0.5.0"), "annotations": {"a": "b"}}, "annotations needs cdiVersion 0.6.0", id="annotations"),
    pytest.param(of("0.6.0", additionalGids=[1]), "additionalGids needs cdiVersion 0.7.0", id="groups"),
    pytest.param(of("0.6.0", intelRdt={}), "intelRdt needs cdiVersion 0.7.0", id="rdt"),
    pytest.param(of("1.0.0", intelRdt={"schemata": ["a"]}), "schemata needs cdiVersion 1.1.0", id="schemata"),
    pytest.param(of("1.0.0", **interfaces(("a", "b"))), "netDevices needs cdiVersion 1.1.0", id="interfaces"),
    pytest.param(of(NEWEST, intelRdt={"enableMBM": True}), "enableMBM is not a member of cdiVersion 1.1.0", id="gone"),
    *(
        pytest.param(of(NEWEST, name), r"devices\[0\].name", id=f"name-{name!r}")
        for name in ("", "a b", "a-", "_a", "a\n")
    ),
    *(
        pytest.param(of(NEWEST, kind=kind), r"\$.kind", id=f"kind-{kind[:12]!r}")
        for kind in (
            "a/", "/b", "a/b/c", "3a/b", "a/3b", "a/b-", "a/b\n", "a/" + "c" * 64, "v" * 254 + "/b", "a/\u00e9"
        )
    ),
    *(pytest.param(of(NEWEST, **node(permissions=each)), "perm", id=f"may-{each}") for each in ("x", "rxw", "R")),
    *(pytest.param(of(NEWEST, **node(type=each)), "type", id=f"type-{each}") for each in ("block", "C")),
    *(
        pytest.param(of(NEWEST, **node(**{member: value})), member, id=f"{member}-{value}")
        for member, value in (
            ("path", ""), ("path", "null"), ("major", "x"), ("minor", 2**63), ("uid", -1), ("gid", 2**32), ("mode", 1)
        )
    ),
    *(
        pytest.param(of(NEWEST, **hook(**{member: value})), member, id=f"hook-{member}-{value}")
        for member, value in (
            ("hookName", "nosuch"), ("hookName", "PreStart"), ("path", ""), ("path", "bin/a"), ("env", ["A"]),
            ("timeout", 0), ("timeout", 1.5), ("args", "a"),
        )
    ),
    *(
        pytest.param(of(NEWEST, **mount(**{member: ""})), member, id=f"mount-{member}")
        for member in ("hostPath", "containerPath")
    ),
    *(pytest.param(of(NEWEST, additionalGids=[gid]), "Gids", id=f"group-{gid}") for gid in (-1, 2**32, 1.5, "video")),
    *(
        pytest.param(of(NEWEST, intelRdt={"closID": name}), "closID", id=f"clos-{name[:3]!r}")
        for name in (".", "..", "a/b", "a\n", "a" * 4096)
    ),
    pytest.param(of(NEWEST, **interfaces(("a", "b"), ("a", "c"))), "two have the hostInterfaceName 'a'", id="twice"),
    pytest.param(of(NEWEST, **interfaces(("a", "b"), ("c", "b"))), "two have the name 'b'", id="named-twice"),
    pytest.param(of(NEWEST, **interfaces(("", "b"))), "hostInterfaceName", id="no-interface"),
    pytest.param({**of(NEWEST), "annotations": {"a": ["b"]}}, "annotations", id="a-list-in-annotations"),
])
def test_an_engine_refuses_the_file(content: dict[str, Any], problem: str) -> None:
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
    (tmp_path / "etc/cdi/folder.json").mkdir()
    write(tmp_path, "etc/cdi/e.json", '{"kind": "a.com/b", "kind": "a.com/b"}')
    write(tmp_path, "etc/cdi/g.yaml", "kind: a.com/b\nkind: a.com/b")
    write(tmp_path, "etc/cdi/f.json", spec(named("0", "/dev/card0")))
    found = load(tmp_path)
    assert list(found.by_name) == ["vendor.com/card=0"]
    assert [note.split(" is left out")[0] for note in found.notes] == [
        f"CDI file /etc/cdi/{name}" for name in ("a.json", "b.yaml", "c.json", "d.yaml", "e.json", "g.yaml")
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


def test_a_later_folder_ends_no_conflict(tmp_path) -> None:
    write(tmp_path, "etc/cdi/a.json", spec(named("0", "/dev/a")))
    write(tmp_path, "etc/cdi/b.json", spec(named("0", "/dev/b")))
    write(tmp_path, "var/run/cdi/c.json", spec(named("0", "/dev/c")))
    assert load(tmp_path).by_name == {}


def test_a_file_is_yaml_whatever_its_name_says(tmp_path) -> None:
    text = "cdiVersion: 0.6.0\nkind: vendor.com/card\ndevices: [{name: %s, containerEdits: {env: [A=1]}}]\n"
    write(tmp_path, "etc/cdi/a.json", text % 0)
    write(tmp_path, "etc/cdi/.yaml", f"---\n{text % 'yes'}---\nanother: document\n")
    assert sorted(load(tmp_path).by_name) == ["vendor.com/card=0", "vendor.com/card=true"]


def test_folders_of_the_engine(tmp_path) -> None:
    write(tmp_path, "etc/cdi/a.json", of("0.6.0", "unread"))
    write(tmp_path, "opt/cdi/a.json", of("0.6.0", "read"))
    assert list(load(tmp_path, ["/opt/cdi"]).by_name) == ["vendor.com/card=read"]
