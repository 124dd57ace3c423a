# SPDX-License-Identifier: Apache-2.0
"""Compose files as capsules: services as containers, what is lost by its path, and what is no compose file."""

import pytest
import yaml

from zun.api.schemas import capsules as schemas
from zun.osc.compose import interpolated, of_document, translated, variables_of


def one(**members):
    return {"services": {"web": {"image": "nginx", **members}}}


def data(volume, mount):
    """A file with one volume, and its mount."""
    return {**one(volumes=[mount]), "volumes": {"data": volume}}


def capsule_of(document):
    """The ``spec`` of a compose file of which nothing is lost. The service accepts its template."""
    template, lost = translated(document, "project")
    schemas.CREATE({"template": template})
    assert lost == ()
    return template["spec"]


def test_service_of_everything_that_a_capsule_has():
    document = {
        "name": "shop", "version": "3", "volumes": {"data": None, "kept": {"name": "real"}},
        "x-placement": {"cpu_policy": "dedicated"},
        **one(
            entrypoint=["/bin/sh", "-c"], command="exec nginx -g 'daemon off;'", working_dir="/srv", tty=True,
            environment={"LEVEL": "info", "COUNT": 3, "ON": True}, expose=["91"],
            ports=["80", "53-54/udp", {"target": 90}],
            volumes=["data:/data", "kept:/kept:ro", {"type": "volume", "source": "data", "target": "/again"}],
            stdin_open=True, restart="unless-stopped", pull_policy="missing", container_name="my-web",
            deploy={"replicas": 1, "resources": {"limits": {"cpus": "2", "memory": "1.5g"}}},
        ),
    }  # fmt: skip
    template, lost = translated(document, "folder")
    schemas.CREATE({"template": template})
    assert lost == () and template["metadata"] == {"name": "shop"}
    tcp = [{"containerPort": port, "protocol": "TCP"} for port in (80, 90)]
    assert template["spec"] == {
        "containers": [
            {
                "name": "web", "image": "nginx", "command": ["/bin/sh", "-c"],
                "args": ["exec", "nginx", "-g", "daemon off;"], "workDir": "/srv", "tty": True, "stdin": True,
                "env": {"LEVEL": "info", "COUNT": "3", "ON": "true"}, "imagePullPolicy": "IfNotPresent",
                "ports": [tcp[0], *({"containerPort": port, "protocol": "UDP"} for port in (53, 54)), *tcp[1:]],
                "resources": {"requests": {"cpu": 2, "memory": 1536}},
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data"}, {"name": "kept", "mountPath": "/kept", "readOnly": True},
                    {"name": "data", "mountPath": "/again"},
                ],
            }
        ],
        "restartPolicy": "Always",
        "volumes": [{"name": "data", "volume": {"name": "data"}}, {"name": "kept", "volume": {"name": "real"}}],
        "placement": {"cpu_policy": "dedicated"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("members", "requests"),
    [
        ({"cpus": 1.5, "mem_limit": "512m"}, {"cpu": 1.5, "memory": 512}),
        ({"mem_limit": 1}, {"memory": 1}),
        ({"deploy": {"resources": {"reservations": {"cpus": "0.5", "memory": "1025K"}}}}, {"cpu": 0.5, "memory": 2}),
        (
            {"deploy": {"resources": {"limits": {"memory": "2G"}, "reservations": {"cpus": 1, "memory": "1G"}}}},
            {"cpu": 1, "memory": 2048},
        ),
    ],
)
def test_limits_are_claimed_else_reservations(members, requests):
    (container,) = capsule_of(one(**members))["containers"]
    assert container["resources"]["requests"] == requests


def test_services_are_started_after_those_that_they_depend_on():
    services = {
        "web": {"image": "nginx", "depends_on": {"api": {"condition": "service_healthy"}}},
        "api": {"image": "nginx", "depends_on": ["db"], "restart": "always"},
        "db": {"image": "nginx"},
    }
    template, lost = translated({"services": services}, "project")
    assert [each["name"] for each in template["spec"]["containers"]] == ["db", "api", "web"]
    assert lost == (
        "services: they reach each other at 127.0.0.1, not by their names",
        "services.web.depends_on.api: it is started before, and not waited for",
    )
    policies = {each["name"]: each["restartPolicy"] for each in template["spec"]["containers"]}
    assert policies == {"db": "Never", "api": "Always", "web": "Never"} and "restartPolicy" not in template["spec"]


