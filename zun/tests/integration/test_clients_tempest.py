# SPDX-License-Identifier: Apache-2.0
"""zun-tempest-plugin, unmodified, against the all-in-one with real keystone, Neutron, Glance, Cinder and Docker.

Its classes for old and for new microversions run at the newest one that each may have. Nothing is left out: what does
not pass stands in a table, with the cause.
"""

import contextlib
import io
import itertools
import json
import os
import re
import signal
import subprocess

import pytest
from keystoneauth1 import session as ksa_session

from zun.tests.integration import foreign

pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.foreign, pytest.mark.timeout(1800)]

# Endless commands end at the first signal, so that no deletion takes ten seconds. Without a command it serves the page
# that the suite expects of nginx. The suite asks for the page with curl, which busybox does not have.
IMAGE = "zun-suites"
DOCKERFILE = b"""
FROM zun-demo
STOPSIGNAL SIGKILL
RUN mkdir /www && echo 'Welcome to nginx!' > /www/index.html && \
    printf '#!/bin/sh\\nexec wget -q -O - "$1"\\n' > /bin/curl && chmod +x /bin/curl
CMD ["httpd", "-f", "-h", "/www"]
"""

WORKERS = 4

# The suite itself pulls an image from Docker Hub, at a TCP port of Docker, to upload it to Glance.
PULLS = (
    "FAILED ConnectionRefusedError urllib3.exceptions.NewConnectionError urllib3.exceptions.MaxRetryError "
    "requests.exceptions.ConnectionError"
)
ALWAYS = {
    "test_reboot_container": "SKIPPED temporarily disabled",
    "test_run_container_with_cinder_volumes": "SKIPPED bug 1897497",
    "test_run_container_with_image_driver_glance": PULLS,
}


def another(wanted: str, given: str) -> str:
    return f"SKIPPED The microversion range[{wanted}] of this test is out of the configuration range[{given}]."


def newer(since: str) -> str:
    return another(f"{since} - latest", "1.19 - 1.19")


def older(until: str) -> str:
    return another(f"1.1 - {until}", "1.40 - 1.40")


OLD = {
    **{f"TestContainerLegacy.{name}": outcome for name, outcome in ALWAYS.items()},
    "TestCapsule.test_create_capsule": "SKIPPED bug 1941982",
    "TestCapsule.test_create_capsule_full": "SKIPPED bug 1941982",
    "TestCapsule.test_create_capsule_with_init_container": "SKIPPED bug 1941982",
    "TestCapsule.test_create_capsule_with_volume": "SKIPPED bug 1941982",
    "TestContainerLegacy.test_commit_container_140": newer("1.40"),
    "TestContainerLegacy.test_container_expose_port": newer("1.24"),
    "TestContainerLegacy.test_put_and_get_archive_from_container_encoded": newer("1.25"),
    "TestContainerLegacy.test_rebuild_container": newer("1.33"),
    "TestContainerLegacy.test_run_container_with_cinder_volume_dynamic_created": newer("1.20"),
    "TestContainerLegacy.test_run_container_with_injected_file": newer("1.25"),
    "TestContainerLegacy.test_run_container_with_requested_host": newer("1.39"),
    "TestContainerLegacy.test_run_container_without_security_groups": newer("1.20"),
}
NEW = {
    **{f"TestContainer.{name}": outcome for name, outcome in ALWAYS.items()},
    "TestContainer.test_commit_container": older("1.39"),
    "TestContainer.test_put_and_get_archive_from_container": older("1.24"),
}


@pytest.fixture
def image(full_cloud, engine):
    for said in engine.build(fileobj=io.BytesIO(DOCKERFILE), tag=IMAGE, rm=True, decode=True):
        assert "error" not in said, said
    return IMAGE


@pytest.fixture(scope="module")
def accounts(keystone, neutron_admin, full_cloud):
    """A member and an administrator for each worker, in projects of their own, as tempest's file of accounts has them.

    It could make them itself, but several at once are too much for a keystone on SQLite. Each project has a network.
    """
    made = []
    for worker, role in itertools.product(range(WORKERS), ("member", "admin")):
        who = f"tempest-{role}-{worker}"
        keystone.projects[who] = keystone.admin.projects.create(keystone.named(who), "default")
        keystone.user(who, who, role)
        # Keystone writes down when somebody comes for the first time in a day: that too must not happen at once.
        assert ksa_session.Session(keystone.auth(who, who)).get_token()
        owner = {"name": keystone.named(who), "project_id": keystone.projects[who].id}
        network = neutron_admin._one("networks", "network", "POST", {"network": owner})
        subnet = {**owner, "network_id": network["id"], "cidr": "10.7.100.0/24", "ip_version": 4}
        neutron_admin._one("subnets", "subnet", "POST", {"subnet": subnet})
        names = dict.fromkeys(("username", "password", "project_name"), keystone.named(who))
        types, resources = ["admin"] if role == "admin" else [], {"network": keystone.named(who)}
        made.append({**names, "domain_name": "Default", "roles": [role], "types": types, "resources": resources})
    return made


