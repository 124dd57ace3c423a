# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common.image_reference import Reference, canonical, domain_of, join, registry_domain, split

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
        ("[::1]/a:1", Reference("[::1]", "a", "1"), "[::1]/a", "1"),
        ("MyHost/app:1", Reference("MyHost", "app", "1"), "MyHost/app", "1"),
        ("LOCALHOST/a", Reference("LOCALHOST", "a"), "LOCALHOST/a", "latest"),
        ("myhost/app:1", Reference(None, "myhost/app", "1"), "myhost/app", "1"),
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
        (["b/a", "docker.io/b/a", "index.docker.io/b/a", "registry-1.docker.io/b/a"], "docker.io/b/a"),
        (["registry-1.docker.io/a"], "docker.io/a"),  # Docker adds no library/ here
        (["Quay.io/a", "quay.io:443/a"], "quay.io/a"),
        (["MyHost/a", "MyHost:443/a", "myhost:443/a"], "myhost/a"),
        (["myhost/a"], "docker.io/myhost/a"),
        (["localhost/a"], "localhost/a"),
        (["q.io/a", f"q.io/a:1@{DIGEST}"], "q.io/a"),
        (["q.io/library/a"], "q.io/library/a"),
    ],
)
def test_names_of_one_origin(names, origin):
    assert {Reference.parse(name).origin for name in names} == {origin}


@pytest.mark.parametrize(
    "text",
    ["", "Busy", "a/B", "a b", "a:", ":x", "a@sha256:12", "a//b", "/a", "a/", "Q/A", "my_host:1/a", "x" * 256,
     "0" * 64, DIGEST, "a@" + DIGEST[:-1], "a@sha256:" + "A" * 64, "a@md5:" + "0" * 32, "[::1/a", "h:port/a",
     "[:::::]/a", "[1:2]:80/a", "[12345::]/a"],
)
def test_what_is_no_name(text):
    with pytest.raises(ValueError, match="not the name of an image"):
        Reference.parse(text)


def test_a_registry_for_names_without_one():
    assert str(Reference.parse("a/b:c").at("q.io:1")) == "q.io:1/a/b:c"
    assert str(Reference.parse("x.io/a").at("q.io")) == "x.io/a:latest"
    assert Reference.parse("a").at(None) == Reference.parse("a").at("") == Reference(None, "a")


@pytest.mark.parametrize(
    ("name", "domain", "whole"),
    [
        ("team/a", "registry", "registry:443/team/a:latest"),  # Docker takes "registry/team/a" for its own registry's
        ("MyHost/a", None, "MyHost:443/a:latest"),
        ("a", "localhost", "localhost/a:latest"),
        ("a", "[::1]", "[::1]/a:latest"),
        ("a", "index.docker.io", "docker.io/a:latest"),
        ("a", "registry-1.docker.io", "docker.io/a:latest"),
    ],
)
def test_a_registry_is_spelt_so_that_docker_knows_it(name, domain, whole):
    assert str(Reference.parse(name).at(domain)) == whole


@pytest.mark.parametrize(
    ("term", "name", "version"),
    [
        ("a", "a", None),
        ("team/a:2", "team/a", "2"),
        ("myhost:5000/app", "myhost:5000/app", None),
        ("registry.example:5000/team/app:1.2", "registry.example:5000/team/app", "1.2"),
        ("[::1]:5000/app", "[::1]:5000/app", None),
        ("[::1]:5000/app:2", "[::1]:5000/app", "2"),
        ("[::1]/app", "[::1]/app", None),
        (f"h:1/a@{DIGEST}", "h:1/a", DIGEST),
        (f"h:1/a:t@{DIGEST}", "h:1/a", DIGEST),
        (f"a@{DIGEST[:20]}", "a", DIGEST[:20]),
        ("", "", None),
    ],
)
def test_a_term_is_split_before_its_tag_or_digest(term, name, version):
    assert split(term) == (name, version)


_PATHS = st.lists(st.from_regex("[a-z0-9]{1,4}(?:(?:_|--)[a-z]{1,3})?", fullmatch=True), min_size=1, max_size=3)
_DOMAINS = st.sampled_from([None, "q.io", "h:5000", "[::1]:80", "MyHost", "localhost", "10.0.0.1:1", "docker.io"])
_TAGS = st.sampled_from([None, "1.2", "latest", "_x"])


@given(_DOMAINS, _PATHS.map("/".join), _TAGS, st.sampled_from([None, DIGEST]))
def test_parse_and_split_agree(domain, path, tag, digest):
    repo = path if domain is None else f"{domain}/{path}"
    text = repo + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")
    assert Reference.parse(text) == Reference(domain, path, tag, digest)
    assert split(text) == (repo, digest or tag)
    assert domain_of(text) == domain


@pytest.mark.parametrize(
    ("text", "write"),
    [
        ("https://registry.example:5000/v2/", "Write registry.example:5000"),
        ("http://HOST", "Write HOST"),
        ("HOST/team", "Write HOST"),
        ("https://index.docker.io/v1/", "Write index.docker.io"),
        (" q.io", "Write q.io"),
        ("https://[::1]:5000", r"Write \[::1\]:5000"),
        ("HOST:port", "Write HOST or HOST:PORT"),
        ("h:65536", "Write HOST or HOST:PORT"),
        ("h:0", "Write HOST or HOST:PORT"),
        ("my host", "Write HOST or HOST:PORT"),
        ("my_host", "Write HOST or HOST:PORT"),
        ("q.io.", "Write HOST or HOST:PORT"),
        ("::1", "Write HOST or HOST:PORT"),
        ("[:::::]", "Write HOST or HOST:PORT"),
        ("https://[1::2::3]:5000/v2", "Write HOST or HOST:PORT"),
        ("", "Write HOST or HOST:PORT"),
        ("x" * 256, "Write HOST or HOST:PORT"),
        ("https://me:pa55@q.io", "^must be a registry as names of images have it. Write q.io$"),
    ],
)
def test_a_domain_that_matches_no_image_says_what_to_write(text, write):
    with pytest.raises(ValueError, match=write):
        registry_domain(text)


@pytest.mark.parametrize("text", ["q.io", "q.io:5000", "MyHost", "registry", "localhost:1", "10.0.0.1", "[::1]:5000"])
def test_a_domain_of_image_names_is_taken(text):
    assert registry_domain(text) == text
    assert canonical(text) == canonical(Reference.parse("a").at(text).domain)
