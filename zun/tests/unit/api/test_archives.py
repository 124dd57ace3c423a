# SPDX-License-Identifier: Apache-2.0
import base64
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zun.api import archives
from zun.api.archives import Body, archive, check_path
from zun.common import exceptions

NAMES = ("path",)


def pieces(raw, size):
    return (raw[start : start + size] for start in range(0, len(raw), size))


@given(
    data=st.binary(max_size=300), size=st.integers(1, 70), path=st.text(max_size=20), indent=st.sampled_from([None, 2])
)
def test_an_encoded_archive_arrives_however_it_is_cut(data, size, path, indent):
    path = path.encode("utf-8", "ignore").decode()
    sent = json.dumps({"path": path, "data": base64.b64encode(data).decode()}, indent=indent).encode()
    body = Body(pieces(sent, size), NAMES)
    assert body.members == {"path": path}
    assert b"".join(archive(body.data(), encoded=True)) == data


@example(text="\U00010000\U0010ffff\U00010400\udbff\ud7ff\ue000\0\x01", size=40, ascii_only=True)
@given(text=st.text(max_size=100), size=st.integers(1, 40), ascii_only=st.booleans())
def test_a_text_arrives_however_it_is_written(text, size, ascii_only):
    text = text.encode("utf-8", "ignore").decode()  # halves of surrogate pairs are refused
    sent = json.dumps({"data": text}, ensure_ascii=ascii_only).encode()
    assert b"".join(archive(Body(pieces(sent, size), NAMES).data(), encoded=False)) == text.encode()


@given(data=st.binary(max_size=300), size=st.integers(1, 70))
def test_an_answer_is_json(data, size):
    text = b"".join(archives.answer({"name": 'a"b'}, pieces(data, size), encoded=True))
    assert json.loads(text) == {"stat": {"name": 'a"b'}, "data": base64.b64encode(data).decode()}
    text = b"".join(archives.answer({}, pieces(data, size), encoded=False))
    assert json.loads(text)["data"] == data.decode("utf-8", "replace")


def test_pieces_are_of_one_size():
    made = list(archive(["x" * 100_000] * 35, encoded=False))
    assert [len(each) >= archives.PIECE for each in made] == [True] * 11 + [False] * (len(made) - 11)
    assert sum(map(len, made)) == 3_500_000


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"[]", "object"),
        (b"{", "ends too early"),
        (b"{data: 1}", "quotes"),
        (b'{"data" "x"}', "colon"),
        (b'{"data": "x', "ends too early"),
        (b'{"data": "x\ny"}', "control character"),
        (b'{"data": "\\x"}', "escape"),
        (b'{"data": "\\ud800"}', "escape"),
        (b'{"data": "\\ud800\\u0041"}', "escape"),
        (b'{"data": "\\udc00"}', "escape"),
        (b'{"data": "\\udfff"}', "escape"),
        (b'{"data": "\\udc00\\udc00"}', "escape"),
        (b'{"data": "\\ud800\\udbff"}', "escape"),
        (b'{"data": "\\ud800\\ue000"}', "escape"),
        (b'{"data": "\\u00g0"}', "escape"),
        (b'{"data"', "ends too early"),
        (b'{"data": "\xff"}', "UTF-8"),
        (b'{"data": "x", "path": "/"}', "last member"),
        (b'{"data": "x"]', "end of the object"),
        (b'{"data": "x" "path": "/"}', "end of the object"),
        (b'{"path": "/"]', "end of the object"),
        (b'{"data": "x"} {}', "follows its end"),
        (b'{"path": "/"}}', "follows its end"),
        (b"{} 5", "follows its end"),
        (b'{"path": "' + b"x" * 5000 + b'"}', "too long"),
    ],
)
def test_bodies_that_are_none(sent, text):
    with pytest.raises(exceptions.ValidationError, match=text):
        list(Body([sent], NAMES).data())


@pytest.mark.parametrize("sent", [b'{"data": 5}', b'{"data": null}', b'{"path": ["x"], "data": ""}'])
def test_members_that_are_no_texts(sent):
    with pytest.raises(exceptions.SchemaValidationError):
        list(Body([sent], NAMES).data())


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b'{"other": "x", "data": ""}', "other: there is no such member; give path, data"),
        (b'{"path": "/", "path": "/x", "data": ""}', "path: it is given twice"),
        (b'{"' + b"a" * 4000 + b'": "x"', "^a{64}: there is no such member"),
        (b'{"Path": "/"', "Path: there is no such member"),
    ],
)
def test_no_other_member_is_kept(sent, told):
    """It is refused before its value is read."""
    with pytest.raises(exceptions.SchemaValidationError, match=told):
        Body([sent], NAMES)


def test_escapes_are_read_many_at_once():
    """One by one each would copy what is left of its piece."""
    text = "\\u0041\\n" * 10_000
    body = Body(pieces(f'{{"data": "{text}"}}'.encode(), 1 << 16), NAMES)
    assert len(list(body.data())) < 20


@pytest.mark.parametrize("sent", [b"", b"  ", b"{}", b' {"path": "/x"} '])
def test_bodies_without_data(sent):
    body = Body([sent], NAMES)
    assert not body.has_data and list(body.data()) == []


@pytest.mark.parametrize("text", ["x", "xxxx=", "====", "xx=x", "eA==eA==", "ü" * 4, "ab!d", "eHg=x", "eA== eA=="])
def test_what_is_not_base64(text):
    with pytest.raises(exceptions.Base64Exception):
        list(archive(list(text), encoded=True))
    with pytest.raises(exceptions.Base64Exception):
        list(archive([text], encoded=True))


def test_base64_in_lines():
    assert b"".join(archive(["aGVs\nbG8", "g\r\n d29ybGQ=\n", "\n"], encoded=True)) == b"hello world"


@pytest.mark.parametrize("path", ["/", "/etc/hosts", "/a/..b/c..", "/a//b", "/" + "x" * 4095])
def test_paths(path):
    assert check_path(path) == path


@pytest.mark.parametrize("path", ["", "etc", "../etc", "/..", "/a/../../etc", "/a/..", "/a\0", "/" + "x" * 4096])
def test_paths_that_lead_elsewhere(path):
    with pytest.raises(exceptions.InvalidValue, match="path"):
        check_path(path)
