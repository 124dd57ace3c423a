# SPDX-License-Identifier: Apache-2.0
"""The page five-changes is true: each of its changes is made on a copy of the tree, with the files that it names.

A ``Change`` has a text to put after a line of a file, and new files. The tests that it names run in the copy, and one
of its own that uses what is new.
"""

import configparser
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

import zun
from zun.api import microversion
from zun.objects import Container

ROOT = pathlib.Path(zun.__file__).parent.parent
PAGE = ROOT / "doc/source/contributor/five-changes.rst"
MIGRATIONS = "zun/db/migrations/versions"

pytestmark = [
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not in a checkout"),
    pytest.mark.timeout(600),
]


@dataclass(frozen=True)
class Change:
    """``after`` has (file, line, text): the text goes after the line. ``instead`` has (file, expression, text)."""

    section: str
    own_test: str
    after: tuple[tuple[str, str, str], ...] = ()
    instead: tuple[tuple[str, str, str], ...] = ()
    new: Mapping[str, str] = field(default_factory=dict)
    tests: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    folder: str = "zun/tests/functional"


def _next_migration(table: str, column: str) -> dict[str, str]:
    before = max(path.name[:4] for path in (ROOT / MIGRATIONS).glob("0*.py"))
    number = f"{int(before) + 1:04}"
    text = f'''"""A column more"""

import sqlalchemy as sa
from alembic import op

revision = "{number}"
down_revision = "{before}"


def upgrade() -> None:
    op.add_column("{table}", {column})
'''
    return {f"{MIGRATIONS}/{number}_more.py": text}


_MINOR_VERSION = microversion.MAX.minor + 1
_NEWEST = f"1.{_MINOR_VERSION}"
_MAJOR, _MINOR = map(int, Container.VERSION.split("."))
_VERSION = f"{_MAJOR}.{_MINOR + 1}"

FILTER = Change(
    "A scheduler filter",
    new={
        "zun/scheduler/filters/pinned.py": '''from zun.scheduler.filters import HostFilter


class PinnedFilter(HostFilter):
    """Drop hosts that take no dedicated containers, for one that is dedicated."""

    def reject(self, host, spec):
        return "it takes no dedicated containers" if spec.dedicated and not host.enable_cpu_pinning else None
''',
    },
    after=(
        (
            "setup.cfg",
            "    LabelFilter = zun.scheduler.filters.label:LabelFilter",
            "    PinnedFilter = zun.scheduler.filters.pinned:PinnedFilter",
        ),
        ("zun/conf/scheduler.py", '            "LabelFilter",', '            "PinnedFilter",'),
        (
            "doc/source/admin/scheduler.rst",
            "     - hosts without every label that the hints ``label:NAME=VALUE`` ask for",
            "   * - ``PinnedFilter``\n     - hosts that take no dedicated containers, for one",
        ),
    ),
    tests=(
        "zun/tests/unit/scheduler/test_filters.py::test_default_filters_are_complete_and_end_with_exact_one",
        "zun/tests/unit/test_documentation.py::test_every_filter_and_weigher_is_explained",
        "zun/tests/unit/test_documentation.py::test_page_lists_default_filters_and_weighers",
    ),
    own_test="""
from zun.scheduler import filters
from zun.tests.unit.scheduler.hosts import configuration, host, spec


def test_it_rejects():
    (found,) = filters.load(["PinnedFilter"], configuration())
    assert found.reject(host(enable_cpu_pinning=False), spec())
    assert found.reject(host(), spec()) is None
""",
)

FIELD = Change(
    "A field of create",
    after=(
        (
            "zun/nouns/container.py",
            '    exit_code: Annotated[int | None, "How its command ended."]',
            '    shade: Annotated[str | None, "The shade that people know it by.", Text(16), '
            f'Asked(since={_MINOR_VERSION}), Shown(since={_MINOR_VERSION}), Sent("{_VERSION}")]',
        ),
    ),
    instead=(
        ("zun/api/microversion.py", r"^MAX = v1\(.*\)$", f"MAX = v1({_MINOR_VERSION})"),
        ("zun/objects/container.py", r'^    VERSION = "[0-9.]+"', f'    VERSION = "{_VERSION}"'),
        ("zun/messaging/releases.py", rf'{{"Container": "{Container.VERSION}"}}', f'{{"Container": "{_VERSION}"}}'),
    ),
    new=_next_migration("containers", 'sa.Column("shade", sa.String(16))'),
    commands=("zun.tests.unit.messaging.wire",),
    tests=(
        "zun/tests/unit/messaging/test_wire.py",
        "zun/tests/unit/messaging/test_releases.py",
        "zun/tests/unit/db/test_migration.py",
        "zun/tests/functional/osc/test_containers.py",
    ),
    folder="zun/tests/functional/api",
    own_test=f'''
def test_it_is_asked_for_stored_and_shown(api):
    before, after = api.at("{microversion.MAX}"), api.at("{_NEWEST}")
    body = {{"image": "cirros", "shade": "blue"}}
    assert before.post("/v1/containers", body).status == 400
    assert after.post("/v1/containers", {{"image": "a", "shade": "x" * 17}}).status == 400
    made = after.post("/v1/containers", body).json
    path = f"/v1/containers/{{made['uuid']}}"
    assert made["shade"] == after.get(path).json["shade"] == "blue"
    assert "shade" not in before.get(path).json
    shown = after.get("/v1/openapi.json").json["components"]["schemas"]["Container"]["properties"]
    assert shown["shade"]["x-openstack"] == {{"min-ver": "{_NEWEST}"}}
''',
)

