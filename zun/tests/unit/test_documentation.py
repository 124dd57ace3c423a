# SPDX-License-Identifier: Apache-2.0
"""The lists and commands of the pages, against what there is."""

import errno
import fnmatch
import importlib.metadata
import os
import pathlib
import re
import shlex
import types

import pytest
from oslo_config import cfg
from oslo_log import log as oslo_log

from zun import conf as zun_conf
from zun.api import app, capsules, errors, limits, microversion, policy
from zun.api.controllers.v1.placement import DEFAULT_LIMIT
from zun.api.schemas import containers as schemas
from zun.common import exceptions, secrets
from zun.common.groups import Policy
from zun.common.states import ImageStatus
from zun.common.units import MIB
from zun.compute import service
from zun.compute.audit import audit_rules
from zun.conf import opts
from zun.container.docker import console, events
from zun.db import bounds, container_actions, models, quotas, session
from zun.messaging import rpc
from zun.nouns import cloud
from zun.osc import each
from zun.scheduler import explain
from zun.scheduler.explain import DISK, EXPLAINED_HOSTS, HostCode
from zun.tests.fixtures import own_conf
from zun.tests.unit.api.table import ROUTES
from zun.tests.unit.entry_points import GROUPS
from zun.topology import ranges
from zun.topology.pci_files import NEVER_GIVEN
from zun.topology.refusal import Dimension, RefusalCode
from zun.topology.search import steps

ROOT = pathlib.Path(__file__).parents[3]
SOURCE = ROOT / "doc" / "source"
AT_ROOT = ("README.rst", "CONTRIBUTING.rst", "SECURITY.rst")
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in [*sorted(SOURCE.rglob("*.rst")), *(ROOT / name for name in AT_ROOT)]
}


def page(name):
    return PAGES[f"doc/source/{name}.rst"]


def prose(name):
    """The page on one line."""
    return re.sub(r"\s+", " ", page(name))


def section(text, title):
    """Return the text below a heading, up to the next heading of its level."""
    found = re.search(rf"^{re.escape(title)}\n=+\n(.*?)(?=^[^\n]+\n=+\n|\Z)", text, re.DOTALL | re.MULTILINE)
    assert found is not None, title
    return found[1]


def first_cells(text):
    """The literals in the first cells of list tables."""
    cells = re.findall(r"^   \* - (.*)$", text, re.MULTILINE)
    return [word for cell in cells for word in re.findall(r"``([\w-]+)``", cell)]


def test_the_reference_has_the_routes_and_their_versions():
    row = r"^(GET|POST|PUT|PATCH|DELETE) +/v1/(\S+) +(1\.\d+ -(?: 1\.\d+)?)(?: |$)"
    rows = re.findall(row, page("reference/api"), re.MULTILINE)
    real = [
        (route.method, route.path, f"{route.since} -" + ("" if route.until >= microversion.MAX else f" {route.until}"))
        for route in ROUTES
    ]
    assert sorted(rows) == sorted(real)


def test_the_reference_has_errors_that_there_are():
    told = set(re.findall(r"^\d{3} +``([a-z-]+)``", section(page("reference/api"), "Errors"), re.MULTILINE))
    classes = [*vars(exceptions).values(), *vars(errors).values()]
    ours = {found.slug() for found in classes if hasattr(found, "slug")}
    assert told - ours == set()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("``dimension`` is one of ``{}``", [*Dimension, DISK]),
        ("``code`` is one of ``{}``", audit_rules.CODES),
        ("``layer`` one of ``{}``", audit_rules.Layer),
        ("``policy`` is one of ``{}``", Policy),
        ("An image shows ``status`` (``{}``)", ImageStatus),
    ],
)
def test_the_reference_has_every_word_of_a_closed_list(told, words):
    before, behind = told.split("{}")
    found = re.search(f"{re.escape(before)}(.*?){re.escape(behind)}(?:[^`]|$)", prose("reference/api"))
    assert found is not None
    assert sorted(re.findall(r"[\w-]+", found[1].replace("`` or ``", " "))) == sorted(map(str, words))