@pytest.mark.parametrize(
    ("check", "probe"),
    [
        ({"test": "curl -f localhost"}, {"exec": {"command": ["/bin/sh", "-c", "curl -f localhost"]}}),
        ({"test": ["CMD-SHELL", "true"]}, {"exec": {"command": ["/bin/sh", "-c", "true"]}}),
        (
            {"test": ["CMD", "pg_isready"], "interval": "1m30s", "timeout": "1500ms", "retries": 5,
             "start_period": "2m"},
            {"exec": {"command": ["pg_isready"]}, "periodSeconds": 90, "timeoutSeconds": 2, "failureThreshold": 5,
             "initialDelaySeconds": 120},
        ),
        ({"test": ["CMD", "true"], "interval": "1h", "timeout": "0s", "retries": "4"},
         {"exec": {"command": ["true"]}, "periodSeconds": 3600, "failureThreshold": 4}),
        ({"test": ["NONE"]}, None),
        ({"test": "true", "disable": True}, None),
    ],
)  # fmt: skip
def test_health_checks_are_readiness_probes(check, probe):
    (container,) = capsule_of(one(healthcheck=check))["containers"]
    usual = {"periodSeconds": 30, "timeoutSeconds": 30}
    assert container.get("readinessProbe") == (probe and {**usual, **probe})


def test_bare_no_is_the_policy_that_yaml_reads_as_false():
    template, _ = translated(yaml.safe_load("services: {web: {image: demo, restart: no}}"), "project")
    assert template["spec"]["restartPolicy"] == "Never"


def test_longest_time_to_end_is_that_of_the_capsule():
    services = {name: {"image": "nginx", "stop_grace_period": text} for name, text in (("web", "1m"), ("log", "5.5s"))}
    template, _ = translated({"services": services}, "project")
    assert template["spec"]["terminationGracePeriodSeconds"] == 60


