# SPDX-License-Identifier: Apache-2.0
"""``capsule create --file`` with the manifest of a Kubernetes Pod, against a real HTTP server."""

import logging

import pytest
from osc_lib import exceptions

from zun.osc.capsules import ComposeUp, CreateCapsule
from zun.osc.each import DeleteCapsule
from zun.tests.functional.osc.recorder import asked_by

CAPSULE = {"uuid": "k-1", "name": "web", "status": "Creating", "addresses": {}, "containers": []}
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: nginx
    image: nginx
    env: [{name: LEVEL, value: info}]
    resources: {limits: {cpu: "2", memory: 1Gi}}
"""
HOOKED = POD + "    lifecycle: {preStop: {sleep: {seconds: 1}}}\n"


def run(tmp_path, text, *argv):
    """Return the requests that the command sent."""
    file = tmp_path / "pod.yaml"
    file.write_text(text)
    return asked_by(CreateCapsule, ["--file", str(file), *argv], {("POST", "/v1/capsules/"): (202, CAPSULE)}, "1.51")


def test_pod_is_created_as_a_capsule(tmp_path):
    (asked,) = run(tmp_path, POD)
    template = asked.body["template"]
    assert asked.version == "1.41" and (template["kind"], template["metadata"]) == ("capsule", {"name": "web"})
    assert template["spec"]["placement"] == {"cpu_policy": "dedicated"}
    (container,) = template["spec"]["containers"]
    assert container["env"] == {"LEVEL": "info"}
    assert container["resources"] == {"requests": {"cpu": 2, "memory": 1024}}


def test_what_is_lost_is_an_error_that_names_each_path(tmp_path):
    with pytest.raises(exceptions.CommandError) as caught:
        run(tmp_path, HOOKED)
    assert "\n  spec.containers[0].lifecycle: a capsule has no hooks\n" in str(caught.value)
    assert str(caught.value).endswith("give --lenient to create it without.")


def test_what_is_lost_is_a_warning_with_lenient(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "zun.osc.capsules"):
        (asked,) = run(tmp_path, HOOKED, "--lenient")
    assert "lifecycle" not in str(asked.body) and "lifecycle: a capsule has no hooks" in caplog.text


def test_what_is_no_pod_is_refused_and_not_sent(tmp_path):
    with pytest.raises(exceptions.CommandError, match="cannot become a capsule: kind: Service has no"):
        run(tmp_path, "apiVersion: v1\nkind: Service\n", "--lenient")


COMPOSE = """
services:
  web:
    image: "nginx:${ZUN_TEST_TAG:-1}"
    cpus: 2
    mem_limit: 1g
x-placement: {cpu_policy: dedicated}
"""


def up(tmp_path, text, *argv):
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "compose.yaml").write_text(text)
    answers = {("POST", "/v1/capsules/"): (202, CAPSULE)}
    return asked_by(ComposeUp, [str(folder / "compose.yaml"), *argv], answers, "1.51")


@pytest.mark.parametrize(("argv", "name"), [((), "shop"), (("--project-name", "other"), "other")])
def test_services_are_created_as_a_capsule(tmp_path, monkeypatch, argv, name):
    monkeypatch.setenv("ZUN_TEST_TAG", "2")
    (asked,) = up(tmp_path, COMPOSE, *argv)
    template = asked.body["template"]
    assert (asked.version, template["metadata"]) == ("1.41", {"name": name})
    assert template["spec"]["containers"][0]["image"] == "nginx:2"


def test_option_names_the_capsule_before_the_file(tmp_path):
    (asked,) = up(tmp_path, COMPOSE + "name: market\n", "--project-name", "other")
    assert asked.body["template"]["metadata"] == {"name": "other"}


def test_files_beside_the_compose_file_have_its_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("ZUN_TEST_SHELL", "shell")
    monkeypatch.delenv("ZUN_TEST_TAG", raising=False)
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / ".env").write_text("ZUN_TEST_TAG=3\nZUN_TEST_SHELL=file\n")
    (folder / "web.env").write_text("LEVEL='a b'\n")
    text = "services: {web: {image: 'nginx:$ZUN_TEST_TAG-$ZUN_TEST_SHELL', env_file: web.env, ports: [22]}}\n---\n"
    (folder / "compose.yaml").write_text(text)
    answers = {("POST", "/v1/capsules/"): (202, CAPSULE)}
    (asked,) = asked_by(ComposeUp, [str(folder / "compose.yaml")], answers, "1.51")
    (container,) = asked.body["template"]["spec"]["containers"]
    assert (container["image"], container["env"]) == ("nginx:3-shell", {"LEVEL": "a b"})


def test_file_for_the_other_command_is_refused_with_its_name(tmp_path):
    with pytest.raises(exceptions.CommandError, match="compose up"):
        run(tmp_path, COMPOSE)
    with pytest.raises(exceptions.CommandError, match="capsule create --file"):
        up(tmp_path, POD)


def test_pod_among_other_objects_is_created_with_lenient(tmp_path):
    text = f"apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\n---\n{POD}---\n"
    with pytest.raises(exceptions.CommandError, match="\n  Service/web: ports of containers are published anyway"):
        run(tmp_path, text)
    (asked,) = run(tmp_path, text, "--lenient")
    assert asked.body["template"]["metadata"] == {"name": "web"}


@pytest.mark.parametrize("text", ["", "kind: [", "a: 1\n---\nb: 1\n"], ids=["empty", "broken", "two"])
def test_file_that_is_no_template_is_refused_and_not_sent(tmp_path, text):
    with pytest.raises(exceptions.CommandError, match=r"pod\.yaml cannot become a capsule: "):
        run(tmp_path, text)


def test_cpuset_of_a_service_is_refused_with_a_hint(tmp_path):
    with pytest.raises(exceptions.CommandError, match=r"cpuset: it names CPUs of a host.*x-placement"):
        up(tmp_path, "services: {web: {image: nginx, cpuset: 0-1}}", "--lenient")


def test_probes_of_a_pod_are_asked_for_in_their_version(tmp_path):
    (asked,) = run(tmp_path, POD + "    livenessProbe: {httpGet: {port: 80}}\n")
    (container,) = asked.body["template"]["spec"]["containers"]
    assert asked.version == "1.51" and container["livenessProbe"] == {"httpGet": {"port": 80}}


@pytest.mark.parametrize(
    ("argv", "version", "query"),
    [
        ([], "1.40", ""),
        (["--force"], "1.51", "?force=true"),
        (["--all-projects"], "1.40", "?all_projects=true"),
        (["--all-projects", "--force"], "1.51", "?force=true&all_projects=true"),
    ],
    ids=["waits", "force", "any-project", "both"],
)
def test_capsule_is_deleted_as_asked(argv, version, query):
    answers = {("DELETE", "/v1/capsules/web"): (204, None)}
    (asked,) = asked_by(DeleteCapsule, ["web", *argv], answers, "1.51")
    assert (asked.method, asked.version, asked.path) == ("DELETE", version, f"/v1/capsules/web{query}")
