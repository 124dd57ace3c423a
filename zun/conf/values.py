# SPDX-License-Identifier: Apache-2.0
"""Checks every value at the start of a program. oslo.config checks a value when it is first read."""

import math
import os
from collections.abc import Iterator

from oslo_config import cfg
from oslo_messaging import opts as messaging_opts

from zun.conf import GROUPS, options_of

#: Texts with a default, which an operator may empty.
_MAY_BE_EMPTY = {"docker": {"log_max_size"}}
#: Values of other releases of such a service, and what to write.
_OLD = {
    "compute": {"container_driver": {"docker.driver.DockerDriver": "docker", "cri": "docker"}},
    "network": {"driver": {"kuryr": "neutron, for networks of Neutron, or docker, for networks of this host's Docker"}},
}


def take_repeated(conf: cfg.ConfigOpts) -> None:
    """Take options that may be repeated from the environment, one value each: oslo.config cuts them into letters."""
    for section, option in _options():
        if option.multi and (value := os.environ.get(f"OS_{section.upper()}__{option.dest.upper()}")) is not None:
            conf.set_override(option.dest, [value], group=None if section == "DEFAULT" else section)


def check(conf: cfg.ConfigOpts) -> None:
    """Raise cfg.Error that names every option whose value is empty, of the wrong form or of another release."""
    if wrong := list(_wrong(conf)):
        raise cfg.Error("\n".join(wrong))


def _wrong(conf: cfg.ConfigOpts) -> Iterator[str]:
    for section, option in _options():
        group = conf if section == "DEFAULT" else conf[section]
        name = f"[{section}] {option.dest}"
        try:
            value = group[option.dest]
        except ValueError as exc:
            yield f"{name}: {exc}"
            continue
        if isinstance(value, float) and math.isnan(value):  # within every bound, for oslo.config
            yield f"{name} must be a number, got nan"
        if _is_empty(section, option, value):
            without = "no value" if option.default in (None, []) else f"its default {option.default}"
            yield f"{name} is empty: give a value, or remove the option for {without}"
        instead = _OLD.get(section, {}).get(option.dest, {}).get(value) if isinstance(value, str) else None
        if instead is not None:
            yield f"{name} = {value} is of another release: write {instead}"


def _is_empty(section: str, option: cfg.Opt, value: object) -> bool:
    """Return whether an operator gave an empty value where the default is none.

    A list may be empty. Libraries take an empty text for a text.
    """
    if option.multi:
        return isinstance(value, list) and "" in value
    if option.default in (None, ""):
        return False
    if value is None:
        return True
    ours = any(section == group.GROUP and option in group.OPTS for group in GROUPS)
    return value == "" and ours and option.dest not in _MAY_BE_EMPTY.get(section, ())


def _options() -> Iterator[tuple[str, cfg.Opt]]:
    """Yield the options that ``zun.cmd.program`` registers, with their sections."""
    for group in GROUPS:
        for option in options_of(group):
            yield group.GROUP, option
    for section, options in messaging_opts.list_opts():
        for option in options:
            yield str(getattr(section, "name", section) or "DEFAULT"), option
