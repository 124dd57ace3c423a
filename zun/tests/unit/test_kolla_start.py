# SPDX-License-Identifier: Apache-2.0
"""The entry point of the images."""

import getpass
import importlib.machinery
import importlib.util
import json
import pathlib
import pwd
import re

import pytest

from zun.tests.fixtures import own_conf
from zun.tests.unit.entry_points import GROUPS

ROOT = pathlib.Path(__file__).parents[3]
_LOADER = importlib.machinery.SourceFileLoader("kolla_start", str(ROOT / "etc/kolla/kolla_start"))
kolla = importlib.util.module_from_spec(importlib.util.spec_from_loader("kolla_start", _LOADER))
_LOADER.exec_module(kolla)
ME = getpass.getuser()


def configured(tmp_path, entry, strategy="COPY_ALWAYS", **more):
    entry = {"owner": ME, "perm": "0640", **entry}
    kolla.configure({"config_files": [entry], **more}, strategy, tmp_path / "configured")


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in/sub").mkdir(parents=True)
    (tmp_path / "in/a.conf").write_text("a")
    (tmp_path / "in/sub/b.conf").write_text("b")
    return tmp_path / "in"


def test_file_is_copied_with_its_mode(tmp_path, source):
    configured(tmp_path, {"source": f"{source}/a.conf", "dest": f"{tmp_path}/etc/zun/zun.conf"})
    made = tmp_path / "etc/zun/zun.conf"
    assert (made.read_text(), made.stat().st_mode & 0o777) == ("a", 0o640)
    assert [each.name for each in made.parent.iterdir()] == ["zun.conf"]


@pytest.mark.parametrize("merge", [False, True])
def test_folder_is_replaced_unless_merged(tmp_path, source, merge):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/old").write_text("")
    configured(tmp_path, {"source": str(source), "dest": f"{tmp_path}/out", "merge": merge})
    assert (tmp_path / "out/sub/b.conf").read_text() == "b" and (tmp_path / "out/old").exists() == merge
    assert (tmp_path / "out/sub").stat().st_mode & 0o777 == 0o750


def test_pattern_is_copied_into_a_folder(tmp_path, source):
    configured(tmp_path, {"source": f"{source}/*.conf", "dest": f"{tmp_path}/out/"})
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["a.conf"]


def test_copy_once_keeps_the_first_files(tmp_path, source):
    entry = {"source": f"{source}/a.conf", "dest": f"{tmp_path}/out"}
    configured(tmp_path, entry, "COPY_ONCE")
    (source / "a.conf").write_text("new")
    configured(tmp_path, entry, "COPY_ONCE")
    assert (tmp_path / "out").read_text() == "a"
    configured(tmp_path, entry)
    assert (tmp_path / "out").read_text() == "new"


def test_permissions_are_set_on_what_is_there(tmp_path, source):
    kolla.permit({"path": str(source), "owner": ME, "perm": "0600", "recurse": True})
    assert (source / "sub/b.conf").stat().st_mode & 0o777 == 0o600
    assert (source / "sub").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("entry", "strategy", "text"),
    [
        pytest.param({}, "COPY_ALWAYS", "none must exist", id="missing"),
        pytest.param({"source": "a.conf", "owner": "nobody-here"}, "COPY_ALWAYS", "owner must be USER", id="owner"),
        pytest.param({"source": "a.conf", "perm": "rw"}, "COPY_ALWAYS", "octal mode", id="perm"),
        pytest.param({}, "COPY_NEVER", "KOLLA_CONFIG_STRATEGY must be one of", id="strategy"),
    ],
)
def test_error_names_the_member_and_what_it_must_be(tmp_path, source, entry, strategy, text):
    entry = {**entry, "source": f"{source}/{entry.get('source', 'none')}", "dest": f"{tmp_path}/out"}
    with pytest.raises(kolla.Wrong, match=text):
        configured(tmp_path, entry, strategy)


def test_optional_file_may_be_missing(tmp_path, source):
    configured(tmp_path, {"source": f"{source}/none", "dest": f"{tmp_path}/out", "optional": True})


def test_groups_of_the_container_stay_but_for_roots():
    """``docker run --group-add`` gives a program the group of Docker's socket."""
    assert set(kolla.groups("daemon", [0, 4711])) == {pwd.getpwnam("daemon").pw_gid, 4711}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "must be JSON"),
        ("[]", "must be an object"),
        ('{"command": " "}', "text 'command'"),
        ('{"command": "a", "config_files": [{"source": "b"}]}', "b must have a text 'dest'"),
    ],
)
def test_config_that_cannot_work_is_refused(text, why):
    with pytest.raises(kolla.Wrong, match=why):
        kolla.read(text)


DOCKERFILE = (ROOT / "etc/kolla/Dockerfile").read_text()
PAGE = (ROOT / "doc/source/install/images.rst").read_text()


def test_every_service_has_an_image():
    file = DOCKERFILE
    targets = re.findall(r"^FROM .* AS (.+)$", file, re.MULTILINE)
    units = {path.stem for path in (ROOT / "etc/systemd").iterdir()}
    assert set(targets) == {"zun-base", *units}
    assert json.loads('["kolla_start"]') == json.loads(re.search(r"^CMD (.*)$", file, re.MULTILINE)[1])


def stage(target):
    """The instructions of an image, one a line."""
    found = re.search(rf"^FROM .* AS {target}\n(.*?)(?=^FROM|\Z)", DOCKERFILE, re.DOTALL | re.MULTILINE)
    return found[1].replace("\\\n", "")


def test_compute_image_has_neutron_and_cinder():
    extras = re.search(r"'zun\[(.*)\]'", stage("zun-base"))[1]
    assert {"neutron", "cinder", "memcached"} < set(extras.split(",")) < GROUPS["extras"].keys()
    assert f'"$ROOT[{extras}]"' in (ROOT / "tools/images.sh").read_text()


def test_image_has_the_group_of_kollas_logs():
    """Kolla-Ansible's config.json gives them to zun:kolla."""
    assert "groupadd --system --gid 42400 kolla" in stage("zun-base")


def test_page_names_the_packages_of_the_compute_image():
    installed = re.search(r"install_missing ([a-z0-9 -]+)", stage("zun-compute"))[1].split()
    told = re.search(r"packages\s+of\s+Debian:\s+(.*?)\.\n", PAGE, re.DOTALL)[1]
    assert re.findall(r"``(.*?)``", told) == installed


def test_page_mounts_the_default_folders():
    conf = own_conf()
    told = re.findall(r"^``(/\S+)``  ", PAGE, re.MULTILINE)
    assert str(pathlib.Path(conf.neutron.plugin_socket).parent) in told
    assert f"{pathlib.Path(conf.cinder.mount_directory).parent}:shared" in told