@pytest.fixture
def suite(tmp_path, keystone, accounts, image, public_network):
    """Runs the tests of the suite that match a pattern, at a microversion: test -> outcome."""
    programs = foreign.installed("tempest") / "bin"
    folder = foreign.packages(programs.parent) / "tempest"
    file = tmp_path / "accounts.yaml"

    def run(microversion, pattern):
        # When a class is over, a suite that has networks wants Docker's at a TCP port, and from 1.27 on ours.
        least = {} if microversion == "1.40" else {"resources": {}}
        file.write_text(json.dumps([each | least for each in accounts]))
        settings = {
            "auth": {"use_dynamic_credentials": False, "test_accounts_file": file},
            "identity": {"uri_v3": keystone.url, "region": "RegionOne"},
            "oslo_concurrency": {"lock_path": tmp_path / "locks"},
            "service_available": {"nova": False, "swift": False}
            | dict.fromkeys(("zun", "glance", "neutron", "cinder"), True),
            "network": {"public_network_id": public_network},
            "container_service": {
                "min_microversion": microversion,
                **dict.fromkeys(("cirros_image", "nginx_image", "ubuntu_image"), image),
            },
        }
        lines = []
        for group, options in settings.items():
            lines += [f"[{group}]", *(f"{option} = {value}" for option, value in options.items())]
        (tmp_path / "tempest.conf").write_text("\n".join(lines) + "\n")
        where = ["--test-path", str(folder / "test_discover"), "--top-dir", str(folder)]
        for words in (["init"], ["run", "--concurrency", str(WORKERS), pattern]):
            stestr = subprocess.Popen(
                [programs / "stestr", *where, *words],
                cwd=tmp_path,
                env={**os.environ, "TEMPEST_CONFIG_DIR": str(tmp_path)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            try:
                said = stestr.communicate()[0]
            finally:  # its workers, when we are interrupted
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(stestr.pid, signal.SIGKILL)
        print(said)
        return outcomes(said)

    return run


def outcomes(said: str) -> dict[str, str]:
    """Return the outcome by class and test: ``ok``, ``SKIPPED`` with the reason, ``FAILED`` with the exceptions."""
    said = said.partition("\n======")[0]  # what follows, first every failure once more, is of no test
    line = re.compile(r"\{\d+\} (.*?)(?: \[[\d.]+s\])? \.\.\. (\w+)(?:: (.*))?")
    found = {}
    for block in re.split(r"^(?=\{\d+\} )", said, flags=re.MULTILINE)[1:]:
        test, word, reason = line.match(block).groups()
        exceptions = re.findall(r"^    ([A-Za-z_]\w*(?:\.\w+)+|\w+Error|Exception): ", block, flags=re.MULTILINE)
        short = ".".join(test.rsplit(".", 2)[1:])
        found[short] = " ".join([word, *([reason] if reason else exceptions if word == "FAILED" else [])])
    return found


def test_the_summary_is_not_of_the_last_test():
    failure = ["    tempest.lib.exceptions.EndpointNotFound: a", "    ValueError: b", ""]
    said = "\n".join([
        "{0} tests.TestOne.test_a [0.1s] ... ok",
        "{1} tests.TestOne.test_b [0.2s] ... SKIPPED: a reason",
        "{0} tests.TestOne.test_c [0.3s] ... FAILED",
        *failure,
        "",
        "==============================",
        "Failed 1 tests - output below:",
        "==============================",
        "tests.TestOne.test_c",
        *failure,
        "",
        "======",
        "Totals",
        "======",
    ])
    assert outcomes(said) == {
        "TestOne.test_a": "ok",
        "TestOne.test_b": "SKIPPED a reason",
        "TestOne.test_c": "FAILED tempest.lib.exceptions.EndpointNotFound ValueError",
    }


@pytest.mark.parametrize(
    ("microversion", "pattern", "passing", "not_passing"),
    [
        pytest.param("1.19", "zun_tempest_plugin.*(Legacy|Capsule|Service)", 26, OLD, id="1.19"),
        pytest.param("1.40", r"zun_tempest_plugin.*TestContainer\.", 31, NEW, id="1.40"),
    ],
)
def test_the_suite(suite, microversion, pattern, passing, not_passing):
    found = suite(microversion, pattern)
    assert {test: outcome for test, outcome in found.items() if outcome != "ok"} == not_passing
    assert len(found) == passing + len(not_passing)
