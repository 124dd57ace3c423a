# SPDX-License-Identifier: Apache-2.0
"""Files of templates, manifests and compose files: read as kubectl and docker compose read them."""

import pytest

from zun.osc.documents import Compose, Kubernetes, one, read

MARK = b"\xef\xbb\xbf"


def reading(tmp_path, content, loader=Kubernetes):
    file = tmp_path / "a #1 %20.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read(str(file), loader)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("a: 22:22", {"a": "22:22"}),
        ("a: 1:30.5", {"a": "1:30.5"}),
        ("a: 2024-01-02", {"a": "2024-01-02"}),
        ("a: 2024-01-02T03:04:05Z", {"a": "2024-01-02T03:04:05Z"}),
        ("a: [12, -1.5, 0x1f, ~, yes]", {"a": [12, -1.5, 31, None, True]}),
        ("1: a", {"1": "a"}),
        ("x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}", {"x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 3}}),
        ("---\na: 1\n---\n", {"a": 1}),
        ('{"a":\t1}', {"a": 1}),
        ("{a: 1}", {"a": 1}),
        (MARK + b"a: 1\r\nb: |\r\n  c\r\n  d\r\n", {"a": 1, "b": "c\nd\n"}),
        (MARK + b'{"a": 1}', {"a": 1}),
        ("a: größe", {"a": "größe"}),
    ],
)
def test_document_has_the_values_of_json(tmp_path, content, found):
    assert one(reading(tmp_path, content)) == found


@pytest.mark.parametrize(("loader", "value"), [(Kubernetes, True), (Compose, "on")], ids=["kubectl", "compose"])
def test_words_are_booleans_for_kubectl_alone(tmp_path, loader, value):
    assert reading(tmp_path, "[on, true]", loader) == [[value, True]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "it is empty"),
        ("---\n# nothing\n", "it is empty"),
        ("a: 1\nb: 2\na: 3", "line 3, column 1: a is given twice"),
        ("a:\n\t- b", "line 2, column 1: found character"),
        ("a: [1", "line 1, column 6: expected ',' or ']'"),
        ("a: &a [*a]", "it is neither YAML nor JSON: Circular"),
        ("a: .nan", "it is neither YAML nor JSON: Out of range"),
        ("a: !!binary aGk=", "it is neither YAML nor JSON"),
        ("a: !!python/name:os.system", "line 1, column 4: could not determine a constructor"),
        (b"a: \xff", "it is not UTF-8: byte 3 is 0xff"),
    ],
)
def test_what_has_no_document_is_refused_with_the_place(tmp_path, content, words):
    with pytest.raises(ValueError) as caught:
        reading(tmp_path, content)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(("name", "words"), [("none", "No such file"), (".", "Is a directory")])
def test_file_that_cannot_be_read_is_refused_with_the_reason(tmp_path, name, words):
    with pytest.raises(ValueError, match=f"it cannot be read: {words}"):
        read(str(tmp_path / name))


def test_address_that_no_server_understands_is_refused():
    with pytest.raises(ValueError, match="cannot be read: URL can't contain control characters"):
        read("http://localhost/a pod.yaml")


def test_address_of_a_file_is_read_as_by_the_stock_client(tmp_path):
    (tmp_path / "a.yaml").write_text("a: 1")
    assert read((tmp_path / "a.yaml").as_uri()) == [{"a": 1}]


def test_one_document_is_told_from_several(tmp_path):
    with pytest.raises(ValueError, match="it has 2 documents"):
        one(reading(tmp_path, "a: 1\n---\nb: 1"))