@pytest.mark.parametrize(
    ("document", "lost"),
    [
        (one(healthcheck={"test": "true", "start_interval": "1s"}), "services.web.healthcheck.start_interval: a caps"),
        (
            one(healthcheck={"test": "true", "timeout": "2m"}),
            "services.web.healthcheck.timeout: it is 120, and a capsule has 60 at most",
        ),
        (one(stop_grace_period="2h"), "services.web.stop_grace_period: it is 7200, and a capsule has 3600 at most"),
        (one(networks=["front"]), "services.web.networks: all services share"),
        (one(ports=["8080:80"]), "services.web.ports[0]: the host chooses the port"),
        (one(ports=[{"target": 80, "published": "8080"}]), "services.web.ports[0]: the host chooses the port"),
        (one(volumes=["./src:/src"]), "services.web.volumes[0]: only named volumes"),
        (one(volumes=["/only"]), "services.web.volumes[0]: only named volumes"),
        (one(volumes=[{"type": "tmpfs", "target": "/t"}]), "services.web.volumes[0]: only named volumes"),
        (one(environment=["HOME"]), "services.web.environment: HOME: its value would come from this shell"),
        (one(deploy={"replicas": 3}), "services.web.deploy.replicas: a capsule has no such member"),
        (
            one(deploy={"resources": {"reservations": {"devices": [{"capabilities": ["gpu"]}]}}}),
            "services.web.deploy.resources.reservations.devices: ask for devices by alias",
        ),
        ({**one(), "networks": {"front": {}}}, "networks: all services share"),
        (one(build=".", image="nginx"), "services.web.build: an image is not built here"),
        (one(entrypoint=""), "services.web.entrypoint: it is empty, and that of the image is taken"),
        (one(command=[]), "services.web.command: it is empty, and that of the image is taken"),
        (one(volumes=["C:\\src:/src"]), "services.web.volumes[0]: only named volumes"),
        (data({}, "data:/d:ro,nocopy"), "services.web.volumes[0]: a mount has no option nocopy"),
        (
            data({}, {"type": "volume", "source": "data", "target": "/d", "volume": {"subpath": "a"}}),
            "services.web.volumes[0].volume.subpath: a capsule has no such member",
        ),
        (data({"driver_opts": {"type": "nfs"}}, "data:/d"), "volumes.data.driver_opts: a capsule has no such member"),
        (one(pull_policy="build"), "services.web.pull_policy: build is not known"),
    ],
)
def test_what_a_capsule_does_not_keep_is_listed_by_its_path(document, lost):
    template, found = translated(document, "project")
    assert len(found) == 1 and found[0].startswith(lost), found
    schemas.CREATE({"template": template})


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "services: a compose file has one at least"),
        ({"services": [{"image": "nginx"}]}, "services: it must be a mapping"),
        (one(profiles=["debug"]), "services: all have profiles, and nothing is started"),
        (one(environment="A=b"), "services.web.environment: it must be a mapping, or a list of NAME=value"),
        (one(environment=[{"A": "b"}]), r"services.web.environment\[0\]: it must be a text"),
        (one(environment={"A": ["b"]}), "services.web.environment: A: it must be a text"),
        (one(command=["a", None]), r"services.web.command\[1\]: it must be a text"),
        (one(tty="maybe"), "services.web.tty: 'maybe' is neither true nor false"),
        (one(env_file="none.env"), "services.web.env_file: there is no file none.env"),
        (one(env_file=["set.env", 5]), r"services.web.env_file\[1\]: it must be the name of a file"),
        (one(cpus="1e999999999"), "services.web: cpus must be a number"),
        (one(depends_on={"two": {"condition": "service_started"}}), "services.web.depends_on: there is no service two"),
        (one(image=None), "services.web.image: it is missing"),
        ({"services": {"web": {"build": "."}}}, "services.web.image: an image is not built here"),
        (one(cpuset="0-3"), "services.web.cpuset: it names CPUs of a host.*x-placement"),
        (one(ports=["http"]), r"services.web.ports\[0\]: 'http' is no port"),
        (one(mem_limit="much"), "services.web: memory must be a size"),
        (one(cpus="many"), "services.web: cpus must be a number"),
        (one(volumes=["data:/data"]), r"services.web.volumes\[0\]: there is no volume data"),
        (one(depends_on=["web"]), "services.web.depends_on: it depends on itself"),
        (one(depends_on=["db"]), "services.web.depends_on: there is no service db"),
        (one(ports=80), "services.web.ports: it must be a list"),
        (one(ports=["90-80"]), r"services.web.ports\[0\]: '90-80' is no range of 1 to 1000 ports"),
        (one(ports=["1-60000"]), r"services.web.ports\[0\]: '1-60000' is no range"),
        (one(volumes="data:/data"), "services.web.volumes: it must be a list"),
        (one(command=5), "services.web.command: it must be a list"),
        (one(healthcheck={"test": 5}), "services.web.healthcheck.test: it must be a list"),
        (one(depends_on="web2"), "services.web.depends_on: it must be a list"),
        ({"services": {"web": [1]}}, "services.web: it must be a mapping"),
        (one(stop_grace_period="soon"), "services.web.stop_grace_period: 'soon' is no duration"),
        (one(healthcheck={"test": ["true"]}), "services.web.healthcheck.test: it must be"),
        (one(restart="maybe"), "services.web.restart: 'maybe' is none of"),
        (one(cpus="1/0"), "services.web: cpus must be a number"),
        (one(command="sh -c 'a"), "services.web.command: no closing quotation in"),
        (
            one(healthcheck={"test": "true", "retries": "x"}),
            "services.web.healthcheck.retries must be a whole number from 1 to 10000, got 'x'",
        ),
        (one(ports=["70000"]), r"services.web.ports\[0\] must be a whole number from 1 to 65535, got 70000"),
        (one(cpus=-1), "services.web: cpus must be more than 0, got -1"),
    ],
)
def test_what_is_no_compose_file_is_refused_with_the_path(document, words):
    with pytest.raises(ValueError, match=words):
        translated(document, "project", FILES.__getitem__ if "env_file" not in str(document) else read)


def read(name):
    try:
        return FILES[name]
    except KeyError:
        raise FileNotFoundError(name) from None


FILES = {"set.env": "A=file\nB=file\n", "more.env": "B=more\n"}


def test_files_of_variables_are_read_before_the_environment():
    files = ["set.env", {"path": "more.env"}, {"path": "none.env", "required": False}]
    template, lost = translated(one(env_file=files, environment=["C=own"]), "project", read)
    assert (template["spec"]["containers"][0]["env"], lost) == ({"A": "file", "B": "more", "C": "own"}, ())
    (container,) = translated(one(env_file="set.env", environment={"A": "own"}), "project", read).template["spec"][
        "containers"
    ]
    assert container["env"] == {"A": "own", "B": "file"}


def test_files_of_variables_can_name_those_of_the_shell():
    text = "URL=http://$HOST/\nHOST\n"
    template, lost = of_document(one(env_file="set.env"), {"HOST": "shell"}, lambda name: text, "project")
    assert (template["spec"]["containers"][0]["env"], lost) == ({"URL": "http://shell/", "HOST": "shell"}, ())


def test_services_of_profiles_and_extensions_are_left_out_without_a_word():
    document = {**one(**{"x-more": 1, "depends_on": {"debug": {"required": False}}}), "x-common": {"a": 1}}
    document["services"]["debug"] = {"image": "nginx", "profiles": ["debug"]}
    (container,) = capsule_of(document)["containers"]
    assert container["name"] == "web"