FACT = Change(
    "A fact of a host for a filter",
    after=(
        (
            "zun/nouns/cloud.py",
            '    kernel_version: Annotated[str | None, "The version of the kernel.", Text(128), INVENTORY, Shown()]',
            '    firmware: Annotated[str | None, "The version of the firmware.", Text(64), INVENTORY, '
            f"Shown(since={microversion.MAX.minor})]",
        ),
        (
            "zun/compute/host/inventory.py",
            '        "kernel_version": facts.kernel_version,',
            '        "firmware": "F31",',
        ),
        (
            "zun/scheduler/host_state.py",
            "    labels: Mapping[str, str] = field(default_factory=dict)",
            "    firmware: str | None = None",
        ),
        (
            "zun/scheduler/host_table.py",
            '            labels=_texts(node["labels"]),',
            '            firmware=node["firmware"],',
        ),
    ),
    new=_next_migration("compute_nodes", 'sa.Column("firmware", sa.String(64))'),
    tests=(
        "zun/tests/unit/db/test_migration.py",
        "zun/tests/functional/test_conductor.py::test_the_inventory_of_an_agent_is_written",
    ),
    own_test="""
from zun.db import compute_nodes
from zun.tests.functional.cloud import Cloud, machine


def test_it_travels_from_the_host_to_the_scheduler(database):
    with Cloud({"one": machine(cells=1)}, compute__audit_interval=0) as cloud:
        assert compute_nodes.find("one")["firmware"] == "F31"
""",
)

STATUS = Change(
    "A status of a container",
    after=(
        ("zun/common/states.py", '    DEAD = "Dead"', '    FROZEN = "Frozen"'),
        (
            "zun/common/states.py",
            "    S.PAUSED: _SEEN | {S.DELETING},",
            "    S.FROZEN: _SEEN | {S.DELETING},",
        ),
    ),
    instead=(
        ("zun/common/states.py", r'"start": frozenset\(\{S.CREATED, ', '"start": frozenset({S.FROZEN, S.CREATED, '),
        ("zun/tests/unit/common/test_states.py", r" Dead \|$", " Dead | Frozen |"),
        ("zun/tests/unit/common/test_states.py", r"^(\| start .*)$", r"\1 x |"),
        ("zun/tests/unit/common/test_states.py", r"^(\| delete_force .*)$", r"\1 x |"),
        ("zun/tests/unit/common/test_states.py", r"^(\| (?!start|delete_force|Action)[a-z].*\|)$", r"\1 |"),
    ),
    tests=("zun/tests/unit/common/test_states.py", "zun/tests/unit/compute/container/test_step.py"),
    own_test="""
from zun.common import states
from zun.tests.unit.common.samples import Row


def test_it_can_be_started():
    states.check_action("start", Row("u", "Frozen"))
""",
)

FINDING = Change(
    "A finding of the audit",
    after=(
        ("zun/compute/audit/audit_rules.py", '    CGROUP_HOLE = "cgroup-hole"', '    TOO_HOT = "too-hot"'),
        ("zun/tests/unit/compute/audit/test_audit_rules.py", '        "cgroup-hole",', '        "too-hot",'),
        (
            "zun/compute/audit/audit_rules.py",
            '    return Finding(Verdict.CGROUP_HOLE, "", host, Layer.LIMIT, detail, repair)',
            '\n\ndef too_hot(host, degrees):\n    """Return the finding of a host with hot CPUs."""\n'
            '    detail = f"its CPUs have {degrees} degrees"\n'
            '    return Finding(Verdict.TOO_HOT, "", host, Layer.KERNEL, detail, "not repaired: open a window")',
        ),
    ),
    instead=(
        ("doc/source/reference/api.rst", "foreign cgroup-hole device-lost", "foreign cgroup-hole too-hot device-lost"),
        ("doc/source/admin/audit.rst", r"^``cgroup-hole``$", "``too-hot``\n   Open a window.\n\n``cgroup-hole``"),
    ),
    tests=(
        "zun/tests/unit/compute/audit/test_audit_rules.py",
        "zun/tests/unit/test_documentation.py::test_the_reference_has_every_word_of_a_closed_list",
    ),
    own_test="""
from zun.compute.audit import audit_rules


def test_it_is_told():
    assert audit_rules.too_hot("one", 99).to_dict()["code"] == "too-hot"
    assert "too-hot" in audit_rules.CODES
""",
)

