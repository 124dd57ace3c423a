# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from zun.topology.files import Tree


@pytest.mark.parametrize("target", ["pipe", "/dev/zero"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, target: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "name").symlink_to(target)
    tree = Tree(tmp_path)
    assert tree.text("name") is None
    assert tree.notes == ["/name cannot be read: it is not a regular file"]


def test_folder_is_no_text(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    assert tree.text("") is None
    assert tree.notes == ["/ cannot be read: it is not a regular file"]


def test_missing_file_leaves_no_note(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    assert (tree.text("a/b"), tree.notes) == (None, [])
