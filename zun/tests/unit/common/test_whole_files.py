# SPDX-License-Identifier: Apache-2.0
import os

import pytest

from zun.common.whole_files import write_whole


def test_content_and_mode(tmp_path):
    file = tmp_path / "record.json"
    write_whole(file, b"one")
    write_whole(file, b"two")
    assert file.read_bytes() == b"two"
    assert file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["record.json"]


def test_failure_leaves_the_old_content(tmp_path, monkeypatch):
    file = tmp_path / "record.json"
    write_whole(file, b"one")

    def full(path, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(file, b"two")
    assert file.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["record.json"]
