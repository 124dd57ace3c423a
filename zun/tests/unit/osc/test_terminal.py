# SPDX-License-Identifier: Apache-2.0
"""The exit code of a command from the end of its session."""

import pytest
from osc_lib import exceptions

from zun.console.proxy import farewell
from zun.osc.terminal import outcome


@pytest.mark.parametrize("code", [0, 5, 126, 255, -1])
def test_exit_code_goes_through_the_close_frame(code):
    assert outcome("web", (1000, farewell(code))) == code


@pytest.mark.parametrize("closing", [None, (1000, ""), (1000, farewell(None)), (1000, "exit code"), (1000, "bye 5")])
def test_no_exit_code_is_success(closing):
    """The input ended first, or a server of an older release does not tell."""
    assert outcome("web", closing) == 0


@pytest.mark.parametrize(
    ("closing", "told"),
    [((1011, "it was started before"), "web was closed: it was started before"), ((1001, ""), "closed: 1001")],
)
def test_session_that_broke_is_an_error(closing, told):
    with pytest.raises(exceptions.CommandError, match=told):
        outcome("web", closing)