def test_the_picture_of_a_host_is_the_map_of_the_first_steps():
    marks = r"\b(\d+) ([A-Z~#-])(?= |<)"
    drawn = re.findall(marks, (SOURCE / "user/machine.svg").read_text())
    shown = re.findall(marks, section(page("user/first-steps"), "A container on CPUs of its own").partition("┌")[2])
    assert len(drawn) == 16 and set(drawn) == set(shown)


COUNTED = {"one": 1, "two": 2, "ten": 10}


@pytest.mark.parametrize(
    ("name", "told", "real"),
    [
        ("admin/audit", r"(One) percent or more of the memory", audit_rules.REMOTE_PERCENT),
        ("admin/authentication", r"An edited file counts within (ten) seconds", policy.RELOAD_SECONDS),
        ("admin/lifecycle", r"connects again, at least every (two) seconds", events.LONGEST_DELAY),
        ("admin/lifecycle", r"the newest (\d+) are kept", container_actions.KEPT),
        ("admin/lifecycle", r"ends in ``Error`` after\s+(ten) minutes, and the log", service.LOST_SECONDS / 60),
        ("cli/index", r"go out at microversion 1\.(\d+), the last one", each.SECURITY_GROUPS_END.partition(".")[2]),
        ("install/distributed", r"asks again every (ten) seconds", session.SERVER_WAIT_SECONDS),
        ("reference/api", r"``latest`` is 1\.(\d+)", microversion.MAX.minor),
        ("reference/api", r"hosts nearest to fitting, at most (\d+),", EXPLAINED_HOSTS),
        ("reference/api", r"``count``, 1 to (\d+)", schemas.COUNT.schema["maximum"]),
        ("reference/api", r"``limit`` \((\d+) unless given", DEFAULT_LIMIT),
        ("reference/api", r"unless given, (\d+) at most\)", schemas.LIMIT.schema["maximum"]),
        ("reference/api", r"A body of more than (\d+) MiB", limits.BODY_BYTES / MIB),
        ("reference/api", r"``logs`` and ``execute`` answer with (\d+) MiB at most", console.OUTPUT_LIMIT / MIB),
        ("user/capsules", r"it is tried (ten) times more", capsules.INIT_RETRIES),
        ("user/explain", r"At most (\d+) hosts are described", EXPLAINED_HOSTS),
        ("user/explain", r"Counting stops at (\d+) unless", DEFAULT_LIMIT),
        ("user/mounts", r"A container has at most (\d+) mounts", limits.PARTS),
        ("user/mounts", r"have (\d+) KiB together", limits.FILES_BYTES / 1024),
        ("user/networks", r"A request may name at most (\d+)", limits.PARTS),
        ("admin/authentication", r"After (\d+) wrong passwords", limits.WRONG_PASSWORDS),
        ("admin/authentication", r"not looked at for (\d+) seconds", limits.WAIT_SECONDS),
        ("admin/limits", r"steps of a search - (\d+) for a plan", steps.STEPS),
        ("admin/limits", r"steps of an explanation - (\d+)", explain.MOST_STEPS),
        ("admin/trail", r"The newest (\d+) accesses", container_actions.KEPT),
        ("admin/registry-key", r"at least (\d+) ASCII characters", secrets.KEY_CHARACTERS),
    ],
)
def test_a_number_of_a_page_is_that_of_the_code(name, told, real):
    found = re.search(told, prose(name))
    assert found is not None, "the page does not say so"
    assert float(COUNTED.get(found[1].lower(), found[1])) == float(real)


def told_limits():
    """The numbers in bytes, seconds or pieces beside each name of the page about limits."""
    units = {"KiB": 1024, "MiB": 1024**2}
    for names, told in re.findall(r"^   \* - (``.+)\n     - (.+)$", page("admin/limits"), re.MULTILINE):
        found = [float(number) * units.get(unit, 1) for number, unit in re.findall(r"(\d+)(?: (KiB|MiB))?", told)]
        yield from zip(re.findall(r"``([A-Z_]+)``", names), found, strict=False)


def test_the_page_of_limits_has_each_with_its_number():
    real = {name: value for name, value in vars(limits).items() if name.isupper() and name not in ("KIB", "MIB")}
    told = dict(told_limits())
    told["FIELD_BYTES"] = {
        name: int(size) * 1024
        for name, size in re.findall(r"^``(\w+)``.*  (\d+) KiB$", page("admin/limits"), re.MULTILINE)
    }
    assert told == real


