# SPDX-License-Identifier: Apache-2.0
"""The default policy, rule by rule, against the table of Zun's API v1."""

import subprocess
import sys

import pytest
import yaml
from oslo_config import cfg

from zun import policies
from zun.api.policy import RELOAD_SECONDS, Access, Policy, enforcer
from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.exceptions import PolicyNotAuthorized

ADMIN = [
    "container:create:capability:IPC_LOCK",
    "container:create:capability:NET_ADMIN",
    "container:create:capability:SYS_NICE",
    "container:create:capability:SYS_PTRACE",
    "container:create:capability:SYS_RESOURCE",
    "container:create:runtime",
    "container:create:requested_destination",
    "container:create:cpu_isolation",
    "container:create:image_pull_policy",
    "container:get_one_all_projects",
    "container:get_one:host",
    "container:get_one:image_pull_policy",
    "container:get_one:privileged",
    "container:get_one:runtime",
    "container:get_all_all_projects",
    "container:delete_force",
    "container:delete_all_projects",
    "container:explain:host",
    "placement:defragment",
    "placement:dry_run:host",
    "placement:capacity:host",
    "host:get_all",
    "host:get",
    "host:topology",
    "host:topology:holders",
    "host:audit",
    "host:evacuate",
    "host:drain",
    "container:move",
    "host:traits",
    "host:set_traits",
    "group:get_all_all_projects",
    "set:get_all_all_projects",
    "set:delete_all_projects",
    "volume:get_all_all_projects",
    "volume:get:host",
    "capsule:get_all_all_projects",
    "capsule:get:host",
    "capsule:delete_all_projects",
    "aggregate:get_all",
    "aggregate:get",
    "aggregate:create",
    "aggregate:update",
    "aggregate:delete",
    "aggregate:add_host",
    "aggregate:remove_host",
    "aggregate:set_metadata",
    "container:action:events",
    "network:get_all_all_projects",
    "network:create",
    "network:create:project",
    "network:create:subnets",
    "network:create:shared",
    "network:delete",
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
READER = [
    "container:get_all",
    "container:get_one",
    "container:logs",
    "container:top",
    "container:stats",
    "container:explain",
    "container:network_list",
    "network:get_all",
    "network:get_one",
    "group:get_all",
    "set:get_all",
    "set:get",
    "volume:get_all",
    "volume:get",
    "capsule:get_all",
    "capsule:get",
    "group:get",
    "availability_zones:get_all",
    "container:actions",
    "image:search",
    "registry:get_one",
    "registry:get_all",
    "quota:get",
    "quota:get_default",
]
MEMBER = [
    "container:create:capability:AUDIT_WRITE",
    "container:create:capability:CHOWN",
    "container:create:capability:DAC_OVERRIDE",
    "container:create:capability:FOWNER",
    "container:create:capability:FSETID",
    "container:create:capability:KILL",
    "container:create:capability:MKNOD",
    "container:create:capability:NET_BIND_SERVICE",
    "container:create:capability:NET_RAW",
    "container:create:capability:SETFCAP",
    "container:create:capability:SETGID",
    "container:create:capability:SETPCAP",
    "container:create:capability:SETUID",
    "container:create:capability:SYS_CHROOT",
    "image:search:host",
    "placement:dry_run",
    "placement:capacity",
    "container:action:client_address",
    "image:delete:committed",
    "set:start",
    "set:stop",
    "set:replace",
    "set:delete",
    "container:create",
    "container:update",
    "container:delete",
    "container:start",
    "container:stop",
    "container:reboot",
    "container:pause",
    "container:unpause",
    "container:kill",
    "container:execute",
    "container:rebuild",
    "container:network_attach",
    "container:network_detach",
    "container:add_security_group",
    "container:remove_security_group",
    "container:get_archive",
    "container:put_archive",
    "container:commit",
    "container:rename",
    "container:attach",
    "container:resize",
    "container:execute_resize",
    "container:resize_container",
    "group:create",
    "capsule:create",
    "capsule:delete",
    "group:delete",
    "volume:delete",
    "registry:create",
    "registry:update",
    "registry:delete",
]
NOBODY = [
    "container:create:capability:BPF",
    "container:create:capability:DAC_READ_SEARCH",
    "container:create:capability:PERFMON",
    "container:create:capability:SYSLOG",
    "container:create:capability:SYS_ADMIN",
    "container:create:capability:SYS_RAWIO",
    "container:create:capability:SYS_TIME",
    "container:create:privileged",
]

WHO = {
    "admin": RequestContext(user_id="root", project_id="admin", roles=["Admin"]),
    "member": RequestContext(user_id="alice", project_id="demo", roles=["Member"]),
    "member-and-reader": RequestContext(user_id="carol", project_id="demo", roles=["reader", "member"]),
    "reader": RequestContext(user_id="bob", project_id="demo", roles=["reader"]),
    "other-role": RequestContext(user_id="dave", project_id="demo", roles=["auditor"]),
    "no-role": RequestContext(user_id="dave", project_id="demo", roles=[]),
    "stranger": RequestContext(user_id="eve", project_id="other", roles=["member", "reader"]),
    "system": RequestContext(user_id="root", system_scope="all", roles=["admin"]),
    "domain": RequestContext(user_id="root", domain_id="default", roles=["admin"]),
}


@pytest.fixture(scope="module")
def policy():
    conf = cfg.ConfigOpts()
    conf([], project="zun-test", default_config_files=[], default_config_dirs=[])
    return Policy(enforcer(conf))


def test_the_table_is_complete():
    written = sorted(rule.name for rule in policies.list_rules() if ":" in rule.name)
    assert sorted([*ADMIN, *MEMBER, *READER, *NOBODY]) == written


@pytest.mark.parametrize("rule", [*ADMIN, *MEMBER, *READER, *NOBODY])
def test_who_may(policy, rule):
    target = {"project_id": "demo", "user_id": "alice"}
    allowed = {who for who, context in WHO.items() if Access(policy, context).allows(rule, target)}
    expected: set[str] = set()
    if rule not in NOBODY:
        expected |= {"admin"}
    if rule in MEMBER or rule in READER:
        expected |= {"member", "member-and-reader"}
    if rule in READER:
        expected |= {"reader"}
    assert allowed == expected


def test_without_a_target_the_own_project_is_meant(policy):
    for who in ("admin", "member", "stranger"):
        Access(policy, WHO[who]).require("container:create")
    with pytest.raises(PolicyNotAuthorized, match="host:get"):
        Access(policy, WHO["member"]).require("host:get")


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
    access = Access(policy, WHO["member"])
    assert rules is not None and not access.allows("container:start")
    file.write_text('"container:start": "@"\n# longer than before\n')
    now += RELOAD_SECONDS - 1
    assert not access.allows("container:start")
    now += 2
    assert access.allows("container:start")


def with_file(file, now):
    conf = cfg.ConfigOpts()
    conf([], project="zun-test", default_config_files=[], default_config_dirs=[])
    enforcer(conf)
    conf.set_override("policy_file", str(file), group="oslo_policy")
    return Policy(enforcer(conf), clock=lambda: now[0])


NO_TEXT = ["false", "null", "[]", '["role:admin"]', "{}", "5", ""]
BROKEN = ['"container:start": "role:x\n', "- no\n- rules\n", '"a": [\n']
BROKEN += [f'"container:stop": "@"\n"container:start": {value}\n' for value in NO_TEXT]
CYCLES = {
    '"container:start": "role:x or (rule:container:start)"\n': "container:start refers to itself",
    '"a": "not rule:b"\n"b": "rule:a"\n"container:start": "rule:a"\n': r"[ab] refers to itself \([ab] to [ab] to",
}
BROKEN += CYCLES


@pytest.mark.parametrize("text", BROKEN)
def test_no_start_with_a_file_that_is_not_understood(tmp_path, text):
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(exceptions.Misconfigured) as told:
        with_file(file, [1000.0])
    assert str(told.value).startswith("The policy file ") and "\n" not in str(told.value)
    assert str(file) in str(told.value) and " cannot be read: " in str(told.value)


@pytest.mark.parametrize("text", BROKEN)
def test_a_file_that_breaks_later_changes_nothing(tmp_path, caplog, text):
    file, now = tmp_path / "policy.yaml", [1000.0]
    file.write_text('"container:start": "!"\n')
    access = Access(with_file(file, now), WHO["member"])
    file.write_text(text + "# longer than before\n" * 3)
    for _ in range(3):
        now[0] += RELOAD_SECONDS + 1
        assert not access.allows("container:start") and access.allows("container:stop")
    assert any(str(file) in line and "still are" in line for line in caplog.messages)
    file.write_text('"container:start": "@"\n')
    now[0] += RELOAD_SECONDS + 1
    assert access.allows("container:start")


@pytest.mark.parametrize(("text", "said"), CYCLES.items())
def test_a_rule_that_refers_to_itself_is_named(tmp_path, text, said):
    """The library warns of such a rule, and each check by the rule fails with an error of the recursion."""
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(exceptions.Misconfigured, match=said):
        with_file(file, [1000.0])


@pytest.mark.parametrize("value", NO_TEXT)
@pytest.mark.parametrize("name", ["policy.yaml", "policy.d/10-more.yaml"])
def test_a_rule_that_is_no_text_is_named(tmp_path, name, value):
    """The library takes false, null and an empty list for a rule that everybody passes."""
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "zun.conf").write_text("")
    (tmp_path / name).write_text(f'"container:start": {value}\n')
    conf = cfg.ConfigOpts()
    conf([], project="zun-test", default_config_files=[str(tmp_path / "zun.conf")], default_config_dirs=[])
    with pytest.raises(exceptions.Misconfigured, match=f"rule container:start in {tmp_path}/{name} must be a text"):
        Policy(enforcer(conf))


