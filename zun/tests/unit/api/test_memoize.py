# SPDX-License-Identifier: Apache-2.0
"""pecan and oslo.policy still ask where we remember. When one of these fails, look at what the library does now."""

import inspect

import pecan
import pytest
from oslo_config import cfg
from oslo_policy import _checks, policy
from pecan import util as pecan_util

from zun.api import memoize
from zun.api.controllers.root import Request


class Root:
    @pecan.expose()
    def _route(self, args, request):
        return self.serve, []

    @pecan.expose("json")
    def serve(self, request, response):
        return {"path": request.path_info}


def ask(app):
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/x",
        "SERVER_NAME": "server",
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
        "HTTP_ACCEPT": "*/*",
    }
    return b"".join(app(environ, lambda status, headers, exc_info=None: None))


def test_pecan_learns_a_signature_once():
    memoize.install()
    memoize.install()
    app = pecan.Pecan(Root(), use_context_locals=False, default_renderer="json", request_cls=Request)
    assert ask(app) == b'{"path": "/x"}'
    before = pecan_util._getargspec.cache_info()
    ask(app)
    after = pecan_util._getargspec.cache_info()
    assert after.misses == before.misses
    assert after.hits >= before.hits + 2


def test_pecan_does_not_read_arguments():
    assert Request({"QUERY_STRING": "_method=DELETE"}).params == {}
    assert Request({"QUERY_STRING": "a=1"}).GET == {}
    assert Request({}).json == {}


class OldCheck(_checks.Check):
    """A plug-in written before checks were told the current rule."""

    def __call__(self, target, creds, enforcer):
        return creds["user_id"] == "alice"


@pytest.fixture
def enforcer():
    memoize.install()
    conf = cfg.ConfigOpts()
    conf([], project="zun-test", default_config_files=[], default_config_dirs=[])
    made = policy.Enforcer(conf)
    made.register_defaults(
        [
            policy.RuleDefault("admin", "role:admin"),
            policy.RuleDefault("either", "rule:admin or project_id:%(project_id)s"),
            policy.RuleDefault("both", "rule:admin and not project_id:%(project_id)s"),
        ]
    )
    made.load_rules()
    return made


@pytest.mark.parametrize(
    ("rule", "roles", "project", "allowed"),
    [
        ("admin", ["admin"], "other", True),
        ("admin", ["member"], "demo", False),
        ("either", ["member"], "demo", True),
        ("either", ["member"], "other", False),
        ("both", ["admin"], "other", True),
        ("both", ["admin"], "demo", False),
    ],
)
def test_oslo_policy_decides_as_before(enforcer, rule, roles, project, allowed, monkeypatch):
    def never(*args):
        raise AssertionError("oslo.policy inspects a signature again")

    credentials = {"roles": roles, "project_id": project, "user_id": "alice"}
    assert enforcer.enforce(rule, {"project_id": "demo"}, credentials) is allowed
    monkeypatch.setattr(inspect, "getfullargspec", never)
    assert enforcer.enforce(rule, {"project_id": "demo"}, credentials) is allowed


def test_checks_of_the_old_form(enforcer):
    for user, allowed in (("alice", True), ("eve", False)):
        assert _checks._check(OldCheck("kind", "match"), {}, {"user_id": user}, enforcer, None) is allowed


def test_a_check_is_told_the_rule_it_belongs_to_if_it_takes_that():
    class Check:
        def __call__(self, target, creds, enforcer, current_rule=None):
            return current_rule

    class OldPlugIn:
        def __call__(self, target, creds, enforcer):
            return "asked"

    found = [memoize._check(check(), {}, {}, None, "container:create") for check in (Check, OldPlugIn)]
    assert found == ["container:create", "asked"]
