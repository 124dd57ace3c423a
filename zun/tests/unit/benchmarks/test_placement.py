# SPDX-License-Identifier: Apache-2.0
"""The part of the benchmark of Placement that needs no server."""

import importlib.util
import sys
from pathlib import Path

from zun.tests.placement_in_memory import PlacementInMemory

SOURCE = Path(__file__).resolve().parents[4] / "benchmarks" / "placement.py"


def test_refused_claim_asks_less_than_a_sweep(database):
    spec = importlib.util.spec_from_file_location("placement_benchmark", SOURCE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["placement_benchmark"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    costs = module.refusals(PlacementInMemory(), 4, 8)
    assert costs["refused"].requests < costs["sweep"].requests / 2
