# SPDX-License-Identifier: Apache-2.0
"""Finds options of configuration files and of the environment that no program reads. oslo.config ignores them.

Such options are misspelt, from an earlier release of a library, or of another service.
"""

import difflib
import importlib.metadata
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping

from keystoneauth1 import exceptions as keystone_exceptions
from keystoneauth1 import loading
from oslo_config import cfg

from zun.conf import GROUPS

#: Libraries whose options every program reads, and those whose options zun-api alone reads. The names are those by
#: which oslo-config-generator knows the libraries.
LIBRARIES = ("oslo.concurrency", "oslo.log", "oslo.messaging")
LIBRARIES_OF_API = (
    "keystonemiddleware.audit",
    "keystonemiddleware.auth_token",
    "oslo.middleware.cors",
    "oslo.middleware.healthcheck",
    "oslo.middleware.http_proxy_to_wsgi",
    "oslo.policy",
)
_SECTIONS_OF_API = (
    "audit_middleware_notifications", "cors", "healthcheck", "keystone_authtoken", "oslo_middleware", "oslo_policy",
)  # fmt: skip
_TOKENS = "keystone_authtoken"
#: Sections of libraries that do not tell their options, or have sections for each plugin.
_OTHERS = re.compile("os_vif.*|vif_plug_.*|os_brick.*|.*privsep.*|oslo_reports")
_VARIABLE = re.compile("OS_(?P<section>[A-Z0-9_]+?)__(?P<option>[A-Z0-9_]+)")  # as oslo.config reads them
_ALIKE = 0.8  # least difflib ratio of similar names

#: What to do about options of other releases and services.
_OLD = {
    "DEFAULT": {
        "capsule_driver": "remove it: every capsule runs at [compute] container_driver",
        "osapi_max_request_body_size": "remove it: the largest body is fixed; a proxy in front may allow less",
    },
    "compute": {"host_shared_with_nova": "give both services CPUs and memory of their own, as with cpu_dedicated_set"},
    "docker": dict.fromkeys(
        ("docker_remote_api_host", "docker_remote_api_port", "docker_remote_api_version"), "only api_url counts"
    ),
    "keystone_authtoken": {
        "auth_uri": "write www_authenticate_uri",
        **dict.fromkeys(("auth_host", "auth_port", "auth_protocol", "identity_uri"), "write auth_url"),
        "admin_user": "write username",
        "admin_password": "write password",
        "admin_tenant_name": "write project_name",
    },
    "oslo_middleware": {"max_request_body_size": "remove it: the largest body is fixed; a proxy may allow less"},
    "oslo_policy": {"enforce_scope": "remove it: rules ask for projects and roles, not for scopes of tokens"},
}
_OLD_SECTIONS = {
    "cinder_client": "write its options into [cinder]",
    "cni_daemon": "remove it: [network] driver attaches containers",
    "glance_client": "write its options into [glance]",
    "keystone_auth": "write auth_section = keystone_auth into [neutron], [glance], [cinder] and [placement], as used",
    "neutron_client": "write its options into [neutron]",
    "pci": "write device_spec and alias into [devices]",
    "placement_client": "write its options into [placement]",
    "profiler": "remove it: requests are not traced",
    "zun_client": "remove it: no program of this service is its own client",
}

Section = Mapping[str, list[str]]


def misspelt(conf: cfg.ConfigOpts, *, api: bool = True) -> Iterator[str]:
    """Yield one line for each ignored option in the files of ``conf`` and the environment: where, and what to do.

    Without ``api``, options of the libraries that only zun-api loads are not looked at.
    """
    files = [(str(file), _parsed(file)) for file in _files(conf)]
    known = _known(conf, [sections for _, sections in files], api)
    for file, sections in files:
        for section, options in sections.items():
            yield from _about(file, section, [name.replace("-", "_") for name in options], known)
    for variable in sorted(os.environ):
        if found := _VARIABLE.fullmatch(variable):
            section = found["section"].lower() if found["section"] != "DEFAULT" else "DEFAULT"
            yield from _about(f"environment variable {variable}", section, [found["option"].lower()], known)
        elif (found := _VARIABLE.fullmatch(variable.upper())) and _is_section(found["section"], known):
            yield f"environment variable {variable} is ignored: write {variable.upper()}, in capital letters"


def _is_section(capitals: str, known: Iterable[str]) -> bool:
    return capitals in (section.upper() for section in known)