def test_number_is_the_name_of_a_service():
    template, _ = translated({"services": {10: {"image": "nginx"}}}, "project")
    assert template["spec"]["containers"][0]["name"] == "10"


@pytest.mark.parametrize(("text", "value"), [("false", False), ("no", False), ("", False), ("true", True)])
def test_booleans_may_be_texts(text, value):
    (container,) = capsule_of(one(tty=text))["containers"]
    assert container.get("tty", False) == value


@pytest.mark.parametrize(("folder", "name"), [("My Shop", "myshop"), ("_a.b-c", "ab-c")])
def test_project_is_called_as_its_folder(folder, name):
    assert translated(one(), folder).template["metadata"] == {"name": name}


def test_folder_without_letters_names_no_project():
    with pytest.raises(ValueError, match="name: '/', the folder, has none for a capsule"):
        translated(one(), "/")


def test_variable_that_is_not_set_is_listed_once():
    document = one(environment=["A=$TAG", "B=${TAG}", "C=${SET:-$OTHER}", "D=${SET:+$TAG}"], image="nginx:$TAG")
    template, lost = of_document(document, {"SET": "1"}, read, "project")
    assert template["spec"]["containers"][0]["env"] == {"A": "", "B": "", "C": "1", "D": ""}
    assert lost == ("services.web.image: the variable TAG is not set: its value is empty",)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("A=1\n# no\n\nexport B = 2\r\n", {"A": "1", "B": "2"}),
        ("A=a#b # c\nB=# c\nC=", {"A": "a#b", "B": "", "C": ""}),
        ("A='a $X' # c\nB=\"b $A\\n\\$5\"", {"A": "a $X", "B": "b a $X\n$5"}),
        ("A=\"two\nlines\"\nB=${A:+on}", {"A": "two\nlines", "B": "on"}),
        ("SHELL_HAS\nSHELL_HAS_NOT", {"SHELL_HAS": "it"}),
        ("A=${SHELL_HAS}", {"A": "it"}),
        ("SHELL_HAS=more\nA=$SHELL_HAS", {"SHELL_HAS": "more", "A": "it"}),
    ],
)
def test_variables_of_a_file(text, made):
    assert variables_of(text, ".env", {"SHELL_HAS": "it"}) == made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A=1\n=2", "line 2 is no NAME=value"),
        ("A=\"open", "line 1: the quote is not closed"),
        ("A=${B", "line 1: the brace of a variable is not closed|line 1: '.{B' is no variable"),
    ],
)
def test_what_is_no_file_of_variables_is_refused_with_the_line(text, words):
    with pytest.raises(ValueError, match=words):
        variables_of(text, ".env", {})


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("$TAG", "1"), ("${TAG}", "1"), ("a-${TAG:-2}", "a-1"), ("${NONE:-2}", "2"), ("${NONE-2}", "2"), ("$NONE", ""),
        ("${EMPTY:-2}", "2"), ("${EMPTY-2}", ""), ("${TAG:+on}", "on"), ("${NONE+on}", ""), ("$$TAG", "$TAG"),
        ("${TAG:?needed}", "1"), (5, 5), ("${NONE:-${EMPTY:-${TAG}}}!", "1!"), ("${NONE:-a}b}", "ab}"), ("{}", "{}"),
        ("${TAG:+${TAG}2}", "12"), ("${TAG:-${NONE:?it}}", "1"), ("${NONE:-$$5}", "$5"), ("a$TAG-b", "a1-b"),
    ],
)  # fmt: skip
def test_variables_are_replaced(text, made):
    document = {"services": {"web": [text]}}
    assert interpolated(document, {"TAG": "1", "EMPTY": ""}) == {"services": {"web": [made]}}


@pytest.mark.parametrize("text", ["${NONE:?name a tag}", "${NONE?name a tag}", "${EMPTY:?name a tag}"])
def test_variable_that_must_be_set_is_named(text):
    with pytest.raises(ValueError, match=r"web\[0\]: the variable \w+ is not set: name a tag"):
        interpolated({"web": [text]}, {"EMPTY": ""})


@pytest.mark.parametrize("text", ["$", "cost: $5", "${", "${}", "${1A}", "${A!}", "${A:-b", "${A:-${B}"])
def test_dollar_that_is_no_variable_is_refused(text):
    with pytest.raises(ValueError, match=r"web\[0\]: (.* is no variable. Write \$\$|the brace of a variable is not)"):
        interpolated({"web": [text]}, {})
