# SPDX-License-Identifier: Apache-2.0
"""Ask oslo.policy. Handlers call ``access.require("container:start", row)`` and look at no roles themselves."""

import difflib
import graphlib
import logging
import pathlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from oslo_config import cfg
from oslo_policy import policy as oslo_policy

from zun import policies
from zun.common import exceptions
from zun.common.context import RequestContext
from zun.policies.containers import RUNTIME

LOG = logging.getLogger(__name__)

# An edited policy file is noticed within this time. Looking for it at every check costs more than the check.
RELOAD_SECONDS = 10.0

# Rules for each runtime: operators name their runtimes as they like.
OPEN = f"{RUNTIME}:"

# The name of the file in earlier releases of the library, which read no other file beside it.
_OLD_FILE = "policy.json"

_BREAK = re.compile(r"[\s()]")  # between the words of a rule's text, as in "role:admin or (rule:owner)"

# What the library raises over a file that cannot be read or understood.
_BROKEN = (ValueError, TypeError, AttributeError, OSError, cfg.Error)


def enforcer(conf: cfg.ConfigOpts) -> oslo_policy.Enforcer:
    made = oslo_policy.Enforcer(conf)
    made.register_defaults(policies.list_rules())
    return made


def configured_enforcer() -> oslo_policy.Enforcer:
    """Return the enforcer for oslo.policy's programs, with their ``--config-file`` or the usual files."""
    files = cfg.CONF.config_file if "config_file" in cfg.CONF else []
    conf = cfg.ConfigOpts()
    conf([part for name in files for part in ("--config-file", name)], project="zun")
    return enforcer(conf)


class Policy:
    """The rules in force: the defaults of ``zun.policies`` and what the operator's policy file changes."""

    def __init__(self, rules: oslo_policy.Enforcer, clock: Callable[[], float] = time.monotonic) -> None:
        self._enforcer = rules
        self._clock = clock
        self._unknown: set[str] = set()
        self._checked: dict[pathlib.Path, int] = {}
        try:
            self._reload()
        except _BROKEN as exc:
            raise exceptions.Misconfigured(self._unreadable(exc)) from exc
        old = self._found(_OLD_FILE)
        if old is not None and old not in self._checked:
            LOG.warning(
                "%s is not read: the policy is in %s. Move the rules there with oslopolicy-convert-json-to-yaml, or "
                "set [oslo_policy] policy_file",
                old,
                self._file(),
            )

    def _reload(self) -> None:
        self._fresh_until = self._clock() + RELOAD_SECONDS  # first, so that one thread goes and not all
        self._check()
        self._enforcer.use_conf = True
        try:
            self._enforcer.load_rules()
        finally:
            self._enforcer.use_conf = False
        unknown = {name for name in self._enforcer.file_rules if ":" in name} - set(self._enforcer.registered_rules)
        unknown = {name for name in unknown if not name.startswith(OPEN)}
        for name in sorted(unknown - self._unknown):  # one without a colon is a name for others of the file to refer to
            meant = difflib.get_close_matches(name, self._enforcer.registered_rules, 1)
            hint = f"; did you mean {meant[0]}?" if meant else ""
            LOG.warning("%s: there is no rule %s, so what it says is not in force%s", self._file(), name, hint)
        self._unknown = unknown

    def _check(self) -> None:
        """Raise ValueError for a rule that is no text, or that refers to itself, directly or by others.

        The library lets everybody pass by ``false`` or ``[]``, and fails at each check of a rule that refers to itself.
        """
        changed = {path: path.stat().st_mtime_ns for path in self._files()}
        if changed == self._checked:
            return
        texts = {name: rule.check_str for name, rule in self._enforcer.registered_rules.items()}
        for path in changed:
            for name, rule in oslo_policy.parse_file_contents(path.read_text()).items():
                if not isinstance(rule, str) or not isinstance(name, str):
                    raise ValueError(f'rule {name} in {path} must be a text such as "role:admin", got {rule!r}')
                texts[name] = rule
        try:
            graphlib.TopologicalSorter({name: _referred(text) for name, text in texts.items()}).prepare()
        except graphlib.CycleError as exc:
            raise ValueError(f"rule {exc.args[1][0]} refers to itself ({' to '.join(exc.args[1])})") from None
        self._checked = changed

    def _files(self) -> Iterator[pathlib.Path]:
        """Yield the files that the library reads, in this order."""
        main = self._found(self._enforcer.policy_file)
        if main is not None:
            yield main
        for name in self._enforcer.conf.oslo_policy.policy_dirs:
            folder = self._found(name)
            if folder is not None and folder.is_dir():
                yield from (path for path in sorted(folder.iterdir()) if path.is_file() and path.name[0] != ".")

    def _found(self, name: str) -> pathlib.Path | None:
        path = self._enforcer.conf.find_file(name)
        return None if path is None else pathlib.Path(path)

    def _unreadable(self, exc: Exception) -> str:
        return f"The policy file {self._file()} cannot be read: {' '.join(str(exc).split()).rstrip('.')}"

    def _file(self) -> str:
        return str(self._enforcer.policy_path or self._enforcer.policy_file)

    def allows(self, rule: str, target: Mapping[str, Any], credentials: dict[str, Any]) -> bool:
        """Return whether ``rule`` permits it. A rule that begins with ``OPEN`` and is not in the file is the default
        rule without its last part.
        """
        if self._clock() >= self._fresh_until:
            try:
                self._reload()
            except _BROKEN as exc:
                LOG.error("%s. The rules that were in force still are", self._unreadable(exc))
        if rule.startswith(OPEN) and rule not in self._enforcer.file_rules:
            rule = OPEN.removesuffix(":")
        return bool(self._enforcer.enforce(rule, target, credentials))


class Access:
    """The rights of one caller during one request. ``own`` has the project and user of the caller's rows.

    ``target`` is the uuid of the row that the last ``require`` was about, or None.
    """

    def __init__(self, policy: Policy, context: RequestContext) -> None:
        self.context = context
        self._policy = policy
        self._credentials = dict(context.to_policy_values())
        self.target: str | None = None
        self.own = {"project_id": context.project_id, "user_id": context.user_id}

    def allows(self, rule: str, target: Mapping[str, Any] | None = None) -> bool:
        """Return whether ``rule`` permits the caller ``target`` (a row or an object), or without one, their own
        project.
        """
        about = self.own if target is None else {"project_id": target["project_id"], "user_id": target["user_id"]}
        return self._policy.allows(rule, about, self._credentials)

    def require(self, rule: str, target: Mapping[str, Any] | None = None) -> None:
        """Raise PolicyNotAuthorized unless ``rule`` permits it."""
        if target is not None:
            self.target = target.get("uuid")
        if not self.allows(rule, target):
            LOG.info(
                "Refused %s to user %s of project %s with roles %s, on what project %s owns",
                rule,
                self.context.user_id,
                self.context.project_id,
                ",".join(self.context.roles) or "-",
                self.context.project_id if target is None else target["project_id"],
            )
            raise exceptions.PolicyNotAuthorized(action=rule)


def _referred(text: str) -> list[str]:
    """Return the names of the rules that the text of a rule refers to."""
    return [word.removeprefix("rule:") for word in _BREAK.split(text) if word.startswith("rule:")]
