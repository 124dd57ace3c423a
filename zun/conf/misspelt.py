# SPDX-License-Identifier: Apache-2.0
"""Finds options of configuration files that no program reads, such as misspelt ones. oslo.config ignores them."""

import difflib
import pathlib
from collections.abc import Iterator

from oslo_config import cfg

from zun.conf import GROUPS, default

#: Sections that libraries use too, also with old names: only names similar to one of these options are reported.
_SHARED = {
    "DEFAULT": {option.dest for option in default.OPTS} | {"transport_url", "rpc_response_timeout"},
    **{group.GROUP: {option.dest for option in group.OPTS} for group in GROUPS if hasattr(group, "LIBRARY")},
}
_ALIKE = 0.8  # least difflib ratio of similar names


def misspelt(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield one line for each ignored option in the files of ``conf``: its file, section and probable meaning."""
    ours = {group.GROUP: {option.dest for option in group.OPTS} for group in GROUPS}
    for file in _files(conf):
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(str(file), sections).parse()
        for section, options in sections.items():
            if section not in ours:
                if (meant := _alike(section, ours)) is not None and section not in conf:
                    yield f"{file}: there is no section [{section}], so it is ignored; did you mean [{meant}]?"
                continue
            known = ours[section] | set(conf if section == "DEFAULT" else conf[section])
            for name in options:
                yield from _about(file, section, name.replace("-", "_"), known, ours)


def _about(file: pathlib.Path, section: str, name: str, known: set[str], ours: dict[str, set[str]]) -> Iterator[str]:
    if name in known:
        return
    ignored = f"{file}: [{section}] has no option {name}, so it is ignored"
    elsewhere = [f"[{group}]" for group, names in ours.items() if name in names]
    if elsewhere:
        yield f"{ignored}; it belongs into {' or '.join(elsewhere)}"
    elif (meant := _alike(name, _SHARED.get(section, known))) is not None:
        yield f"{ignored}; did you mean {meant}?"
    elif section not in _SHARED:
        yield f"{ignored}; remove it, or see the list of options in the documentation"


def _alike(name: str, known: set[str] | dict[str, set[str]]) -> str | None:
    found = difflib.get_close_matches(name, known, 1, _ALIKE)
    return found[0] if found else None


def _files(conf: cfg.ConfigOpts) -> Iterator[pathlib.Path]:
    """Yield the files of ``conf`` in the order in which oslo.config reads them."""
    for name in conf.config_file:
        yield pathlib.Path(name)
    for folder in conf.config_dir:
        yield from sorted(pathlib.Path(folder).glob("*.conf"))
