# SPDX-License-Identifier: Apache-2.0
"""The Sphinx directives ``program-commands`` and ``program-options``: what the programs on servers take as arguments.

``program-commands:: NAME`` makes a section for each command of a program from its parser. ``program-options`` shows the
options of every program with a configuration file.
"""

import argparse
import functools
import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from docutils import nodes, statemachine
from oslo_config import cfg
from oslo_log import log
from oslo_upgradecheck import upgradecheck
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

import zun.common  # noqa: F401  selects the threading backend before oslo.messaging is imported
from zun.cmd import broker_manage, db_manage, status

WIDTH = 100


class _Registered:
    """Stands in for oslo.config's ConfigOpts, which does not give its parser away."""

    def register_cli_opt(self, opt: cfg.SubCommandOpt) -> None:
        self.opt = opt


def _of_oslo_config(program: str, register: Callable[[Any], None]) -> argparse.ArgumentParser:
    """Return a parser of the commands that ``register`` gives oslo.config."""
    conf = _Registered()
    register(conf)
    parser = argparse.ArgumentParser(prog=program)
    conf.opt.handler(parser.add_subparsers(dest="command", required=True))
    return parser


def _status(conf: Any) -> None:
    upgradecheck.register_cli_options(conf, status.Checks())


PARSERS: Mapping[str, Callable[[], argparse.ArgumentParser]] = {
    "zun-broker-manage": broker_manage.parser,
    "zun-db-manage": functools.partial(_of_oslo_config, "zun-db-manage", db_manage.register_commands),
    "zun-status": functools.partial(_of_oslo_config, "zun-status", _status),
}


def lines(parser: argparse.ArgumentParser, told: str | None = None) -> Iterator[str]:
    """Yield the section of a command with its arguments, and one for each of its own commands."""
    commands = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    arguments = [each for each in parser._actions if each not in commands and each.dest != "help"]
    if arguments or not commands:
        yield from ["", parser.prog, "-" * len(parser.prog), ""]
        if told:
            yield from [f"{told[0].upper()}{told[1:].rstrip('.')}.", ""]
        parser.formatter_class = functools.partial(argparse.HelpFormatter, width=WIDTH)  # type: ignore[assignment]
        usage = parser.format_usage().removeprefix("usage: ").replace(" [-h]", "").splitlines()
        yield from ["::", "", *(f"   {each.removeprefix(' ' * len('usage: '))}" for each in usage), ""]
        for each in arguments:
            name = ", ".join(each.option_strings) or each.metavar or each.dest
            yield from [f"``{name}``", f"   {each.help or ''}"]
        yield ""
    for each in commands:
        helps = {action.dest: action.help for action in each._choices_actions}
        for name, command in each.choices.items():
            yield from lines(command, helps.get(name))


def options() -> str:
    """Return the help text of a program without commands."""
    conf, text = cfg.ConfigOpts(), io.StringIO()
    log.register_options(conf)
    conf([], project="zun", prog="zun-PROGRAM", version="", default_config_files=[], default_config_dirs=[])
    conf.print_help(text)
    return text.getvalue()


class ProgramCommands(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # the code may have changed
        parser = PARSERS[self.arguments[0]]()
        text = statemachine.StringList(list(lines(parser, parser.description)), source="programs")
        found = nodes.section()
        found.document = self.state.document
        nested_parse_with_titles(self.state, text, found)
        return found.children


class ProgramOptions(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        return [nodes.literal_block(text=options())]


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("program-commands", ProgramCommands)
    app.add_directive("program-options", ProgramOptions)
    return {"version": "1", "parallel_read_safe": True}
