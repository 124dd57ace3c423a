# SPDX-License-Identifier: Apache-2.0
"""The default policy, rule by rule, against the table of the API contract."""

import pytest
from oslo_config import cfg

from zun import policies
from zun.api.policy import RELOAD_SECONDS, Access, Policy, enforcer
from zun.common.context import RequestContext
from zun.common.exceptions import PolicyNotAuthorized

ADMIN = [
    "container:create:runtime",
    "container:create:requested_destination",
    "container:create:image_pull_policy",
    "container:get_one_all_projects",
    "container:get_one:host",
    "container:get_one:image_pull_policy",
    "container:get_one:privileged",
    "container:get_one:runtime",
    "container:get_all_all_projects",
    "container:delete_force",
    "container:delete_all_projects",
    "host:get_all",
    "host:get",
    "host:topology",
    "host:audit",
    "container:action:events",
    "image:pull",
    "image:get_all",
    "image:get_one",
    "image:delete",
    "registry:get_all_all_projects",
    "quota:update",
    "quota:delete",
    "quota_class:get",
    "quota_class:update",
    "zun-service:get_all",
    "zun-service:delete",
    "zun-service:enable",
    "zun-service:disable",
    "zun-service:force_down",
]
OWNER = [
    "container:create",
    "container:get_all",
    "container:get_one",
    "container:update",
    "container:delete",
    "container:start",
    "container:stop",
    "container:reboot",
    "container:pause",
    "container:unpause",
    "container:kill",
    "container:logs",
    "container:execute",
    "container:top",
    "container:stats",
    "container:rebuild",
    "container:get_archive",
    "container:put_archive",
    "container:rename",
    "container:attach",
    "container:resize",
    "container:execute_resize",
    "container:resize_container",
    "availability_zones:get_all",
    "container:actions",
    "image:search",
    "registry:create",
    "registry:get_one",
    "registry:get_all",
    "registry:update",
    "registry:delete",
    "quota:get",
    "quota:get_default",
]
NOBODY = ["container:create:privileged"]

WHO = {
    "admin": RequestContext(user_id="root", project_id="admin", roles=["Admin"]),
    "owner": RequestContext(user_id="alice", project_id="demo", roles=["member"]),
    "owner-without-roles": RequestContext(user_id="bob", project_id="demo", roles=[]),
    "stranger": RequestContext(user_id="eve", project_id="other", roles=["member"]),
    "system": RequestContext(user_id="root", system_scope="all", roles=["admin"]),
    "domain": RequestContext(user_id="root", domain_id="default", roles=["admin"]),
}


@pytest.fixture(scope="module")
def policy():
    conf = cfg.ConfigOpts()
    conf([], project="zun-test", default_config_files=[], default_config_dirs=[])
    return Policy(enforcer(conf))


def test_the_table_is_complete():
    assert sorted([*ADMIN, *OWNER, *NOBODY]) == sorted(rule.name for rule in policies.list_rules() if ":" in rule.name)


@pytest.mark.parametrize("rule", [*ADMIN, *OWNER, *NOBODY])
def test_who_may(policy, rule):
    target = {"project_id": "demo", "user_id": "alice"}
    allowed = {who for who, context in WHO.items() if Access(policy, context).allows(rule, target)}
    if rule in NOBODY:
        assert allowed == set()
    elif rule in ADMIN:
        assert allowed == {"admin"}
    else:
        assert allowed == {"admin", "owner", "owner-without-roles"}


def test_without_a_target_the_own_project_is_meant(policy):
    for who in ("admin", "owner", "owner-without-roles", "stranger"):
        Access(policy, WHO[who]).require("container:create")
    with pytest.raises(PolicyNotAuthorized, match="host:get"):
        Access(policy, WHO["owner"]).require("host:get")


def test_a_rule_nobody_wrote_refuses(policy):
    assert not Access(policy, WHO["admin"]).allows("container:explode")


def test_an_edited_file_is_noticed_in_time(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text('"container:start": "!"\n')
    conf = cfg.ConfigOpts()
    conf([], project="zun-test", default_config_files=[], default_config_dirs=[])
    rules = enforcer(conf)
    conf.set_override("policy_file", str(file), group="oslo_policy")
    now = 1000.0
    policy = Policy(enforcer(conf), clock=lambda: now)
    access = Access(policy, WHO["owner"])
    assert rules is not None and not access.allows("container:start")
    file.write_text('"container:start": "@"\n# longer than before\n')
    now += RELOAD_SECONDS - 1
    assert not access.allows("container:start")
    now += 2
    assert access.allows("container:start")
