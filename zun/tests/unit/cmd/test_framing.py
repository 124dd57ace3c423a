# SPDX-License-Identifier: Apache-2.0
"""Where a request ends: a head that programs read in different ways is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.api import limits
from zun.cmd import framing
from zun.cmd.framing import Framing


def head(*lines, first="POST /v1/containers HTTP/1.1"):
    return "\r\n".join([first, "Host: x", *lines, "", ""]).encode("latin-1")


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((), Framing(0, False)),
        (("Content-Length: 46",), Framing(46, False)),
        (("content-length:\t46 ",), Framing(46, False)),
        (("Transfer-Encoding: Chunked",), Framing(None, False)),
        (("Content-Length: 9" + "0" * 30, "Expect: 100-Continue"), Framing(9 * 10**30, True)),
        (("X-Content-Length: 7", "Accept: a", "Accept: b"), Framing(0, False)),
    ],
)
def test_the_end_of_a_sound_request(lines, found):
    assert framing.framing(head(*lines)) == found


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        pytest.param(("Content-Length: 0", "Content-Length: 46"), "2 headers content-length", id="two-lengths"),
        pytest.param(("Content-Length: 46", "Content-Length: 0"), "2 headers content-length", id="the-other-order"),
        pytest.param(("Content-Length: 46", "CONTENT-LENGTH: 46"), "2 headers content-length", id="one-length-twice"),
        pytest.param(("Content-Length: 46, 46",), "not a number", id="a-list-of-lengths"),
        pytest.param(("Content-Length: +46",), "not a number", id="a-sign"),
        pytest.param(("Content-Length: -1",), "not a number", id="below-nothing"),
        pytest.param(("Content-Length: 4_6",), "not a number", id="underscore"),
        pytest.param(("Content-Length: 0x2e",), "not a number", id="hexadecimal"),
        pytest.param(("Content-Length: \xb2",), "not a number", id="another-digit"),
        pytest.param(("Content-Length:",), "not a number", id="empty"),
        pytest.param(("Content-Length: 0", " 46"), "is no header", id="a-folded-length"),
        pytest.param(("Content-Length : 46",), "is no header", id="blank-before-the-colon"),
        pytest.param(("Content-Length",), "is no header", id="no-colon"),
        pytest.param((": 46",), "is no header", id="no-name"),
        pytest.param(("Content-Length: 46", "Transfer-Encoding: chunked"), "both", id="length-and-chunks"),
        pytest.param(("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), "2 headers", id="coded-twice"),
        pytest.param(("Host: y",), "2 headers host", id="two-hosts"),
        pytest.param(("A: b\nContent-Length: 46",), "CR and LF", id="a-line-feed-alone"),
        pytest.param(("A: b\rContent-Length: 46",), "CR and LF", id="a-return-alone"),
        pytest.param(("A: b\0",), "NUL", id="nul"),
    ],
)
def test_a_doubtful_request_is_malformed(lines, told):
    with pytest.raises(framing.Malformed, match=told):
        framing.framing(head(*lines))


@pytest.mark.parametrize("coding", ["gzip", "gzip, chunked", "chunked, chunked", "xchunked", "", "chunked;q=1"])
def test_only_chunks_are_known(coding):
    with pytest.raises(framing.UnknownCoding):
        framing.framing(head(f"Transfer-Encoding: {coding}"))


def test_an_old_request_has_no_chunks():
    with pytest.raises(framing.Malformed, match=r"HTTP/1\.0"):
        framing.framing(head("Transfer-Encoding: chunked", first="POST / HTTP/1.0"))


def test_headers_have_a_maximum():
    assert framing.framing(head(*["A: b"] * (limits.HEADERS - 1))) == Framing(0, False)
    with pytest.raises(framing.TooManyHeaders, match=str(limits.HEADERS + 1)):
        framing.framing(head(*["A: b"] * limits.HEADERS))


BODY = st.lists(st.binary(min_size=1, max_size=20), max_size=6)


@given(parts=BODY, cut=st.integers(0, 200))
def test_chunks_have_arrived_with_the_last_one_only(parts, cut):
    whole = b"".join(b"%x;a=b\r\n%s\r\n" % (len(part), part) for part in parts)
    buffer, chunks = bytearray(b"head" + (whole + b"0\r\n")[:cut]), framing.Chunks(4)
    assert chunks.arrived(buffer, 10_000) == (cut >= len(whole) + 3)
    buffer += (whole + b"0\r\n")[cut:]
    assert chunks.arrived(buffer, 10_000)


@pytest.mark.parametrize("body", [b"zz\r\n", b"-5\r\n", b"0x5\r\n", b"\r\n", b"5" * 256])
def test_what_can_be_no_chunk_is_not_waited_for(body):
    assert framing.Chunks(0).arrived(bytearray(body), 10_000)


def test_a_body_is_read_ahead_up_to_its_limit():
    chunks = framing.Chunks(0)
    assert not chunks.arrived(bytearray(b"ffff\r\n" + bytes(100)), 106)
    assert chunks.arrived(bytearray(b"ffff\r\n" + bytes(101)), 106)


def test_small_chunks_have_a_maximum():
    """It grows with the bytes, so a large body in usual chunks has none."""
    count = framing.ChunkCount()
    for _ in range(limits.CHUNKS):
        count.add(1)
    for _ in range(limits.CHUNKS):
        count.add(limits.CHUNK_BYTES)
    with pytest.raises(framing.TooSmallChunks, match="send larger chunks"):
        for _ in range(limits.CHUNKS):
            count.add(1)