def _about(where: str, section: str, names: Iterable[str], known: Mapping[str, set[str] | None]) -> Iterator[str]:
    if section not in known:
        if not _OTHERS.fullmatch(section):
            yield f"{where}: there is no section [{section}], so it is ignored; {_instead(section, known)}"
        return
    options = known[section]
    for name in names:
        if options is not None and name not in options:
            yield f"{where}: [{section}] has no option {name}, so it is ignored; {_meant(section, name, options)}"


def _instead(section: str, known: Iterable[str]) -> str:
    if section in _OLD_SECTIONS:
        return _OLD_SECTIONS[section]
    first, dot, _ = section.partition(".")  # oslo.middleware read sections such as [cors.dashboard]
    meant = first if dot and first in known else _alike(section, known)
    return f"did you mean [{meant}]?" if meant else "remove it, or see the list of options in the documentation"


def _meant(section: str, name: str, options: set[str]) -> str:
    if (told := _OLD.get(section, {}).get(name)) is not None:
        return told
    if (meant := _alike(name, options)) is not None:
        return f"did you mean {meant}?"
    if elsewhere := [f"[{group.GROUP}]" for group in GROUPS if name in {option.dest for option in group.OPTS}]:
        return f"it belongs into {' or '.join(elsewhere)}"
    return "remove it, or see the list of options in the documentation"


def _alike(name: str, known: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(name, known, 1, _ALIKE)
    return found[0] if found else None


def _known(conf: cfg.ConfigOpts, files: Iterable[Mapping[str, Section]], api: bool) -> dict[str, set[str] | None]:
    """Return the options that are read, by section; None for a section that is not looked into."""
    whole: dict[str, dict[str, list[str]]] = {}
    for sections in files:
        for section, given in sections.items():
            whole.setdefault(section, {}).update(given)
    found: dict[str, set[str]] = {"DEFAULT": set(conf)}
    for group in GROUPS:
        _add(found, group.GROUP, [*group.OPTS, *getattr(group, "LIBRARY", ())])
    for library in (*LIBRARIES, *(LIBRARIES_OF_API if api else ())):
        for where, options in _of_library(library):
            _add(found, where, options)
    known: dict[str, set[str] | None] = {} if api else dict.fromkeys(_SECTIONS_OF_API)
    known.update(found)
    logins = [group.GROUP for group in GROUPS if hasattr(group, "LIBRARY")] + [_TOKENS]
    for login in logins:
        place = whole.get(login, {}).get("auth_section", [login])[-1]  # where keystoneauth looks for the login
        names = _of_login(whole.get(place, {}))
        for name in {login, place}:
            here = known.get(name, set())
            known[name] = None if here is None or names is None else here | names
    return known


def _of_login(section: Section) -> set[str] | None:
    """Return the options of the section's ``auth_type``; None if there is no such type."""
    kind = (section.get("auth_type") or section.get("auth_plugin") or ["password"])[-1]
    try:
        options = loading.get_auth_plugin_conf_options(kind)
    except keystone_exceptions.NoMatchingPlugin:
        return None
    found: dict[str, set[str]] = {}
    _add(found, "", [*loading.get_auth_common_conf_options(), *options])
    return found[""]


def _of_library(name: str) -> list[tuple[str | None, list[cfg.Opt]]]:
    """Return the options of an installed library by section."""
    (found, *_) = importlib.metadata.entry_points(group="oslo.config.opts", name=name)
    listed: list[tuple[str | None, list[cfg.Opt]]] = found.load()()
    return listed


def _add(found: dict[str, set[str]], section: str | cfg.OptGroup | None, options: Iterable[cfg.Opt]) -> None:
    """Add the names of ``options``, and their old names, to those of their sections."""
    here = "" if section == "" else str(getattr(section, "name", section) or "DEFAULT")
    for option in options:
        found.setdefault(here, set()).add(option.dest)
        for old in option.deprecated_opts:
            found.setdefault(old.group or here, set()).add((old.name or option.name).replace("-", "_"))


def _parsed(file: pathlib.Path) -> dict[str, dict[str, list[str]]]:
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(str(file), sections).parse()
    return sections


def _files(conf: cfg.ConfigOpts) -> Iterator[pathlib.Path]:
    """Yield the files of ``conf`` in the order in which oslo.config reads them."""
    for name in conf.config_file:
        yield pathlib.Path(name)
    for folder in conf.config_dir:
        yield from sorted(pathlib.Path(folder).glob("*.conf"))
