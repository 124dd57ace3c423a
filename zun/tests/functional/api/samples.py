# SPDX-License-Identifier: Apache-2.0
"""Sample answers of the scheduler and bodies of requests."""

RECORD = dict.fromkeys(("reason", "wanted", "hosts", "filters", "codes", "changes", "details", "details_left_out"))

TEMPLATE = {
    "capsuleVersion": "beta",
    "kind": "capsule",
    "metadata": {
        "name": "template",
        "labels": {"app": "web", "n": 1},
        "annotations": {"foo": {"bar": [1]}},
        "more": "is fine",
    },
    "availabilityZone": "nova",
    "restartPolicy": "Never",  # here it means nothing
    "spec": {
        "restartPolicy": "Always",
        "more": "is fine",
        "initContainers": [{"image": "busybox", "command": ["true"], "resources": {"requests": {"memory": 2048}}}],
        "containers": [
            {
                "image": "ubuntu",
                "name": "ignored",
                "command": ["/bin/bash"],
                "args": ["-c", "sleep 1000"],
                "imagePullPolicy": "IfNotPresent",
                "resources": {"requests": {"cpu": 1.5, "memory": 1024}},
                "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP", "name": "http"}],
                "env": {"ENV1": "/x"},
                "workDir": "/root",
                "volumeMounts": [{"name": "scratch", "mountPath": "/data1", "readOnly": "True"}],
                "stdin": True,
                "tty": "true",
            },
            {
                "image": "ubuntu",
                "resources": {"requests": {"cpu": "1", "memory": "512"}},
                "ports": [{"containerPort": "53", "protocol": "UDP"}],
                "volumeMounts": [
                    {"name": "scratch", "mountPath": "/data2"},
                    {"name": "shared", "mountPath": "/data3"},
                ],
            },
        ],
        "volumes": [
            {"name": "scratch", "local": {"size": "1500M"}},
            {"name": "shared", "volume": {"name": "data"}, "more": "is fine"},
        ],
    },
}
