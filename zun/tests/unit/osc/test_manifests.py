# SPDX-License-Identifier: Apache-2.0
"""Manifests of well-known projects as capsules.

``manifests.csv`` has facts of 22 manifests of the repository kubernetes/examples (commit 279e8e4f): which members a Pod
has, with the values that decide here. Names and texts are replaced.
"""

import csv
import pathlib

import pytest
import yaml

from zun.api.schemas import capsules as schemas
from zun.osc.pods import translated

POD = "spec.template.spec"
ONE = f"{POD}.containers[0]"
LOST = {
    "cpu-manager-best-effort": (),
    "cpu-manager-exclusive-2": (),
    "cpu-manager-exclusive-4": (),
    "cpu-manager-shared": (),
    "tensorflow-serving": ("kind",),
    "vllm": (
        "kind", f"{POD}.volumes[0].emptyDir", f"{ONE}.env[2].valueFrom",
        *(f"{ONE}.resources.{part}.{name}" for part in ("requests", "limits")
          for name in ("ephemeral-storage", "nvidia.com/gpu")),
    ),
    "cockroachdb": (
        "kind", "spec.replicas", f"{POD}.affinity",
        f"{POD}.initContainers[0].env[0].valueFrom",
    ),
    "elasticsearch": (
        "kind", f"{POD}.serviceAccount", f"{POD}.volumes[0].emptyDir", f"{POD}.initContainers[0].securityContext",
        f"{ONE}.securityContext", f"{ONE}.env[1].valueFrom",
    ),
    "javaee-mysql": (),
    "tomcat-sidecar": ("spec.volumes[0].emptyDir", "spec.containers[0].ports[0].hostPort"),
    "newrelic": (
        "kind", f"{POD}.hostPID", f"{POD}.hostIPC", f"{POD}.hostNetwork", f"{POD}.volumes[0].secret",
        *(f"{POD}.volumes[{number}].hostPath" for number in (1, 2, 3, 4)), f"{ONE}.securityContext",
    ),
    "selenium-chrome": ("kind", "spec.replicas", f"{POD}.volumes[0].emptyDir"),
    "spark-worker": ("kind", "spec.replicas"),
    "hazelcast": ("kind", f"{ONE}.env[1].valueFrom"),
    "minio": ("kind", f"{ONE}.ports[0].hostPort"),
    "redis-master": ("spec.volumes[0].emptyDir",),
    "rethinkdb": ("kind", f"{POD}.volumes[0].emptyDir", f"{ONE}.env[0].valueFrom"),
    "storm-worker": (
        "kind", "spec.replicas", *(f"{ONE}.ports[{number}].hostPort" for number in range(4)),
        f"{ONE}.resources.limits.cpu",
    ),
    "cassandra": (
        "kind", "spec.replicas", *(f"{ONE}.{name}" for name in ("securityContext", "lifecycle")),
        f"{ONE}.env[7].valueFrom",
    ),
    "mysql-cinder": (),
    "guestbook-frontend": ("kind", "spec.replicas"),
    "guestbook-redis": ("kind", "spec.replicas"),
}  # fmt: skip
DEDICATED = {"cpu-manager-exclusive-2": 2, "cpu-manager-exclusive-4": 4, "vllm": 2}


def facts():
    """The rows of the file by manifest: the path of each member, and its value."""
    found = {}
    with (pathlib.Path(__file__).parent / "manifests.csv").open() as file:
        for row in csv.DictReader(file):
            value = row["value"]
            words = value.removesuffix(" words")
            made = ["word"] * int(words) if words != value else yaml.safe_load(value)
            found.setdefault(row["manifest"], {})[tuple(row["member"].split("/"))] = made
    return found


def built(members):
    """The document that has these members. Below a number is a list."""
    heads = {}
    for (head, *rest), value in members.items():
        heads.setdefault(head, {})[tuple(rest)] = value
    made = {head: inner[()] if () in inner else built(inner) for head, inner in heads.items()}
    return list(made.values()) if all(head.isdecimal() for head in made) else made


FACTS = facts()


@pytest.mark.parametrize("name", FACTS)
def test_manifest_is_answered_with_every_path_that_is_lost(name):
    members = {tuple(part.replace("\\", "/") for part in path): value for path, value in FACTS[name].items()}
    manifest = built(members)
    template, lost = translated(manifest)
    schemas.CREATE({"template": template})
    assert {each.partition(": ")[0] for each in lost} == {*LOST[name]}
    (cpus,) = [each.get("resources", {}).get("requests", {}).get("cpu") for each in template["spec"]["containers"]][:1]
    assert template["spec"].get("placement") == ({"cpu_policy": "dedicated"} if name in DEDICATED else None)
    assert name not in DEDICATED or cpus == DEDICATED[name]


def test_there_are_facts_of_twenty_projects_at_least():
    assert FACTS.keys() == LOST.keys() and len(FACTS) >= 20
