# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common.image_reference import Reference, join

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "reference", "repo", "version"),
    [
        ("busybox", Reference(None, "busybox"), "busybox", "latest"),
        ("busybox:1.36", Reference(None, "busybox", "1.36"), "busybox", "1.36"),
        ("library/busybox", Reference(None, "library/busybox"), "library/busybox", "latest"),
        ("quay.io/a/b:c", Reference("quay.io", "a/b", "c"), "quay.io/a/b", "c"),
        ("localhost/a", Reference("localhost", "a"), "localhost/a", "latest"),
        ("host:5000/a", Reference("host:5000", "a"), "host:5000/a", "latest"),
        ("[::1]:5000/a", Reference("[::1]:5000", "a"), "[::1]:5000/a", "latest"),
        ("a__b/c-d.e", Reference(None, "a__b/c-d.e"), "a__b/c-d.e", "latest"),
        (f"a@{DIGEST}", Reference(None, "a", None, DIGEST), "a", DIGEST),
        (f"q.io/a:t@{DIGEST}", Reference("q.io", "a", "t", DIGEST), "q.io/a", DIGEST),
    ],
)
def test_names(text, reference, repo, version):
    assert Reference.parse(text) == reference
    assert (reference.repo, reference.version) == (repo, version)
    assert str(reference) == join(repo, version)
    assert Reference.parse(str(reference)).repo == repo


@pytest.mark.parametrize(
    ("names", "origin"),
    [
        (["a", "a:1", "library/a", "docker.io/a", "docker.io/library/a:2", "index.docker.io/a"], "docker.io/library/a"),
        (["b/a", "docker.io/b/a", "index.docker.io/b/a"], "docker.io/b/a"),
        (["localhost/a"], "localhost/a"),
        (["q.io/a", f"q.io/a:1@{DIGEST}"], "q.io/a"),
        (["q.io/library/a"], "q.io/library/a"),
    ],
)
def test_names_of_one_origin(names, origin):
    assert {Reference.parse(name).origin for name in names} == {origin}


@pytest.mark.parametrize(
    "text",
    ["", "Busy", "a/B", "a b", "a:", ":x", "a@sha256:12", "a//b", "/a", "a/", "Q/a", "x" * 256, "0" * 64, DIGEST],
)
def test_what_is_no_name(text):
    with pytest.raises(ValueError, match="not the name of an image"):
        Reference.parse(text)


def test_a_registry_for_names_without_one():
    assert str(Reference.parse("a/b:c").at("q.io:1")) == "q.io:1/a/b:c"
    assert str(Reference.parse("x.io/a").at("q.io")) == "x.io/a:latest"
    assert Reference.parse("a").at(None) == Reference.parse("a").at("") == Reference(None, "a")
