# SPDX-License-Identifier: Apache-2.0
"""The installation page, its files and the units, without the machine on which tools/install.py runs them."""

import configparser
import importlib.util
import os
import pathlib
import re
import shlex
import stat
import subprocess
import sys

import pytest
import yaml
from keystoneauth1 import loading
from oslo_config import cfg
from oslo_log import log as oslo_log

from zun import conf as zun_conf
from zun.api.schemas import capsules
from zun.cmd import broker_manage
from zun.common import secrets
from zun.conf import misspelt
from zun.messaging import rpc
from zun.tests.unit.entry_points import POINTS
from zun.tests.unit.of_the_system import program

ROOT = pathlib.Path(__file__).parents[3]
_SPEC = importlib.util.spec_from_file_location("install", ROOT / "tools/install.py")
install = importlib.util.module_from_spec(_SPEC)
sys.modules["install"] = install  # where dataclasses look for it
_SPEC.loader.exec_module(install)

STEPS = list(install.steps(install.PAGE.read_text()))
FILES = {step.path: install.filled(step.text) for step in STEPS if isinstance(step, install.File)}
COMMANDS = [install.filled(step.text) for step in STEPS if isinstance(step, install.Command)]
UPGRADE = [
    step.text for step in install.steps((ROOT / "doc/source/admin/upgrade.rst").read_text(), ["Switch programs"])
]
UNITS = {path.name: path for path in (ROOT / "etc/systemd").iterdir()}
SCRIPTS = {point.name for point in POINTS if point.group == "console_scripts"}
# One is for itself, the others end by themselves.
OF_A_MACHINE = {"zun-allinone", "zun-broker-manage", "zun-db-manage", "zun-status"}


def unit(name):
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.optionxform = str
    parsed.read_string(UNITS[name].read_text())
    return parsed


def test_every_service_has_a_unit():
    assert set(UNITS) == {f"{name}.service" for name in SCRIPTS - OF_A_MACHINE}


def test_the_page_installs_and_starts_every_unit():
    words = [word for command in COMMANDS for word in shlex.split(command)]
    installed = {word for word in words if word.startswith("etc/")}
    assert installed == {f"etc/systemd/{name}" for name in UNITS} | {
        "etc/sysusers.d/zun.conf",
        "etc/tmpfiles.d/zun.conf",
    }
    started = {word for command in COMMANDS if "enable --now" in command for word in shlex.split(command)}
    assert {f"{word}.service" for word in started if word.startswith("zun-")} == set(UNITS)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give folders to a group")
def test_page_makes_the_user_and_the_folders(tmp_path):
    """The commands work below another root, where no user and no folder of the service exists."""
    for command in COMMANDS:
        name, *words = shlex.split(command)
        if name in ("systemd-sysusers", "systemd-tmpfiles"):
            subprocess.run([program(name), f"--root={tmp_path}", *words], check=True)
        elif words[-1].startswith(("/etc/sysusers.d", "/etc/tmpfiles.d")):
            subprocess.run([name, *words[:-1], f"{tmp_path}{words[-1]}"], check=True, cwd=ROOT)
    user = (tmp_path / "etc/passwd").read_text().splitlines()[-1].split(":")
    assert (user[0], user[5:]) == ("zun", ["/var/lib/zun", "/usr/sbin/nologin"])
    uid, gid = int(user[2]), int(user[3])
    assert f"zun:x:{gid}:" in (tmp_path / "etc/group").read_text()

    def looks(path):
        seen = (tmp_path / path).stat()
        return stat.filemode(seen.st_mode), seen.st_uid, seen.st_gid

    assert looks("etc/zun") == looks("etc/zun/zun.conf.d") == ("drwxr-x---", 0, gid)
    assert looks("var/log/zun") == ("drwxr-x---", uid, gid)


def test_upgrade_installs_every_unit_as_the_installation():
    units = [step.text for step in STEPS if "etc/systemd/" in step.text]
    assert [command for command in UPGRADE if "etc/systemd/" in command] == units
    assert UPGRADE.count("systemctl daemon-reload") == 2


def test_upgrade_moves_the_link_of_the_installation(tmp_path):
    def switched(commands, release):
        """Make the folder of a release, move the link, and return whether it leads there."""
        filled = [re.sub(r"-(RELEASE|NEW)", f"-{release}", each.replace("/opt", str(tmp_path))) for each in commands]
        make, move = [next(each for each in filled if each.startswith(word)) for word in ("python3 -m venv ", "ln ")]
        folder = pathlib.Path(make.removeprefix("python3 -m venv "))
        folder.mkdir(exist_ok=True)
        subprocess.run(shlex.split(move), check=True)
        return (tmp_path / "zun").resolve() == folder

    installation = [step.text for step in STEPS if isinstance(step, install.Command)]
    assert switched(installation, "1.0") and switched(UPGRADE, "1.1") and switched(UPGRADE, "1.0")
    assert {path.name for path in tmp_path.iterdir()} == {"zun", "zun-1.0", "zun-1.1"}
    (tmp_path / "zun").unlink()
    (tmp_path / "zun").mkdir()  # of an installation without links: the link must not end up inside
    with pytest.raises(subprocess.CalledProcessError):
        switched(UPGRADE, "1.1")


