# SPDX-License-Identifier: Apache-2.0
"""Lists that the page has of its own are those of the service."""

import json
import pathlib
import re

import pytest

import zun
from zun.api.schemas import containers as schemas
from zun.api.settings import Settings
from zun.common import states
from zun.scheduler.explain import HostCode
from zun.tests.fixtures import own_conf
from zun.topology import CPUPolicy, Isolation, MemPolicy, NUMAAffinity, RefusalCode, ThreadPolicy
from zun.topology.device_request import DevicePolicy, DeviceSame

FOLDER = pathlib.Path(zun.__file__).parent / "ui/static"
REQUEST = (FOLDER / "request.js").read_text()


def test_statuses_of_buttons_are_those_of_the_service():
    found = re.search(r"export const ALLOWED = (\{.*?\});", (FOLDER / "actions.js").read_text(), re.DOTALL)
    allowed = json.loads(re.sub(r",(\s*})", r"\1", found[1]))
    assert allowed == {action: sorted(states.ALLOWED[action]) for action in allowed}


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("cpu_policy", CPUPolicy),
        ("cpu_thread_policy", ThreadPolicy),
        ("cpu_isolation", Isolation),
        ("numa_affinity", NUMAAffinity),
        ("numa_mempolicy", MemPolicy),
        ("device_numa_policy", DevicePolicy),
        ("device_same", DeviceSame),
    ],
)
def test_a_field_offers_the_values_of_the_service(field, values):
    offered = json.loads(re.search(rf'name: "{field}".*?options: (\[.*?\])', REQUEST, re.DOTALL)[1])
    assert sorted(filter(None, offered)) == sorted(values)


def test_each_field_of_a_question_is_in_the_form():
    """Mounts decide where a container may be as well, but are no matter of a line of text."""
    asked = schemas.shape(Settings.from_conf(own_conf())).names
    offered = set(re.findall(r'\bname: "(\w+)"', REQUEST))
    assert asked - offered == {"mounts"}


def test_each_code_of_a_refusal_has_words():
    text = (FOLDER / "refusal.js").read_text()
    codes = set(re.findall(r'^    "?([\w-]+)"?: "', text, re.MULTILINE))
    assert codes == {*RefusalCode, *HostCode}


def test_own_files_of_the_page_begin_with_the_licence():
    texts = {path.name: path.read_text() for path in FOLDER.iterdir() if path.is_file()}
    assert [name for name, text in texts.items() if "SPDX-License-Identifier: Apache-2.0" not in text[:80]] == []