def told_of_hosts(title):
    """The numbers of the table below ``title``, by name. ``2**31-1`` is a number, too."""
    table = section(page("admin/limits"), "What a host may write").partition(title)[2].partition("\n\n")[2]
    rows = re.findall(r"^``(\w+)`` +(\d+)(?:\*\*(\d+))?(-1)? ", table.partition("\n\n")[0], re.MULTILINE)
    return {name: int(base) ** int(power or 1) - bool(less) for name, base, power, less in rows}


def test_the_page_has_the_limits_of_hosts():
    def most(module):
        named = {name: value for name, value in vars(module).items() if name.isupper() and not name.startswith("_")}
        return {name: getattr(value, "most", value) for name, value in named.items() if name != "MALFORMED"}

    assert told_of_hosts("zun/topology/ranges.py") == most(ranges)
    assert told_of_hosts("zun/db/bounds.py") == most(bounds)
    columns = {column.name: column.info for column in models.compute_nodes.c}
    lists = {"labels": cloud.LABELS.most, "runtimes": cloud.RUNTIMES.most, "traits": cloud.TRAITS.most}
    ranged = {name: columns[name]["range"].most for name in ("cpus", "mem_total", "disk_total")}
    assert told_of_hosts("zun/nouns/cloud.py") == {
        **ranged, **lists, "topology": columns["topology"]["characters"],
    }
    assert f"values of {cloud.LABEL.most} characters" in page("admin/limits")


def test_figures_of_the_readme_are_those_of_the_benchmark_pages():
    figures = re.findall(r"([\d.]+) (?:ms|%)", section(PAGES["README.rst"], "Beside others"))
    pages = "".join(page(f"contributor/{name}") for name in ("scheduler-speed", "api-speed", "packing"))
    assert len(figures) == 11
    assert [figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.]*\d)", pages)] == []


def test_figures_of_the_comparison_are_those_of_the_benchmark_pages():
    told = page("reference/comparison")
    tables = "".join(section(told, title) for title in ("Time", "Packing", "Where this is behind"))
    names = ("scheduler-speed", "api-speed", "packing", "placement-speed")
    pages = "".join(page(f"contributor/{name}") for name in names)
    figures = re.findall(r"(?<![\w.])([\d.]*\d)(?: (?:ms|s|%)(?!\w))", tables)
    assert len(figures) >= 18
    assert [figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.]*\d)", pages)] == []


def test_page_lists_the_files_that_no_device_gives():
    table = page("admin/devices").partition("Why its files are not given")[2].partition("\n\n")[0]
    assert set(re.findall("``([a-z0-9_-]+)``", table)) == set(NEVER_GIVEN)


def test_every_code_of_a_refusal_is_explained():
    assert sorted(first_cells(page("admin/no-valid-host"))) == sorted([*HostCode, *RefusalCode])


def test_what_symptoms_quotes_is_what_the_code_says():
    code = "".join(path.read_text() for path in (ROOT / "zun").rglob("*.py") if "tests" not in path.parts)
    said = re.sub(r'"\n\s+f?"', "", code)  # a text in several pieces
    said += os.strerror(errno.ENOSPC) + os.strerror(errno.ENOSPC).lower()
    cells = re.findall(r"^   \* - (``.*)$", page("admin/symptoms"), re.MULTILINE)
    quoted = [text for cell in cells for text in re.findall(r"``([^`]+)``", cell)]
    assert len(quoted) > 20
    assert [text for text in quoted if text not in said] == []


def test_the_default_profile_is_that_of_the_options(conf):
    table = section(page("admin/hardening"), "The default profile")
    rows = dict(re.findall(r"^   \* - ``(\w+)``.*\n     - (?:``)?([\w, ]+)", table, re.MULTILINE))
    docker = conf.docker
    assert rows.pop("drop_capabilities").strip() == ", ".join(docker.drop_capabilities)
    assert rows.pop("no_new_privileges") == str(docker.no_new_privileges).lower()
    assert rows.pop("log_max_size") == f"{docker.log_max_files} files of {docker.log_max_size.replace('m', ' MB')}"
    assert docker.ulimits == [] and rows.pop("ulimits") == "empty"
    told = {name: int(text.split()[0]) for name, text in rows.items()}
    assert told == {"pids_limit": docker.pids_limit, "default_memory_swap": docker.default_memory_swap}