CALL = Change(
    "A call of the container driver",
    after=(
        (
            "zun/container/driver/lifecycle.py",
            "    def pause(self, container: ContainerView) -> None: ...",
            '\n    def doze(self, container: ContainerView) -> None:\n        """Pause it for a moment."""\n',
        ),
        (
            "zun/container/fake/lifecycle.py",
            '            self.runtime.tell(found, "pause")',
            "\n    def doze(self, container: ContainerView) -> None:\n"
            "        self.pause(container)\n        self.unpause(container)",
        ),
        (
            "zun/container/docker/lifecycle.py",
            "            self._engine.api.pause(object_name(container.uuid))",
            "\n    def doze(self, container: ContainerView) -> None:\n"
            "        self.pause(container)\n        self.unpause(container)",
        ),
        (
            "zun/tests/unit/container/contract.py",
            "            rig.driver.unpause(container)",
            "\n    def test_doze(self, rig):\n        container = rig.running()\n        rig.driver.doze(container)\n"
            "        assert rig.state(container).status is Status.RUNNING",
        ),
    ),
    tests=("zun/tests/unit/container/test_contract.py",),
    own_test="""
from zun.container.docker.driver import DockerDriver
from zun.container.fake.driver import InMemoryDriver


def test_both_have_it():
    assert DockerDriver.doze and InMemoryDriver.doze
""",
)

CHANGES = (FILTER, FIELD, FACT, STATUS, FINDING, CALL)


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the checkout, with the entry points of its ``setup.cfg``."""
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def install(tree: pathlib.Path) -> None:
    """Write what ``pip install -e`` writes: the entry points."""
    setup = configparser.RawConfigParser(delimiters="=")
    setup.optionxform = str  # type: ignore[assignment,method-assign]
    setup.read(tree / "setup.cfg")
    folder = tree / "zun.egg-info"
    folder.mkdir()
    (folder / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: zun\nVersion: 1.0.0\n")
    groups = (f"[{name}]\n{lines.strip()}\n" for name, lines in setup["entry_points"].items())
    (folder / "entry_points.txt").write_text("\n".join(groups))


def run(tree: pathlib.Path, *words: str) -> str:
    # No change needs a service, so the tests must not insist on one.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ZUN_REQUIRE_")}
    environment = {**inherited, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def apply(change: Change, tree: pathlib.Path) -> None:
    for name, line, text in change.after:
        before = (tree / name).read_text()
        found = f"{line}\n"
        assert found in before, (
            f"{name} has no line {line!r}: correct the change here, and see whether the page is true"
        )
        (tree / name).write_text(before.replace(found, f"{found}{text}\n", 1))
    for name, expression, text in change.instead:
        made, count = re.subn(expression, text, (tree / name).read_text(), flags=re.MULTILINE)
        assert count, (
            f"{name} has nothing like {expression!r}: correct the change here, and see whether the page is true"
        )
        (tree / name).write_text(made)
    for name, text in change.new.items():
        (tree / name).write_text(f"# SPDX-License-Identifier: Apache-2.0\n{text}")


def sections() -> dict[str, str]:
    """The text of each section of the page, by its title."""
    parts = re.split(r"^(.+)\n=+\n", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.section.replace(" ", "-"))
def test_the_files_that_the_page_names_are_enough(change: Change, tree: pathlib.Path) -> None:
    touched = {*(name for name, *_ in (*change.after, *change.instead)), *change.new}
    told = sections()[change.section]
    missing = {name for name in touched if name not in told and str(pathlib.PurePath(name).parent) not in told}
    assert not missing, f"the section {change.section!r} does not name {missing}"
    apply(change, tree)
    own = f"{change.folder}/test_the_change.py"
    (tree / own).write_text(change.own_test)
    install(tree)
    for command in change.commands:
        run(tree, command)
    run(tree, "pytest", "-p", "no:cacheprovider", "-q", "-x", "-W", "ignore", own, *change.tests)
