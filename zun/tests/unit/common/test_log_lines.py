# SPDX-License-Identifier: Apache-2.0
import io
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg
from oslo_log import formatters
from oslo_log import log as oslo_log

from zun.common import log_lines

FORGED = "a\n2026-03-04 12:00:00.000 1 INFO zun.access client=192.0.2.7\r\x1b[2K\u2028b"


@pytest.fixture
def written():
    """Logs with a formatter, and returns what was written."""

    def write(formatter, *arguments, **named):
        stream = io.StringIO()
        logger = logging.Logger("zun.test")
        logger.addHandler(logging.StreamHandler(stream))
        logger.handlers[0].setFormatter(log_lines.OneLine(formatter))
        logger.error(*arguments, **named)
        return stream.getvalue()

    return write


@pytest.fixture
def ours():
    """The formatter of the services."""
    conf = cfg.ConfigOpts()
    oslo_log.register_options(conf)
    conf([], project="zun-test", default_config_files=[], default_config_dirs=[])
    return formatters.ContextFormatter(config=conf)


def test_a_value_cannot_forge_a_line(written, ours):
    said = written(ours, "Image %s is not here", FORGED)
    assert len(said.splitlines()) == 1 and "\x1b" not in said
    assert r"a\n2026-03-04" in said and r"\r\x1b[2K\u2028b" in said


def test_a_traceback_keeps_its_lines_and_no_more(written, ours):
    try:
        raise ValueError(FORGED)
    except ValueError:
        said = written(ours, "failed: %s", "x\ny", exc_info=True)
    assert r"failed: x\ny" in said and "Traceback (most recent call last)" in said
    assert "\x1b" not in said and "\u2028" not in said and "\r" not in said
    # Each line has the prefix of this log, so that none can be taken for another message.
    assert all("ERROR zun.test" in line for line in said.splitlines())


@given(st.text())
def test_any_text_is_one_printable_line(text):
    shown = log_lines.escaped(text)
    assert shown.isprintable() and (shown == text or not text.isprintable())


def test_a_plain_formatter_is_one_line_too(written):
    assert written(logging.Formatter("%(message)s %(name)s"), FORGED).count("\n") == 1
    with_stack = written(logging.Formatter(), "a\nb", stack_info=True)
    assert with_stack.startswith("a\\nb\nStack (most recent call last):\n")


def test_what_is_no_text_passes():
    class Mapping(logging.Formatter):
        def format(self, record):
            return {"message": record.getMessage()}

    record = logging.makeLogRecord({"msg": "a\nb"})
    assert log_lines.OneLine(Mapping()).format(record) == {"message": "a\nb"}


def test_every_handler_is_wrapped_once():
    root, below = logging.StreamHandler(io.StringIO()), logging.StreamHandler(io.StringIO())
    own = logging.getLogger("zun.tests.log_lines")
    logging.getLogger().addHandler(root)
    own.addHandler(below)
    try:
        log_lines.install()
        formatters = [root.formatter, below.formatter]
        log_lines.install()
        assert [root.formatter, below.formatter] == formatters
        own.error("a\nb")
        assert [each.stream.getvalue() for each in (root, below)] == ["a\\nb\n"] * 2
    finally:
        logging.getLogger().removeHandler(root)
        own.removeHandler(below)
