# SPDX-License-Identifier: Apache-2.0
"""The entry points of setup.cfg."""

import configparser
import importlib.metadata
import pathlib

ROOT = pathlib.Path(__file__).parents[3]
GROUPS = configparser.ConfigParser()
GROUPS.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
GROUPS.read(ROOT / "setup.cfg")
POINTS = [
    importlib.metadata.EntryPoint(*(part.strip() for part in line.split("=", 1)), group)
    for group, lines in GROUPS["entry_points"].items()
    for line in lines.strip().splitlines()
    if not line.lstrip().startswith("#")
]