@pytest.mark.parametrize("kind", ["filter", "weigher"])
def test_every_filter_and_weigher_is_explained(kind):
    points = GROUPS["entry_points"][f"zun.scheduler.{kind}"].strip().splitlines()
    told = first_cells(section(page("admin/scheduler"), f"{kind.capitalize()}s"))
    assert sorted(told) == sorted(point.partition(" =")[0] for point in points)


@pytest.fixture(scope="module")
def conf():
    return own_conf()


def test_page_lists_default_filters_and_weighers(conf):
    text = page("admin/scheduler")
    assert first_cells(section(text, "Filters")) == conf.scheduler.enabled_filters
    rows = re.split(r"^   \* - ", section(text, "Weighers"), flags=re.MULTILINE)[1:]
    on = {name for row in rows if "on by default" in row for name in re.findall(r"``(\w+Weigher)``", row)}
    assert on == {setting.partition("=")[0] for setting in conf.scheduler.weighers}


def test_the_quotas_are_those_of_a_fresh_installation(conf):
    told = dict(re.findall(r"^``(\w+)`` +\w+ +(\d+) ", page("admin/quotas"), re.MULTILINE))
    assert told == {name: str(conf.quota[name]) for name in quotas.RESOURCES}


def test_page_sizes_match_the_default_options(conf):
    told = re.findall(r"``(minimum_\w+)`` to ``(maximum_\w+)``\s+\(([\d.]+) to (\d+)", page("admin/quotas"))
    assert len(told) == 3
    for lowest, highest, low, high in told:
        assert (float(low), float(high)) == (conf[lowest], conf[highest])


OPTIONS = {(group, option.dest) for group, options in opts.list_opts() for option in options}
NAMESPACES = re.findall(r"^namespace = (.*)", (ROOT / "etc/zun/zun-config-generator.conf").read_text(), re.MULTILINE)
SAMPLED = {
    (str(group or "DEFAULT"), option.dest)
    for point in importlib.metadata.entry_points(group="oslo.config.opts")
    if point.name in NAMESPACES
    for group, options in point.load()()
    for option in options
}


def test_the_sample_has_every_option_that_is_read():
    conf, empty = cfg.ConfigOpts(), cfg.ConfigOpts()
    oslo_log.register_options(conf)
    rpc.register_opts(conf)
    zun_conf.register_opts(conf)
    for made in (conf, empty):
        made([], project="zun-test", default_config_files=[], default_config_dirs=[])
    conf.set_override("auth_strategy", "noauth", group="api")
    app.build(conf, scheduler_api=None, compute_api=None)
    read = {("DEFAULT", name) for name in set(conf) - set(empty) - set(conf._groups)}
    read |= {(name, option) for name in conf._groups for option in conf[name]}
    assert read - SAMPLED == set()


@pytest.mark.parametrize("name", PAGES)
def test_options_that_a_page_names_are_there(name):
    prose = re.sub(r"\s+", " ", PAGES[name])
    named = set(re.findall(r"``\[(\w+)\] (\w+)", prose))
    for block in re.findall(r"^\.\. code-block:: ini\n(?:   :.*\n)*\n((?:   .*\n|\n)+)", PAGES[name], re.MULTILINE):
        for group, lines in re.findall(r"^   \[(\w+)\]\n((?:   [^\[\n].*\n)+)", block, re.MULTILINE):
            named |= {(group, option) for option in re.findall(r"^   (\w+) =", lines, re.MULTILINE)}
    # Of [keystone_authtoken] most belong to the kind of authentication, which registers them where it is used.
    # Of [oslo_reports] programs read one option, and the library has no entry point for the sample.
    libraries = {"keystone_authtoken", "oslo_reports"}
    assert {(group, option) for group, option in named if group not in libraries} - SAMPLED == set()