@pytest.mark.parametrize(("used", "told"), [("policy.yaml", True), ("policy.json", False)])
def test_a_policy_json_that_nobody_reads_is_told(tmp_path, caplog, used, told):
    (tmp_path / "policy.json").write_text('{"container:start": "!"}')
    (tmp_path / "zun.conf").write_text(f"[oslo_policy]\npolicy_file = {used}\n")
    conf = cfg.ConfigOpts()
    conf([], project="zun-test", default_config_files=[str(tmp_path / "zun.conf")], default_config_dirs=[])
    policy = Policy(enforcer(conf))
    assert Access(policy, WHO["member"]).allows("container:start") is told
    assert any(f"{tmp_path}/policy.json is not read" in line for line in caplog.messages) is told


def test_a_rule_that_there_is_not_is_told_once(tmp_path, caplog):
    file, now = tmp_path / "policy.yaml", [1000.0]
    file.write_text('"container:startt": "!"\n"ours": "role:ours"\n"container:stop": "rule:ours"\n')
    access = Access(with_file(file, now), WHO["member"])
    now[0] += RELOAD_SECONDS + 1
    assert access.allows("container:start") and not access.allows("container:stop")
    (line,) = [each for each in caplog.messages if "not in force" in each]
    assert f"{file}: there is no rule container:startt" in line and "container:start?" in line