@pytest.mark.parametrize("name", sorted(UNITS))
def test_a_unit_starts_the_program_of_its_name(name):
    assert unit(name)["Service"]["ExecStart"] == f"/opt/zun/bin/{name.removesuffix('.service')}"


@pytest.mark.parametrize("name", sorted(set(UNITS) - {"zun-compute.service"}))
def test_only_the_compute_unit_runs_as_root(name):
    service = unit(name)["Service"]
    assert (service["User"], service["NoNewPrivileges"]) == ("zun", "yes")


def test_docker_sees_what_the_compute_unit_mounts():
    apart = r"Private|Protect|Read|Temporary|Bind|Inaccessible|RootDirectory|Mount"
    assert [option for option in unit("zun-compute.service")["Service"] if re.match(apart, option)] == []


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Give a function that reads the page's files as a program does, in a home instead of /etc."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".zun"
    for path, text in FILES.items():
        if path.startswith("/etc/zun/"):
            place = folder / path.removeprefix("/etc/zun/")
            place.parent.mkdir(exist_ok=True)
            place.write_text(text)
    for command in COMMANDS:
        if "zun-broker-manage" in command:  # without --run it prints the script for RabbitMQ
            words = command.replace("/etc/zun", str(folder)).split()[1:]
            broker_manage.main([word for word in words if word != "--run"])

    def read(program):
        made = cfg.ConfigOpts()
        oslo_log.register_options(made)
        rpc.register_opts(made)
        zun_conf.register_opts(made)
        made([], project="zun", prog=program)
        return made

    return read


@pytest.fixture
def conf(configured):
    """The configuration of the page's files."""
    return configured("zun-api")


def test_every_value_of_the_page_is_taken(conf):
    assert list(misspelt.misspelt(conf)) == []
    read = [conf[group.GROUP][option.name] for group in zun_conf.GROUPS[1:] for option in group.OPTS]
    assert len(read) > 20 and len(secrets.keys(conf)) == 1


def test_the_login_of_the_service_is_one():
    section = re.search(r"\[keystone_authtoken\]\n((?:\w+ = .*\n)+)", FILES["/etc/zun/zun.conf.d/controller.conf"])[1]
    known = {option.dest for option in loading.get_auth_plugin_conf_options("password")}
    assert set(re.findall(r"^(\w+) =", section, re.MULTILINE)) - known == {"www_authenticate_uri", "auth_type"}


def test_a_host_has_no_login_of_database_or_keystone():
    of_host = FILES["/etc/zun/zun.conf"] + FILES["/etc/zun/zun.conf.d/host.conf"]
    assert "[compute]\ndatabase = conductor" in of_host
    for secret in ("[database]", "[keystone_authtoken]", "auth_encryption_key"):
        assert secret not in of_host and secret in FILES["/etc/zun/zun.conf.d/controller.conf"]


def test_every_program_has_the_user_of_its_service_and_host(configured):
    users = {name: rpc.own_user(configured(name)) for name in SCRIPTS - {"zun-allinone", "zun-broker-manage"}}
    assert users == {
        **{name: name for name in ("zun-api", "zun-scheduler", "zun-conductor")},
        **dict.fromkeys(("zun-compute", "zun-wsproxy"), "zun-compute.host-1"),
        "zun-db-manage": "zun-api",
        "zun-status": None,
    }


def test_terminals_and_ports_of_the_page_reach_users(conf):
    assert conf.websocket_proxy.wsproxy_host == install.ADDRESS
    assert conf.websocket_proxy.base_url == f"ws://{install.ADDRESS}:6784/"
    assert str(conf.network.published_address) == install.ADDRESS


def test_nobody_can_change_the_sandbox_of_the_page(conf):
    assert "@sha256:" in conf.capsule.sandbox_image and conf.capsule.sandbox_command == []


def test_no_word_in_capitals_is_left():
    text = "\n".join([*COMMANDS, *FILES.values()])
    assert [word for word in install.WORDS if re.search(rf"\b{word}\b", text)] == []
    others = "CREATE DATABASE CHARACTER SET GRANT ALL ON TO IDENTIFIED BY DEFAULT PATH PWD"
    assert set(re.findall(r"\b[A-Z][A-Z_]+\b", text)) - set(others.split()) == set()


def test_files_with_passwords_are_for_root_and_the_service():
    assert COMMANDS.index("chown root:zun /etc/zun/*.conf /etc/zun/zun.conf.d/*.conf") < COMMANDS.index(
        "chmod 640 /etc/zun/*.conf /etc/zun/zun.conf.d/*.conf"
    )


def test_the_capsule_of_the_page_is_one():
    template = yaml.safe_load(FILES["capsule.yaml"])
    assert capsules.CREATE({"template": template})["template"] == template
