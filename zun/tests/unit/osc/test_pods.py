# SPDX-License-Identifier: Apache-2.0
"""Pods of Kubernetes as capsules: what is kept, what is listed by its path, and what is no Pod."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.api.microversion import v1
from zun.api.schemas import capsules as schemas
from zun.osc.pods import amount, is_manifest, of_documents, translated
from zun.osc.translation import RANGES

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def pod(*containers, metadata=None, **spec):
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", **(metadata or {})},
        "spec": {"containers": list(containers) or [{"name": "web", "image": "nginx"}], **spec},
    }  # fmt: skip


def one(**members):
    return pod({"name": "web", "image": "nginx", **members})


def equal(cpu, memory):
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


def capsule_of(manifest):
    """The capsule of a Pod of which nothing is lost. The service accepts its template."""
    template, lost = translated(manifest)
    assert lost == ()
    schemas.CREATE({"template": template})
    return template["spec"]


def test_pod_of_everything_that_a_capsule_has():
    first = {
        "name": "web", "image": "nginx:1", "command": ["/bin/sh", "-c"], "args": ["exec nginx"], "workingDir": "/srv",
        "imagePullPolicy": "IfNotPresent", "env": [{"name": "LEVEL", "value": "info"}, {"name": "EMPTY"}],
        "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 53, "protocol": "udp"}],
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"}, {"name": "kept", "mountPath": "/kept", "readOnly": True},
        ],
        "stdin": True, "tty": True, "resources": equal("500m", "64Mi"),
    }  # fmt: skip
    manifest = pod(
        first, initContainers=[{"image": "busybox"}], restartPolicy="OnFailure",
        volumes=[
            {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "kept", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "unused", "emptyDir": {"sizeLimit": "1Mi"}},
        ],
        metadata={"labels": {"app": "web"}, "annotations": {"a": "b", APPLIED: "x"}},
    )  # fmt: skip
    template, lost = translated(manifest)
    schemas.CREATE({"template": template})
    assert lost == () and template["metadata"] == {"name": "web", "labels": {"app": "web"}, "annotations": {"a": "b"}}
    assert template["spec"] == {
        "initContainers": [{"image": "busybox"}],
        "containers": [
            {
                "name": "web", "image": "nginx:1", "command": ["/bin/sh", "-c"], "args": ["exec nginx"],
                "workDir": "/srv", "imagePullPolicy": "IfNotPresent", "env": {"LEVEL": "info", "EMPTY": ""},
                "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}],
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data"}, {"name": "kept", "mountPath": "/kept", "readOnly": True},
                ],
                "stdin": True, "tty": True, "resources": {"requests": {"cpu": 0.5, "memory": 64}},
            }
        ],
        "restartPolicy": "OnFailure",
        "volumes": [{"name": "data", "local": {"size": "1024M"}}, {"name": "kept", "volume": {"name": "claim"}}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("containers", "inits", "policy"),
    [
        pytest.param([equal("2", "1Gi")], [], "dedicated", id="whole"),
        pytest.param([equal(2, "1Gi"), equal("1000m", "64Mi")], [], "dedicated", id="1000m-is-whole"),
        pytest.param([{"limits": {"cpu": 1, "memory": "1Gi"}}], [], "dedicated", id="requests-follow-limits"),
        pytest.param([equal("1500m", "1Gi")], [], None, id="a-part-of-a-cpu"),
        pytest.param([{"requests": {"cpu": 2, "memory": "1Gi"}}], [], None, id="without-limits"),
        pytest.param([{**equal(2, "1Gi"), "limits": {"cpu": 2}}], [], None, id="without-limit-of-memory"),
        pytest.param([equal(2, "1Gi")], [{"requests": {"cpu": 1}}], None, id="init-container-without-limits"),
        pytest.param([equal(2, "1Gi"), {}], [], None, id="beside-one-of-best-effort"),
    ],
)
def test_cpus_are_dedicated_as_by_the_static_policy(containers, inits, policy):
    made = [{"image": "nginx", "resources": each} for each in containers]
    spec = capsule_of(pod(*made, initContainers=[{"image": "nginx", "resources": each} for each in inits]))
    assert spec.get("placement", {}).get("cpu_policy") == policy


def test_amount_that_is_null_is_not_set():
    resources = {"requests": {"cpu": None, "memory": "1Gi"}, "limits": {"cpu": 2, "memory": "1Gi"}}
    spec = capsule_of(one(resources=resources))
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": 2, "memory": 1024}
    assert spec["placement"] == {"cpu_policy": "dedicated"}


def test_container_beside_one_with_a_part_of_a_cpu_has_own_cpus():
    parts = [{"image": "nginx", "resources": equal("500m", "1Gi")}, {"image": "nginx", "resources": equal(1, "1Gi")}]
    template, lost = translated(pod(*parts))
    assert "placement" not in template["spec"]
    assert [each.get("placement") for each in template["spec"]["containers"]] == [None, {"cpu_policy": "dedicated"}]
    assert lost == ()


def test_init_container_that_alone_would_have_own_cpus_is_told():
    init = {"image": "nginx", "resources": equal(1, "1Gi")}
    template, lost = translated(pod({"image": "nginx", "resources": equal("500m", "1Gi")}, initContainers=[init]))
    assert "placement" not in template["spec"] and "placement" not in template["spec"]["initContainers"][0]
    assert lost == (
        "spec.initContainers[0].resources: its CPUs are not its own: all containers must request whole ones",
    )


@pytest.mark.parametrize(
    ("manifest", "lost"),
    [
        (one(livenessProbe={"grpc": {"port": 80}}), "spec.containers[0].livenessProbe.grpc: ask with exec, httpGet"),
        (
            one(livenessProbe={"tcpSocket": {"port": 80}, "timeoutSeconds": 90}),
            "spec.containers[0].livenessProbe.timeoutSeconds: it is 90, and a capsule has 60 at most",
        ),
        (pod(terminationGracePeriodSeconds=4000), "spec.terminationGracePeriodSeconds: it is 4000, and a capsule has"),
        (
            one(livenessProbe={"tcpSocket": {"port": 80}, "terminationGracePeriodSeconds": 5}),
            "spec.containers[0].livenessProbe.terminationGracePeriodSeconds: that of the whole Pod",
        ),
        (one(securityContext={"runAsUser": 1}), "spec.containers[0].securityContext: a capsule has no security"),
        (one(envFrom=[{"configMapRef": {"name": "x"}}]), "spec.containers[0].envFrom: there are no ConfigMaps"),
        (
            one(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x"}}}]),
            "spec.containers[0].env[0].valueFrom: there are no ConfigMaps",
        ),
        (
            one(env=[{"name": "A", "value": "1"}], args=["--a=$(A)", "$$(A)", "$(B)"]),
            "spec.containers[0].args[0]: $(A) is not replaced",
        ),
        (one(ports=[{"containerPort": 80, "hostPort": 80}]), "spec.containers[0].ports[0].hostPort: the host chooses"),
        (
            one(resources={"limits": {"nvidia.com/gpu": 1}}),
            "spec.containers[0].resources.limits.nvidia.com/gpu: ask for devices by alias",
        ),
        (
            one(resources={"requests": {"cpu": 1}, "limits": {"cpu": 2}}),
            "spec.containers[0].resources.limits.cpu: a container gets the CPUs that it requests",
        ),
        (pod(hostNetwork=True), "spec.hostNetwork: a capsule is apart from its host"),
        (pod(nodeSelector={"disk": "ssd"}), "spec.nodeSelector: name traits or aggregates"),
        (pod(volumes=[{"name": "a", "hostPath": {"path": "/"}}]), "spec.volumes[0].hostPath: no such kind of volume"),
        (pod(volumes=[{"name": "a", "configMap": {"name": "x"}}]), "spec.volumes[0].configMap: there are"),
        (pod(volumes=[{"name": "a", "emptyDir": {}}]), "spec.volumes[0].emptyDir: it has no sizeLimit: it gets 1024"),
        (pod(metadata={"namespace": "prod"}), "metadata.namespace: projects take the place of namespaces"),
        (
            one(restartPolicyRules=[{"action": "Restart"}]),
            "spec.containers[0].restartPolicyRules: a container has one policy",
        ),
    ],
)
def test_what_a_capsule_does_not_keep_is_listed_by_its_path(manifest, lost):
    template, found = translated(manifest)
    assert len(found) == 1 and found[0].startswith(lost), found
    schemas.CREATE({"template": template})


def test_probes_sidecars_and_empty_volumes_are_kept():
    manifest = pod(
        {
            "name": "web", "image": "nginx", "restartPolicy": "Never",
            "ports": [{"name": "http", "containerPort": 8080}],
            "livenessProbe": {"httpGet": {"port": "http", "path": "/ok", "scheme": "HTTP"}, "periodSeconds": 5},
            "readinessProbe": {"exec": {"command": ["true"]}, "initialDelaySeconds": 0, "timeoutSeconds": 0},
            "volumeMounts": [{"name": "fast", "mountPath": "/fast"}],
        },
        initContainers=[
            {"name": "proxy", "image": "proxy", "restartPolicy": "Always", "startupProbe": {"tcpSocket": {"port": 9}}}
        ],
        terminationGracePeriodSeconds=5,
        volumes=[{"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}],
    )  # fmt: skip
    spec = capsule_of(manifest)
    (web,), (proxy,) = spec["containers"], spec["initContainers"]
    assert web["restartPolicy"] == "Never" and proxy["restartPolicy"] == "Always"
    assert web["livenessProbe"] == {
        "httpGet": {"port": 8080, "path": "/ok", "scheme": "HTTP"}, "periodSeconds": 5
    }  # fmt: skip
    assert web["readinessProbe"] == {"exec": {"command": ["true"]}}  # 0 is the default, as in Kubernetes
    assert proxy["startupProbe"] == {"tcpSocket": {"port": 9}}
    assert spec["terminationGracePeriodSeconds"] == 5
    assert spec["volumes"] == [{"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "64M"}}]


def test_volume_of_one_letter_gets_a_longer_name():
    container = {"image": "nginx", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    spec = capsule_of(pod(container, volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]))
    assert spec["volumes"] == [{"name": "v-volume", "local": {"size": "1M"}}]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "v-volume", "mountPath": "/v"}]


def test_what_a_cluster_writes_into_each_pod_is_no_loss():
    manifest = pod(
        {
            "name": "web", "image": "nginx", "resources": {}, "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
            "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                              "readOnly": True}],
        },
        dnsPolicy="ClusterFirst", enableServiceLinks=True, nodeName="n1", preemptionPolicy="PreemptLowerPriority",
        priority=0, restartPolicy="Always", schedulerName="default-scheduler", securityContext={},
        serviceAccount="default", serviceAccountName="default", terminationGracePeriodSeconds=30,
        tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        volumes=[{"name": "kube-api-access-x", "projected": {"sources": []}}],
        metadata={"namespace": "default", "uid": "1", "resourceVersion": "2", "creationTimestamp": "now"},
    )  # fmt: skip
    assert "volumes" not in capsule_of({**manifest, "status": {"phase": "Running"}})


def test_pod_of_a_workload_is_taken_and_the_rest_is_told():
    containers = [{"image": "nginx", "lifecycle": {"preStop": {}}}]
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}}
    made, lost = translated(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
         "spec": {"replicas": 3, "selector": {}, "template": template}}
    )  # fmt: skip
    assert made["metadata"] == {"name": "web", "labels": {"app": "a"}}
    assert lost == (
        "kind: of a Deployment its Pod is created once",
        "spec.replicas: a capsule is one",
        "spec.template.spec.containers[0].lifecycle: a capsule has no hooks",
    )


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"apiVersion": "v1", "kind": "Service"}, "kind: 'Service' has no containers"),
        (pod() | {"spec": {"containers": []}}, "spec.containers: a Pod has one at least"),
        (pod() | {"spec": {"containers": "a"}}, "spec.containers: it must be a list of objects"),
        (pod({"name": "web"}), "spec.containers[0].image: it is missing"),
        (one(resources={"requests": {"cpu": "two"}}), "spec.containers[0].resources: cpu: 'two' is no quantity"),
        (one(volumeMounts=[{"mountPath": "/a"}]), "spec.containers[0].volumeMounts[0].name: it is missing"),
        (pod(volumes=[{"emptyDir": {}}]), "spec.volumes[0].name: it is missing"),
        (one(livenessProbe={"httpGet": {"port": "web"}}), "spec.containers[0].livenessProbe.httpGet.port must be"),
        (
            one(livenessProbe={"timeoutSeconds": "5"}),
            "spec.containers[0].livenessProbe.timeoutSeconds must be a whole number from 1 to 60, got '5'",
        ),
        (
            one(startupProbe={"failureThreshold": -1}),
            "spec.containers[0].startupProbe.failureThreshold must be a whole number from 1 to 10000, got -1",
        ),
        (
            one(livenessProbe={"tcpSocket": {"port": 0}}),
            "spec.containers[0].livenessProbe.tcpSocket.port must be a number from 1 to 65535 or the name of a port of "
            "the container, got 0",
        ),
        (
            one(ports=[{"containerPort": 70000}]),
            "spec.containers[0].ports[0].containerPort must be a whole number from 1 to 65535, got 70000",
        ),
        (
            pod(terminationGracePeriodSeconds=-1),
            "spec.terminationGracePeriodSeconds must be a whole number from 0 to 3600, got -1",
        ),
        (
            pod(volumes=[{"name": "data", "emptyDir": {"sizeLimit": "-1Gi"}}]),
            "spec.volumes[0].emptyDir.sizeLimit must be more than 0, got '-1Gi'",
        ),
        (pod(volumes=[{"name": "data", "emptyDir": "a"}]), "spec.volumes[0].emptyDir: it must be a mapping"),
        (pod() | {"metadata": {"annotations": ["a"]}}, "metadata.annotations: it must be a mapping"),
    ],
)
def test_what_is_no_pod_is_refused_with_the_path(manifest, words):
    with pytest.raises(ValueError, match=words.replace("[", r"\[")):
        translated(manifest)


def test_client_knows_the_ranges_of_the_service():
    spec = schemas.CREATE.described(v1(51))["properties"]["template"]["properties"]["spec"]["properties"]
    probe = spec["containers"]["items"]["properties"]["livenessProbe"]["properties"]
    every = {**spec, **probe, **probe["tcpSocket"]["properties"]}
    assert {name: (every[name]["minimum"], every[name]["maximum"]) for name in RANGES} == RANGES


def test_variable_without_a_value_is_empty():
    template, lost = translated(one(env=[{"name": "EMPTY", "value": None}, {"name": "ZERO", "value": 0}]))
    assert (template["spec"]["containers"][0]["env"], lost) == ({"EMPTY": "", "ZERO": "0"}, ())


SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"}}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.mark.parametrize(
    "documents",
    [[SERVICE, pod(), CONFIG], [{"apiVersion": "v1", "kind": "List", "items": [SERVICE, pod()]}, CONFIG]],
    ids=["documents", "list"],
)
def test_objects_beside_the_pod_are_listed(documents):
    template, lost = of_documents(documents)
    assert template == translated(pod()).template
    assert [each.partition(": ")[0] for each in lost] == ["Service/front", "ConfigMap"]


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ([pod(), {**pod(), "kind": "Deployment"}], "it has 2 Pods, Pod/web, Deployment/web. Give each a file"),
        ([SERVICE, CONFIG], "kind: Service, ConfigMap has no containers, a Pod has"),
        ([{"apiVersion": "v1", "kind": "List"}], "kind: an empty list has no containers"),
        ([pod(), {"a": "b"}], "kind: an object of Kubernetes has one"),
        ([pod(), "text"], "kind: an object of Kubernetes has one"),
        ([{"apiVersion": "v1", "kind": "PodList", "items": {"a": 1}}], "items: it must be a list of objects"),
    ],
)
def test_file_without_one_pod_is_refused(documents, words):
    with pytest.raises(ValueError) as caught:
        of_documents(documents)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize("metadata", [None, {"name": None}, {"labels": {"a": "b"}}], ids=["none", "null", "other"])
def test_pod_of_a_workload_has_the_name_of_the_workload(metadata):
    template = {"metadata": metadata, "spec": pod()["spec"]}
    job = {"kind": "CronJob", "metadata": {"name": "night"}, "spec": {"jobTemplate": {"spec": {"template": template}}}}
    made, lost = translated(job)
    assert made["metadata"]["name"] == "night" and lost == ("kind: of a CronJob its Pod is created once, now",)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (one(volumeMounts=[{"name": "data", "mountPath": "/d"}]), "spec.containers[0].volumeMounts[0].name: there is"),
        (pod(volumes=[{"name": "data"}, {"name": "data"}]), "spec.volumes[1].name: data is given twice"),
        (one(command="sleep 5"), "spec.containers[0].command: it must be a list"),
        (one(args=5), "spec.containers[0].args: it must be a list"),
        (one(args=["a", True]), "spec.containers[0].args[1]: true is not a text. Put it in quotes"),
        (one(env=[{"name": "A", "value": True}]), "spec.containers[0].env[0].value: true is not a text"),
        (one(env=[{"name": "A", "value": {"b": "ä"}}]), 'spec.containers[0].env[0].value: {"b": "ä"} is not a text'),
        (pod(metadata={"labels": {"version": 1.10}}), "metadata.labels.version: 1.1 is not a text"),
        (pod(metadata={"labels": ["a"]}), "metadata.labels: it must be a mapping"),
    ],
)  # fmt: skip
def test_what_kubectl_refuses_is_refused_with_the_path(manifest, words):
    with pytest.raises(ValueError) as caught:
        translated(manifest)
    assert str(caught.value).startswith(words)


def test_claims_of_a_stateful_set_are_known_volumes():
    spec = one(volumeMounts=[{"name": "data", "mountPath": "/d"}])["spec"]
    workload = {"template": {"spec": spec}, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    made, lost = translated({"kind": "StatefulSet", "spec": workload})
    assert "volumeMounts" not in made["spec"]["containers"][0]
    assert lost == ("kind: of a StatefulSet its Pod is created once, without claims of volumes",)


def test_unknown_medium_and_huge_pages_are_listed():
    manifest = one(resources={"limits": {"hugepages-2Mi": "64Mi"}}, volumeMounts=[{"name": "data", "mountPath": "/d"}])
    manifest["spec"]["volumes"] = [{"name": "data", "emptyDir": {"medium": "HugePages", "sizeLimit": "1Mi"}}]
    made, lost = translated(manifest)
    assert made["spec"]["volumes"] == [{"name": "data", "local": {"size": "1M"}}]
    assert lost[0].startswith("spec.volumes[0].emptyDir.medium: HugePages is not known")
    assert lost[1].startswith("spec.containers[0].resources.limits.hugepages-2Mi: ask for pages of memory with mem")


def test_manifest_is_told_from_a_template():
    assert is_manifest(pod()) and not is_manifest({"kind": "capsule"}) and not is_manifest(["apiVersion"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", "2"), (2, "2"), ("500m", "0.5"), (0.25, "0.25"), ("1Gi", 1 << 30), ("128M", 128_000_000), ("1e3", 1000),
        ("1.5Ki", 1536), ("2E", 2 * 10**18), ("+1k", 1000),
    ],
)  # fmt: skip
def test_quantities(text, value):
    assert amount(text, "here") == Fraction(value)


@given(st.integers(1, 10**15))
def test_memory_is_never_rounded_down(count):
    memory = capsule_of(one(resources={"requests": {"memory": str(count)}}))["containers"][0]["resources"]["requests"]
    assert (memory["memory"] - 1) * 2**20 < count <= memory["memory"] * 2**20
