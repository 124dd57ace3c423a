# SPDX-License-Identifier: Apache-2.0
"""A document with any odd value in any place is translated or refused with a reason: users see no other error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from zun.osc import compose, pods

CONTAINER = {
    "name": "web", "image": "nginx", "command": ["serve", "$(LEVEL)"], "args": ["fast"], "workingDir": "/srv",
    "imagePullPolicy": "Always", "stdin": True, "securityContext": {"privileged": True},
    "env": [{"name": "LEVEL", "value": "x"}, {"name": "KEY", "valueFrom": {"secretKeyRef": {}}}],
    "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}],
    "livenessProbe": {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 3},
    "startupProbe": {"exec": {"command": ["true"]}},
    "readinessProbe": {"tcpSocket": {"port": 80}},
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": 1, "memory": "1Gi"}},
    "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}, {"name": "disk", "mountPath": "/disk"}],
}  # fmt: skip
SPEC = {
    "restartPolicy": "Always", "terminationGracePeriodSeconds": 5,
    "volumes": [{"name": "data", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                {"name": "disk", "cinder": {"volumeID": "d"}},
                {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}}],
    "initContainers": [{"name": "log", "image": "log", "restartPolicy": "Always"}],
    "containers": [CONTAINER],
}  # fmt: skip
METADATA = {"name": "web", "labels": {"a": "b"}, "annotations": {"a": "b"}, "namespace": "here"}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": METADATA, "spec": SPEC}
JOB = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": METADATA,
       "spec": {"jobTemplate": {"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
           {"name": "web", "image": "nginx"}]}}}}}}  # fmt: skip
LIST = {"apiVersion": "v1", "kind": "List", "items": [JOB, {"kind": "Service", "metadata": {"name": "web"}}]}
SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": METADATA,
       "spec": {"volumeClaimTemplates": [{"metadata": {"name": "claim"}}],
                "template": {"spec": {"containers": [{"image": "nginx"}]}}}}  # fmt: skip
PROJECT = {
    "name": "shop", "x-placement": {"cpu_policy": "dedicated"}, "volumes": {"data": {"name": "real"}},
    "services": {
        "web": {
            "image": "nginx", "command": "serve fast", "entrypoint": ["start"], "environment": {"LEVEL": "x"},
            "working_dir": "/srv", "stdin_open": True, "tty": "true", "cpus": 1.5, "mem_limit": "5m",
            "restart": "always", "pull_policy": "always", "stop_grace_period": "3s", "profiles": [],
            "ports": ["80:80", "1-3", {"target": 80, "published": 8080, "protocol": "tcp"}],
            "volumes": ["data:/a:ro", {"type": "volume", "source": "data", "target": "/b", "read_only": True,
                                       "volume": {"nocopy": True}}, "/a:/c"],
            "deploy": {"replicas": 1, "resources": {"limits": {"cpus": "1", "memory": "1g"},
                                                    "reservations": {"cpus": ".5", "memory": "1m"}}},
            "depends_on": {"db": {"condition": "service_healthy", "required": True}},
            "healthcheck": {"test": ["CMD", "true"], "interval": "1s", "timeout": "1s", "retries": 3,
                            "start_period": "1s", "disable": False},
            "env_file": [{"path": "set.env", "required": False}],
        },
        "db": {"image": "mariadb", "environment": ["LEVEL=x"], "depends_on": ["log"], "env_file": "set.env"},
        "log": {"image": "log"},
    },
}  # fmt: skip
ODD = (
    None, 0, -1, 1.5, True, False, 10**30, 1e300, "", "x", "$x", "${", "\u00e9\0", "1-99999999999999999999999", "1e99",
    [], ["a"], [["a"]], [None], [5], [{}], [{"name": ["a"]}], {}, {"a": 1}, {"name": [1]},
)  # fmt: skip


def with_each(value: Any, odd: Any) -> Iterator[Any]:
    """Yield ``value`` with each part of it replaced by ``odd``."""
    yield odd
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in pairs:
        for other in with_each(part, odd):
            made = value.copy()
            made[name] = other
            yield made


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
@pytest.mark.parametrize("manifest", [POD, JOB, LIST, SET], ids=["Pod", "CronJob", "List", "StatefulSet"])
def test_odd_manifest_is_translated_or_refused(manifest, odd):
    for each in with_each(manifest, odd):
        try:
            pods.of_documents([each])
        except ValueError as exc:
            assert str(exc)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
def test_odd_compose_file_is_translated_or_refused(odd):
    for each in with_each(PROJECT, odd):
        if not isinstance(each, dict):
            continue  # which the command refuses
        try:
            compose.of_document(each, {"x": "1"}, lambda name: "A=b\n", "project")
        except ValueError as exc:
            assert str(exc)
