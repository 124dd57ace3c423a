# SPDX-License-Identifier: Apache-2.0
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.api import request
from zun.api.errors import PathNotFound, RequestTooLarge
from zun.common.exceptions import UnsupportedMediaType, ValidationError


@pytest.mark.parametrize(
    ("raw", "segments"),
    [
        ("", ()),
        ("/", ()),
        ("/.json", ()),
        ("/v1", ("v1",)),
        ("/v1//", ("v1",)),
        ("/v1.json", ("v1",)),
        ("/containers", ("v1", "containers")),
        ("/v1/containers//x///start/", ("v1", "containers", "x", "start")),
        ("/v1/containers/a.json", ("v1", "containers", "a")),
        ("/v1/containers/a.json/start", ("v1", "containers", "a.json", "start")),
        ("/v1/containers/a.b/start", ("v1", "containers", "a.b", "start")),
        ("/v1/hosts/a.b", ("v1", "hosts", "a.b")),
        ("/v1/hosts/a.b.json", ("v1", "hosts", "a.b")),
        ("/v1/containers/v1", ("v1", "containers", "v1")),
        ("/v2/containers", ("v1", "v2", "containers")),
        ("/v1/containers/caf\xc3\xa9", ("v1", "containers", "café")),
        ("/v1//containers", None),
        ("//containers", None),
        ("/v1/containers/a.b", None),
        ("/v1/containers/a.b.txt", None),
        ("/v1/containers/\xff", None),
        ("/v1/containers/a\x00", None),
        ("/v1/containers/a\nb", None),
    ],
)
def test_canonical_path(raw, segments):
    if segments is None:
        with pytest.raises(PathNotFound):
            request.canonical_path(raw)
    else:
        assert request.canonical_path(raw) == segments
        assert request.is_root(raw) == (segments == ())


@given(st.binary())
def test_any_path_has_an_answer(raw):
    try:
        segments = request.canonical_path("/" + raw.decode("latin-1"))
    except PathNotFound:
        return
    assert all(segments)
    assert not segments or segments[0] == "v1"
    again = "/" + "/".join(segments).encode().decode("latin-1")
    try:
        assert request.canonical_path(again) == segments
    except PathNotFound:  # .json was taken off a name that has another suffix before it
        assert "." in segments[-1]


def environ(raw, content_type="application/json", **more):
    return {"CONTENT_LENGTH": str(len(raw)), "CONTENT_TYPE": content_type, "wsgi.input": io.BytesIO(raw), **more}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def texts(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


@given(st.dictionaries(st.text(), JSON, max_size=4), st.booleans())
def test_objects_arrive_as_they_are(body, ascii_only):
    raw = json.dumps(body, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    if any("\0" in text for text in texts(body)):
        with pytest.raises(ValidationError):
            request.body_arguments(environ(raw))
    else:
        assert request.body_arguments(environ(raw)) == body


@given(st.binary())
def test_any_bytes_have_an_answer(raw):
    try:
        assert isinstance(request.body_arguments(environ(raw)), dict)
    except ValidationError as exc:
        assert str(exc)
    assert isinstance(request.body_arguments(environ(b"\xff" + raw, "")), dict)
    with pytest.raises(UnsupportedMediaType):
        request.body_arguments(environ(b"\xff" + raw, "text/plain"))


def test_limit_of_a_body():
    assert request.body_arguments(environ(b"{}   "), limit=5) == {}
    with pytest.raises(RequestTooLarge):
        request.body_arguments(environ(b"{}    "), limit=5)


def test_a_body_that_ends_too_early_is_none():
    with pytest.raises(ValidationError, match="ends after 2 of 9 bytes"):
        request.body_arguments(environ(b"{}", CONTENT_LENGTH="9"))


@pytest.mark.parametrize("failure", [TimeoutError("timed out"), ValueError("no chunk"), OSError("gone")])
def test_a_body_that_a_server_cannot_read_is_not_our_failure(failure):
    class Broken:
        def read(self, size):
            raise failure

    given = environ(b"", **{"CONTENT_LENGTH": "9", "wsgi.input": Broken()})
    with pytest.raises(ValidationError, match=str(failure)):
        request.body_arguments(given)
    with pytest.raises(ValidationError, match=str(failure)):
        list(request.body_stream(given))


def test_only_as_much_is_read_as_the_client_said():
    stream = io.BytesIO(b'{"a": 1}NEXT REQUEST')
    assert request.body_arguments(
        {"CONTENT_LENGTH": "8", "CONTENT_TYPE": "application/json", "wsgi.input": stream}
    ) == {"a": 1}
    assert stream.read() == b"NEXT REQUEST"


@pytest.mark.parametrize("size", [0, 1, 3, 7])
def test_only_as_much_is_streamed_as_the_client_said(monkeypatch, size):
    monkeypatch.setattr(request, "_PIECE", 3)
    stream = io.BytesIO(b"x" * size + b"NEXT REQUEST")
    pieces = list(request.body_stream({"CONTENT_LENGTH": str(size), "wsgi.input": stream}))
    assert (b"".join(pieces), stream.read()) == (b"x" * size, b"NEXT REQUEST")
    assert max(map(len, pieces), default=0) <= 3


@pytest.mark.parametrize(
    ("accept", "answered"),
    [
        (None, True),
        ("application/json", True),
        ("text/html", False),
        ("text/html, application/*;q=0.1", True),
        ("application/json;q=0, */*", False),
        ("application/json;q=0, application/json", True),
        ("application/json; q=no", True),
        ("*/*;version=1;q=0.0", False),
    ],
)
def test_accept(accept, answered):
    assert request.accepts_json(accept) is answered


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {}),
        ("a=1&b=", {"a": "1", "b": ""}),
        ("a=%20x+y", {"a": " x y"}),
        ("a=caf%C3%A9", {"a": "café"}),
        ("a", {"a": ""}),
        ("a=1=2", {"a": "1=2"}),
        ("a=1;b=2", {"a": "1;b=2"}),
    ],
)
def test_query(query, found):
    assert request.query_arguments(query) == found


@given(st.text(alphabet=st.characters(codec="ascii")))
def test_any_query_has_an_answer(query):
    try:
        found = request.query_arguments(query)
    except ValidationError:
        return
    assert all("\0" not in name + value for name, value in found.items())
