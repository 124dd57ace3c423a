# SPDX-License-Identifier: Apache-2.0
"""The checks before an upgrade."""

from dataclasses import replace

import pytest
from oslo_config import cfg
from oslo_utils import uuidutils

from zun import conf as zun_conf
from zun.cmd import status
from zun.common.secrets import Cipher
from zun.db import migration, registries, session
from zun.tests.unit.db import rows
from zun.topology import HostTopology
from zun.topology.devices import Device

KEY = "k" * 32


@pytest.fixture(autouse=True)
def database(tmp_path):
    """An SQLite database with the newest schema."""
    session.configure(f"sqlite:///{tmp_path}/zun.sqlite")
    migration.upgrade()


@pytest.fixture
def checked(tmp_path):
    """Runs every check with a configuration file; returns check -> (code, details)."""

    def check(text=""):
        file = tmp_path / "zun.conf"
        file.write_text(text)
        conf = zun_conf.register_opts(cfg.CONF)
        conf([], project="zun-test", default_config_files=[str(file)], default_config_dirs=[])
        checks = status.Checks()
        results = {name: run(checks) for name, run in checks._upgrade_checks}
        return {name: (result.code.name, result.details or "") for name, result in results.items()}

    yield check
    cfg.CONF.reset()


def password(key):
    row = {"uuid": uuidutils.generate_uuid(), "project_id": "demo", "domain": "quay.io", "username": "me"}
    return registries.insert({**row, "password": Cipher([key]).encrypt("secret", registries.owner(row))})["uuid"]


def test_all_is_well(checked):
    password(KEY)
    found = checked(f"[DEFAULT]\nauth_encryption_key = {KEY}\n")
    assert set(found.values()) == {("SUCCESS", "")}


def test_an_option_that_nobody_reads(checked):
    code, details = checked("[compute]\ncpu_dedicated_sets = 1\n")["Options of configuration files"]
    assert code == "WARNING" and "cpu_dedicated_set" in details


@pytest.mark.parametrize("text", ["", f"[DEFAULT]\nauth_encryption_key = {'x' * 32}\n"], ids=["none", "another"])
def test_a_key_that_is_not_the_one(checked, text):
    uuid = password(KEY)
    code, details = checked(text)["Passwords of registries"]
    assert code == "FAILURE" and uuid in details


def test_an_old_schema(checked, tmp_path):
    session.configure(f"sqlite:///{tmp_path}/old.sqlite")
    migration.upgrade("0017")
    found = checked()
    code, details = found["Schema of the database"]
    assert code == "FAILURE" and "0017" in details and "zun-db-manage upgrade" in details
    assert found["Passwords of registries"][0] == "WARNING"


def test_a_class_for_shares_and_for_whole_devices_is_named(checked):
    whole = Device("0000:81:00.0", "10de", "20b0", resource_class="CUSTOM_GPU")
    for name, device in (("h1", whole), ("h2", whole), ("h3", replace(whole, shared=4, resource_class="CUSTOM_SLICE"))):
        rows.node(name, topology=HostTopology(devices=(device,)).to_dict())
    assert checked()["Classes of shared devices"] == ("SUCCESS", "")
    rows.node("h4", topology=HostTopology(devices=(replace(whole, shared=4),)).to_dict())
    code, details = checked()["Classes of shared devices"]
    assert code == "WARNING"
    assert details.startswith("Resource class CUSTOM_GPU is for shared devices on host h4 and for whole devices on")


def test_a_host_whose_row_cannot_be_read_is_named(checked):
    rows.node("sound")
    rows.node("broken", topology={"cells": [{"id": 0, "cpus": "0", "memory_mib": -5}]})
    code, details = checked()["Rows of hosts"]
    assert code == "WARNING"
    assert "Host broken gets no containers" in details and "got -5" in details and "sound" not in details
