# SPDX-License-Identifier: Apache-2.0
"""zun-broker-manage, with a program in the place of rabbitmqctl."""

import json
import re
import subprocess

import pytest

from zun import version
from zun.cmd import broker_manage as manage


@pytest.fixture
def rabbitmqctl(tmp_path):
    """A program that notes its words and its input, and fails for the words in a file ``fails``."""
    program = tmp_path / "rabbitmqctl"
    program.write_text(
        f'#!/bin/sh\ncat >"{tmp_path}/input.$2"\necho "$@" >>"{tmp_path}/words"\n'
        f'if grep -qx "$2" "{tmp_path}/fails" 2>/dev/null; then echo "Error: no" >&2; exit 64; fi\n'
    )
    program.chmod(0o755)
    return program


def test_definitions_have_no_password():
    made = manage.definitions({"zun-api": "secret", "zun-compute.h1": "other"}, "v", "zun")
    assert "secret" not in json.dumps(made)
    assert made["vhosts"] == [{"name": "v"}]
    assert [each["name"] for each in made["exchanges"]] == ["zun", "zun.hosts", "zun.replies"]
    assert [each["user"] for each in made["permissions"]] == ["zun-api", "zun-compute.h1"]
    assert len(made["topic_permissions"]) == 6


def test_version_is_the_one_of_the_package(capsys):
    with pytest.raises(SystemExit) as ended:
        manage.main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"{version.release()}\n")


def test_hash_is_the_one_of_rabbitmq():
    """The example of https://www.rabbitmq.com/docs/passwords."""
    assert manage.hashed("test12", bytes.fromhex("908dc60a")) == "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


def test_printed_script_is_what_run_does(rabbitmqctl, capsys, tmp_path):
    manage.main(["--rabbitmqctl", str(rabbitmqctl), "rotate", "h1"])
    printed = capsys.readouterr().out
    subprocess.run(["sh"], input=printed, text=True, check=True)
    words = (tmp_path / "words").read_text().splitlines()
    assert words == ["-q import_definitions", "-q close_all_user_connections zun-compute.h1 new password"]
    (user,) = json.loads((tmp_path / "input.import_definitions").read_text())["users"]
    assert user["name"] == "zun-compute.h1"
    (tmp_path / "words").unlink()
    manage.main(["--run", "--rabbitmqctl", str(rabbitmqctl), "--broker", "b:1", "rotate", "h1"])
    assert (tmp_path / "words").read_text().splitlines() == words
    url = capsys.readouterr().out
    assert re.fullmatch(r"zun-compute\.h1: transport_url = rabbit://zun-compute\.h1:[\w-]{32}@b:1/zun\n", url)


def test_setup_makes_a_user_for_each_service(rabbitmqctl, capsys, tmp_path):
    manage.main(["--run", "--rabbitmqctl", str(rabbitmqctl), "--vhost", "a/b", "setup"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["zun-api", "zun-scheduler", "zun-conductor"]
    assert all(line.endswith("@CONTROLLER:5672/a%2Fb") for line in lines)


def test_files_keep_their_mode_and_nothing_is_printed(rabbitmqctl, capsys, tmp_path):
    for name in ("zun-compute.conf", "zun-wsproxy.conf"):
        (tmp_path / name).write_text("a longer line of before" * 99)
        (tmp_path / name).chmod(0o600)
    for command in (["setup"], ["add-host", "h1"], ["rotate", "h1"]):
        manage.main(["--run", "--rabbitmqctl", str(rabbitmqctl), "--files", str(tmp_path), *command])
    assert capsys.readouterr().out == ""
    found = {path.stem: path for path in tmp_path.glob("*.conf")}
    assert {name: oct(path.stat().st_mode & 0o777) for name, path in found.items()} == {
        **dict.fromkeys(("zun-api", "zun-db-manage", "zun-scheduler", "zun-conductor"), "0o640"),
        **dict.fromkeys(("zun-compute", "zun-wsproxy"), "0o600"),
    }
    line = r"\[DEFAULT\]\ntransport_url = rabbit://([\w.-]+):[\w-]{32}@CONTROLLER:5672/zun\n"
    assert {name: re.fullmatch(line, path.read_text())[1] for name, path in found.items()} == {
        **{name: name for name in ("zun-api", "zun-scheduler", "zun-conductor")},
        "zun-db-manage": "zun-api",
        **dict.fromkeys(("zun-compute", "zun-wsproxy"), "zun-compute.h1"),
    }


def test_a_missing_folder_changes_no_password(rabbitmqctl, tmp_path):
    words = ["--run", "--rabbitmqctl", str(rabbitmqctl), "--files", str(tmp_path / "gone"), "add-host", "h1"]
    with pytest.raises(SystemExit, match=r"--files must be an existing folder, got .*/gone"):
        manage.main(words)
    assert not (tmp_path / "words").exists()


@pytest.mark.parametrize("command", [["setup"], ["add-host", "h1"], ["rotate", "h1"]], ids=lambda words: words[0])
def test_options_of_the_operator_are_not_overwritten(rabbitmqctl, tmp_path, command):
    text = "[DEFAULT]\ntransport_url = rabbit://\n[api]\nport = 1\n"
    texts = dict.fromkeys(("zun-scheduler", "zun-wsproxy"), text)
    for name, text in texts.items():
        (tmp_path / f"{name}.conf").write_text(text)
    with pytest.raises(SystemExit, match=r"also has port, and would be overwritten\. Nothing was changed"):
        manage.main(["--run", "--rabbitmqctl", str(rabbitmqctl), "--files", str(tmp_path), *command])
    assert {each.stem: each.read_text() for each in tmp_path.glob("*.conf")} == texts
    assert not (tmp_path / "words").exists()


def test_a_removed_host_may_be_gone_in_part(rabbitmqctl, tmp_path, capsys):
    (tmp_path / "fails").write_text("delete_queue\ndelete_user\n")
    manage.main(["--run", "--rabbitmqctl", str(rabbitmqctl), "remove-host", "h1"])
    words = (tmp_path / "words").read_text()
    assert "delete_user zun-compute.h1" in words and "delete_queue -p zun zun.compute.h1.agent" in words
    assert capsys.readouterr().out == ""


def test_a_failure_names_the_command(rabbitmqctl, tmp_path):
    (tmp_path / "fails").write_text("import_definitions\n")
    with pytest.raises(SystemExit, match="rabbitmqctl import_definitions failed: Error: no"):
        manage.main(["--run", "--rabbitmqctl", str(rabbitmqctl), "setup"])


def test_a_bad_name_of_a_host_is_told():
    with pytest.raises(SystemExit, match=r"host must be .*'a b'"):
        manage.main(["add-host", "a b"])
