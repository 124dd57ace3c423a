# SPDX-License-Identifier: Apache-2.0
import importlib.resources

from zun.ui import files
from zun.ui.files import File


def test_packaged_files_are_those_of_the_folder():
    folder = importlib.resources.files("zun.ui").joinpath("static")
    found = files.packaged()
    assert found[files.PAGE] == File(folder.joinpath(files.PAGE).read_bytes(), "text/html; charset=utf-8")
    assert all(folder.joinpath(path).is_file() for path in found)


def test_only_known_ends_of_names_are_read(tmp_path):
    (tmp_path / "vendor").mkdir()
    for name in ("a.js", "vendor/b.css", "c.svg", "vendor/SOURCES.csv", "d.py", "js", "e.js.map", ".html"):
        (tmp_path / name).write_text(name)
    assert {path: file.content_type for path, file in files.read(tmp_path)} == {
        "a.js": "text/javascript; charset=utf-8",
        "vendor/b.css": "text/css; charset=utf-8",
        "c.svg": "image/svg+xml",
        ".html": "text/html; charset=utf-8",
    }


def test_etag_follows_the_content():
    one, same, other = (File(content, "text/css") for content in (b"a", b"a", b"b"))
    assert one.etag == same.etag != other.etag
    assert one.etag[0] == one.etag[-1] == '"'