def test_a_runtime_may_have_a_rule_of_its_own(tmp_path, caplog):
    file, now = tmp_path / "policy.yaml", [1000.0]
    file.write_text('"container:create:runtime:runsc": "rule:project_member"\n"container:create:runtime:kata": "!"\n')
    policy = with_file(file, now)

    def allowed(who):
        names = ("runsc", "kata", "runc")
        return {name for name in names if Access(policy, WHO[who]).allows(f"container:create:runtime:{name}")}

    assert (allowed("member"), allowed("admin"), allowed("reader")) == ({"runsc"}, {"runsc", "runc"}, set())
    assert [each for each in caplog.messages if "not in force" in each] == []
    file.write_text('"container:create:runtime": "rule:project_member"\n# longer than before' + "\n" * 99)
    now[0] += RELOAD_SECONDS + 1
    assert allowed("member") == {"runsc", "kata", "runc"}


def printed(module, *argv):
    """Return the YAML output of a program of oslo.policy."""
    code = f"import sys; from oslo_policy import generator; generator.{module}(sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_sample_has_every_rule_as_a_comment():
    sample = printed("generate_sample", "--namespace", "zun")
    assert yaml.safe_load(sample) is None
    written = {line.split('"')[1] for line in sample.splitlines() if line.startswith('#"')}
    assert written == {rule.name for rule in policies.list_rules()}
    assert "DEPRECATED" not in sample


def test_the_policy_in_force_can_be_printed(tmp_path):
    (tmp_path / "policy.yaml").write_text('"container:start": "role:operator"\n')
    (tmp_path / "zun.conf").write_text(f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
    given = ("--namespace", "zun", "--config-file", str(tmp_path / "zun.conf"))
    rules = yaml.safe_load(printed("generate_policy", *given))
    assert rules == {rule.name: rule.check_str for rule in policies.list_rules()} | {"container:start": "role:operator"}
