# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from zun.compute.host.engine_watch import EngineWatch, changes, refusal, should_exist
from zun.container.driver.facts import EngineFacts, Store
from zun.container.fake import InMemoryDriver

BEFORE = Store("id-1", "/var/lib/docker", 2, "overlay2", "Docker")


@pytest.mark.parametrize(("now", "words"), [
    pytest.param({"driver": "vfs"}, "driver is vfs and was overlay2", id="driver"),
    pytest.param({"images": "containerd"}, "keeper of images is containerd and was Docker", id="images"),
    pytest.param({"folder": "/data", "inode": 9}, "folder is /data and was /var/lib/docker", id="folder"),
    pytest.param({"engine_id": "id-2"}, "id is id-2 and was id-1", id="data-made-anew"),
    pytest.param(
        {"inode": 77}, "/var/lib/docker is another folder than before; its disk may not be mounted", id="no-disk"
    ),
    pytest.param(
        {"driver": "overlayfs", "images": "containerd"},
        "driver is overlayfs and was overlay2, keeper of images is containerd and was Docker",
        id="store-of-containerd",
    ),
])  # fmt: skip
def test_changes_of_a_store_in_words(now: dict[str, object], words: str) -> None:
    assert changes(BEFORE, replace(BEFORE, **now)) == words  # type: ignore[arg-type]


@pytest.mark.parametrize(("lost", "words"), [
    (["u-1"], "it does not show container u-1, since"),
    (["u-1", "u-2"], "it does not show 2 containers, u-1 among them, since"),
])  # fmt: skip
def test_refusal_names_a_container_and_the_way_out(lost: list[str], words: str) -> None:
    told = refusal(BEFORE, replace(BEFORE, driver="vfs"), lost, Path("/var/lib/zun/engines/h1.json"))
    assert told.startswith(words)
    assert told.endswith("To give them up, remove /var/lib/zun/engines/h1.json: they count as removed then")


ROW = {"container_id": "abc", "auto_remove": False, "status": "Running"}


@pytest.mark.parametrize(("changed", "expected"), [
    pytest.param({}, True, id="running"),
    pytest.param({"status": "Stopped"}, True, id="stopped"),
    pytest.param({"status": "Unknown"}, True, id="unknown"),
    pytest.param({"status": "Restarting"}, True, id="restarting"),
    pytest.param({"container_id": None}, False, id="never-made"),
    pytest.param({"auto_remove": True}, False, id="removes-itself"),
    pytest.param({"status": "Error"}, False, id="error"),
    pytest.param({"status": "Creating"}, False, id="being-made"),
    pytest.param({"status": "Rebuilding"}, False, id="being-made-anew"),
    pytest.param({"status": "Deleting"}, False, id="being-removed"),
])  # fmt: skip
def test_containers_that_an_engine_should_show(changed: dict[str, object], expected: bool) -> None:
    assert should_exist({**ROW, **changed}) is expected


@pytest.mark.parametrize("text", ["", "{", "[]", '{"unknown": 1}', None], ids=repr)
def test_store_without_a_readable_file_is_noted(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "engines" / "h1.json"
    if text is not None:
        file.parent.mkdir()
        file.write_text(text)
    watch = EngineWatch("h1", InMemoryDriver(), None, file)  # type: ignore[arg-type]
    watch.judge(EngineFacts("Docker", store=BEFORE), lambda: pytest.fail("nothing to compare with"))
    assert json.loads(file.read_text()) == asdict(BEFORE)
    assert [each.name for each in file.parent.iterdir()] == ["h1.json"]


def test_store_that_cannot_be_noted_stops_no_agent(tmp_path: Path) -> None:
    (tmp_path / "engines").write_text("a file in the place of the folder")
    watch = EngineWatch("h1", InMemoryDriver(), None, tmp_path / "engines" / "h1.json")  # type: ignore[arg-type]
    watch.judge(EngineFacts("Docker", store=BEFORE), set)  # an agent must start all the same
