# SPDX-License-Identifier: Apache-2.0
"""The dashboard and the alert rules name metrics that exist."""

import json
import pathlib
import re

import prometheus_client
import pytest
import yaml

from zun.common import metrics
from zun.compute.host_metrics import HostCollector
from zun.tests.unit.topology.build import smt_host
from zun.topology import Usage

FOLDER = pathlib.Path(__file__).parents[3] / "etc" / "monitoring"


def names():
    """Every name that a query may use."""
    host = HostCollector("one", lambda: (smt_host(2, 4), Usage()), lambda: 0, dict)
    families = [*host.collect(), *prometheus_client.REGISTRY.collect()]
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
    for group in yaml.safe_load((FOLDER / "zun-alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


@pytest.mark.parametrize(("title", "query"), queries())
def test_metrics_exist(title, query):
    assert metrics.API_REQUESTS is not None
    assert set(re.findall(r"\bzun_\w+", query)) <= names(), title