def told_defaults():
    """Every number and truth that follows an option of the pages in brackets. The option may be without its group where
    only one has an option of that name.
    """
    told = r"``(?:\[(\w+)\]\s+)?(\w+)``\s+\((\d[\d.]*|true|false)\)"
    groups = {}
    for group, option in OPTIONS:
        groups.setdefault(option, []).append(group)
    for name, text in PAGES.items():
        for group, option, value in re.findall(told, text):
            if option in groups and (group or len(groups[option]) == 1):
                yield pytest.param(group or groups[option][0], option, value, id=f"{name}: {option}")


@pytest.mark.parametrize(("group", "option", "value"), list(told_defaults()))
def test_a_default_that_a_page_tells_is_the_default(conf, group, option, value):
    real = conf[option] if group == "DEFAULT" else conf[group][option]
    assert str(real).lower() == value if isinstance(real, bool) else real == float(value)


def commands():
    """The words of each command -> its entry point, ours where the client has one of the same name."""
    found = {}
    for group in ("openstack.container.v1", "openstack.extension"):
        for point in importlib.metadata.entry_points(group=group):
            if point.name.startswith("appcontainer"):
                found[point.name.replace("_", " ")] = point
    return found


COMMANDS = commands()
SCRIPTS = GROUPS["entry_points"]["console_scripts"].strip().splitlines()


def parser(point):
    app = types.SimpleNamespace(client_manager=None, options=None, stdout=None)
    return point.load()(app, None).get_parser(point.name)


def command_lines():
    for name, text in PAGES.items():
        # Those in prose may leave arguments out, those in a block may not.
        for line in re.findall(r"``(?:openstack )?(appcontainer [a-z][^`]*)``", text):
            yield pytest.param(" ".join(line.split()), False, id=f"{name}: {line}")
        shell = r"^ +(?:\$ )?openstack(?: +--os-\S+ \S+)*\s+(appcontainer .*)$"
        for line in re.findall(shell, text.replace("\\\n", ""), re.MULTILINE):
            yield pytest.param(line.split(" # ")[0], True, id=f"{name}: {line}")


@pytest.mark.parametrize(("line", "whole"), list(command_lines()))
def test_a_command_of_a_page_is_understood(capsys, line, whole):
    words = shlex.split(line)
    known = [end for end in range(len(words), 0, -1) if " ".join(words[:end]) in COMMANDS]
    assert known, "there is no such command"
    parsing = parser(COMMANDS[" ".join(words[: known[0]])])
    try:
        parsing.parse_args(words[known[0] :])
    except SystemExit:
        said = capsys.readouterr().err
        assert not whole and "arguments are required" in said, said


def options(point):
    return {option for action in parser(point)._actions for option in action.option_strings}


def test_cli_page_has_every_command():
    """``autoprogram-cliff`` takes the commands of one group of entry points; ours replace the client's."""
    told = re.findall(r"autoprogram-cliff:: (\S+)\n   :command: (.*)", page("cli/openstack"))
    counts = {
        name: sum(fnmatch.fnmatch(name, pattern) for group, pattern in told if group == point.group)
        for name, point in COMMANDS.items()
    }
    assert counts == dict.fromkeys(COMMANDS, 1)


def test_programs_page_has_every_program():
    told = re.findall(r"^``(zun-[\w-]+)``", page("cli/programs"), re.MULTILINE)
    assert sorted(told) == sorted(each.partition(" =")[0] for each in SCRIPTS)


def test_every_argument_of_our_commands_says_what_it_is():
    for point in COMMANDS.values():
        if point.value.startswith("zun."):
            assert [action.dest for action in parser(point)._actions if not action.help] == [], point.name


@pytest.mark.parametrize("name", PAGES)
def test_lines_of_pages_end_within_120_columns(name):
    assert [line for line in PAGES[name].splitlines() if len(line) > 120] == []


@pytest.mark.parametrize("name", PAGES)
def test_paths_that_a_page_names_are_there(name):
    named = set(re.findall(r"``((?:zun|tools|benchmarks|doc)/[\w./*-]+)``", PAGES[name]))
    assert {path for path in named if not list(ROOT.glob(path))} == set()
