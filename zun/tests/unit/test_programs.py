# SPDX-License-Identifier: Apache-2.0
"""The page of programs has every command of the programs that have commands, with its arguments."""

import importlib.util
import itertools
import pathlib
import re

import pytest

import zun

ROOT = pathlib.Path(zun.__file__).parents[1]
PLACEMENT = (" placement audit", " placement heal", " placement sync")
PAGE = ROOT / "doc/source/cli/programs.rst"


@pytest.fixture(scope="module")
def extension():
    spec = importlib.util.spec_from_file_location("programs", ROOT / "doc/ext/programs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("program", "commands"),
    [
        ("zun-broker-manage", ["", " setup", " add-host", " remove-host", " rotate"]),
        ("zun-db-manage", [" upgrade", " version", " rotate-registry-key", " recover", *PLACEMENT, " revision"]),
        ("zun-status", [" upgrade"]),
    ],
)
def test_each_command_has_a_section(extension, program, commands):
    found = list(extension.lines(extension.PARSERS[program]()))
    titles = [before for before, line in itertools.pairwise(found) if line and not line.strip("-")]
    assert titles == [f"{program}{each}" for each in commands]


def test_a_section_tells_usage_and_arguments(extension):
    text = "\n".join(extension.lines(extension.PARSERS["zun-db-manage"]()))
    assert "::\n\n   zun-db-manage recover [--dry-run] [HOST]\n\n``HOST``\n   this host only\n``--dry-run``\n" in text


def test_the_page_has_every_program_with_commands(extension):
    told = re.findall(r"^\.\. program-commands:: (\S+)$", PAGE.read_text(), re.MULTILINE)
    assert sorted(told) == sorted(extension.PARSERS)


def test_the_options_of_every_program_are_told(extension):
    assert re.findall(r"^ +(--config-file|--debug|--version)", extension.options(), re.MULTILINE) == [
        "--config-file",
        "--debug",
        "--version",
    ]


@pytest.mark.parametrize("program", ["zun-broker-manage", "zun-db-manage"])
def test_every_argument_says_what_it_is(extension, program):
    text = "\n".join(extension.lines(extension.PARSERS[program]()))
    assert re.findall(r"^``(.+)``\n +$", text, re.MULTILINE) == []
