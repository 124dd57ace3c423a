# SPDX-License-Identifier: Apache-2.0
"""The role zun of Kolla-Ansible with the files of the page, and the programs started from what the role wrote."""

import contextlib
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap

import pytest
import requests
import yaml

from zun.tests.fixtures import wait_for
from zun.tests.integration import foreign
from zun.tests.integration.programs import free_port

pytestmark = [pytest.mark.slow, pytest.mark.foreign, pytest.mark.timeout(900)]

ROOT = pathlib.Path(__file__).parents[3]
BIN = pathlib.Path(sys.executable).parent
CONFIG_JSON = "/var/lib/kolla/config_files/config.json"
_LOADER = importlib.machinery.SourceFileLoader("kolla_start", str(ROOT / "etc/kolla/kolla_start"))
kolla_start = importlib.util.module_from_spec(importlib.util.spec_from_loader("kolla_start", _LOADER))
_LOADER.exec_module(kolla_start)


def files_of_the_page():
    """Return the text of each block whose caption is a path."""
    page = (ROOT / "doc/source/install/images.rst").read_text()
    found = re.findall(r"^   :caption: (/\S+)\n\n((?:   .*\n|\n)+)", page, re.MULTILINE)
    return {path: textwrap.dedent(text).strip("\n") + "\n" for path, text in found}


PLAY = [
    {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [
            {"setup": {"gather_subset": ["!all", "network", "distribution", "hardware"]}},
            {"import_role": {"name": "zun", "tasks_from": "config.yml"}},
            {"copy": {"content": "{{ zun_services | to_json }}", "dest": "{{ node_config_directory }}/services"}},
        ],
    }
]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """The folder with what the role wrote, the role's services, the page's files, and the port of the API."""
    folder, kolla, page = tmp_path_factory.mktemp("kolla"), foreign.installed("kolla"), files_of_the_page()
    port, share = free_port(), kolla / "share/kolla-ansible"
    for path, text in page.items():
        if path.startswith("/etc/kolla/config/"):
            place = folder / "config" / path.removeprefix("/etc/kolla/config/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
    (folder / "config/zun/localhost").mkdir(parents=True)
    (folder / "config/zun/localhost/zun.conf").write_text(f"""\
[DEFAULT]
state_path = {folder}/state
log_dir = {folder}/log
log_file =
[oslo_concurrency]
lock_path = {folder}/state
[database]
connection = sqlite:///{folder}/zun.sqlite
[compute]
container_driver = fake
[network]
driver = fake
""")
    for name in ("state", "log", "node"):
        (folder / name).mkdir()
    site = {
        "node_config": str(folder),
        "node_custom_config": str(folder / "config"),
        "node_config_directory": str(folder / "node"),
        "ansible_become": False,
        "ansible_python_interpreter": str(kolla / "bin/python"),
        "kolla_base_distro": "debian",
        "kolla_internal_vip_address": "127.0.0.1",
        "kolla_same_external_internal_vip": True,
        "api_interface_address": "127.0.0.1",
        "config_owner_user": "root",
        "config_owner_group": "root",
        "zun_database_password": "secret",
        "zun_keystone_password": "secret",
        "rpc_transport_url": "inproc:///",
        "enable_memcached": False,
        "zun_api_port": port,
        "zun_wsproxy_port": free_port(),
    }
    (folder / "globals.yml").write_text(page["/etc/kolla/globals.yml"])
    (folder / "site.json").write_text(json.dumps(site))
    (folder / "play.yml").write_text(yaml.safe_dump(PLAY))
    plugins = {"LIBRARY": "library", "ROLES_PATH": "roles", "MODULE_UTILS": "module_utils"}
    plugins |= {f"{kind.upper()}_PLUGINS": f"{kind}_plugins" for kind in ("filter", "action")}
    environment = {f"ANSIBLE_{name}": str(share / "ansible" / path) for name, path in plugins.items()}
    variables = [*sorted(share.glob("ansible/group_vars/all/*.yml")), share / "etc_examples/kolla/passwords.yml"]
    words = [word for path in [*variables, folder / "globals.yml", folder / "site.json"] for word in ("-e", f"@{path}")]
    done = subprocess.run(
        [kolla / "bin/ansible-playbook", "-i", share / "ansible/inventory/all-in-one", *words, folder / "play.yml"],
        env={**os.environ, **environment, "ANSIBLE_HOME": str(folder / "ansible"), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return folder, json.loads((folder / "node/services").read_text()), page, port


def command_of(folder, service, volumes, page):
    """Return the command that kolla_start runs in the container of a service, with the paths of this test."""
    mounted = [each.split(":")[0] for each in volumes if each and f":{CONFIG_JSON}:" in each]
    text = page[mounted[-1]] if mounted else (folder / "node" / service / "config.json").read_text()
    command = kolla_start.read(text)["command"]
    program, *rest = shlex.split(command.replace("/etc/zun/zun.conf", str(folder / "node" / service / "zun.conf")))
    return [str(BIN / program), *rest]


def test_role_of_kolla_starts_the_programs(deployed):
    folder, services, page, port = deployed
    commands = {name: command_of(folder, name, each["volumes"], page) for name, each in services.items()}
    programs = {pathlib.Path(words[0]).name for words in commands.values()}
    assert programs == {"zun-api", "zun-scheduler", "zun-compute", "zun-wsproxy"}
    assert {each["image"] for each in services.values()} == {f"{name}:1.0.0" for name in programs}
    upgrade = [BIN / kolla_start.BOOTSTRAP[0], "--config-file", folder / "node/zun-api/zun.conf", "upgrade"]
    subprocess.run(upgrade, check=True, capture_output=True, timeout=300)
    with contextlib.ExitStack() as running:
        for name, words in commands.items():
            said = running.enter_context((folder / f"{name}.out").open("wb"))
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=folder)
            running.callback(process.wait, 60)
            running.callback(process.terminate)
        for program in programs:
            log = folder / f"log/{program}.log"
            wait_for(lambda log=log: log.exists() and "is ready" in log.read_text(), 120)
        answer = requests.get(f"http://127.0.0.1:{port}/", timeout=60)
        assert answer.json()["default_version"]["id"] == "v1"
