# SPDX-License-Identifier: Apache-2.0
"""The dashboard and the alert rules name metrics that exist."""

import html
import json
import os
import pathlib
import re
import shutil
import subprocess

import prometheus_client
import pytest
import yaml

from zun.common import metrics
from zun.scheduler.heartbeats import HeartbeatCollector
from zun.tests.unit.compute.host.collected import collector
from zun.tests.unit.topology.build import smt_host

FOLDER = pathlib.Path(__file__).parents[3] / "etc" / "monitoring"
ALERTS = FOLDER / "zun-alerts.yaml"
PAGE = FOLDER.parents[1] / "doc/source/admin/monitoring.rst"
SITUATIONS = pathlib.Path(__file__).with_name("alerts.yaml")
PROMTOOL = shutil.which("promtool")


def names():
    """Every name that a query may use."""
    host = collector("one", smt_host(2, 4))
    families = [*host.collect(), *HeartbeatCollector().collect(), *prometheus_client.REGISTRY.collect()]
    found = set()
    for family in families:
        if family.name.startswith("zun_"):
            suffixes = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",)}.get(family.type, ("",))
            found |= {family.name + suffix for suffix in suffixes}
    return found


def queries():
    dashboard = json.loads((FOLDER / "zun-dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


@pytest.mark.parametrize(("title", "query"), queries())
def test_metrics_exist(title, query):
    assert metrics.API_REQUESTS is not None
    assert set(re.findall(r"\bzun_\w+", query)) <= names(), title


def test_columns_of_a_table_have_the_names_of_its_queries():
    panels = json.loads((FOLDER / "zun-dashboard.json").read_text())["panels"]
    [table] = (panel for panel in panels if panel["type"] == "table")
    headings = {f"Value #{target['refId']}": target["legendFormat"] for target in table["targets"]}
    assert table["transformations"][-1]["options"]["renameByName"] == headings
    assert all(target["instant"] and target["format"] == "table" for target in table["targets"])


def test_picture_has_every_panel_of_the_dashboard():
    picture = (FOLDER.parents[1] / "doc/source/admin/dashboard.svg").read_text()
    drawn = [html.unescape(title) for title in re.findall(r'<text class="t"[^>]*>(.*?)</text>', picture)]
    panels = json.loads((FOLDER / "zun-dashboard.json").read_text())["panels"]
    assert drawn == [panel["title"] for panel in panels]


@pytest.fixture
def promtool(tmp_path):
    """Runs promtool on alert rules: its exit code and what it said."""
    if PROMTOOL is None:
        assert os.environ.get("ZUN_REQUIRE_PROMTOOL") != "1", "promtool is not installed"
        pytest.skip("promtool is not installed")

    def run(rules, *words):
        (tmp_path / ALERTS.name).write_text(rules)
        (tmp_path / SITUATIONS.name).write_text(SITUATIONS.read_text())
        done = subprocess.run(
            [PROMTOOL, *words], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_prometheus_takes_the_rules(promtool):
    assert promtool(ALERTS.read_text(), "check", "rules", ALERTS.name)[0] == 0
    assert promtool(ALERTS.read_text().replace("sum by", "sum bye"), "check", "rules", ALERTS.name)[0] != 0


def test_alerts_fire_when_they_should(promtool):
    code, said = promtool(ALERTS.read_text(), "test", "rules", SITUATIONS.name)
    assert code == 0, said
    assert promtool(ALERTS.read_text().replace("> 0.1\n", "> 10\n"), "test", "rules", SITUATIONS.name)[0] != 0


def alerts():
    return [rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def test_page_has_every_alert():
    assert re.findall(r"^   \* - ``(Zun\w+)``", PAGE.read_text(), re.MULTILINE) == alerts()


def test_page_has_every_metric():
    _, _, table = PAGE.read_text().partition("\nMetrics\n=======\n")
    assert set(re.findall(r"^``(zun_\w+)``", table, re.MULTILINE)) == {
        name.removesuffix("_bucket") for name in names() if not name.endswith(("_sum", "_count"))
    }


def test_every_alert_has_a_situation():
    rules = alerts()
    situations = yaml.safe_load(SITUATIONS.read_text())["tests"]
    tried = [one["alertname"] for each in situations for one in each["alert_rule_test"]]
    assert sorted(tried) == sorted(rules * 2)
