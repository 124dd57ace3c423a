# SPDX-License-Identifier: Apache-2.0
import pytest
from osc_lib import exceptions

from zun.osc import healthcheck


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("cmd=true", {"cmd": "true"}),
        ("cmd=a,b,c=d,interval=5", {"cmd": "a,b,c=d", "interval": 5}),
        ("interval=2m, timeout=30s,retries=3,cmd=x", {"interval": 120, "timeout": 30, "retries": 3, "cmd": "x"}),
        ("cmd=a,b,start_period=1m,retries=2", {"cmd": "a,b", "start_period": 60, "retries": 2}),
        ("interval=1h,cmd=test -f a,b", {"interval": 3600, "cmd": "test -f a,b"}),
    ],
)
def test_what_is_understood(text, parsed):
    assert healthcheck.parse(text) == parsed


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("true", "'true' is none of"),
        ("cmd=a,cmd=b", "cmd is given twice"),
        ("interval=5x,cmd=a", "interval must be"),
        ("retries=5s,cmd=a", "retries must be a whole number"),
        ("timeout=,cmd=a", "timeout must be"),
        ("start_period=soon,cmd=a", "start_period must be"),
    ],
)
def test_what_is_not(text, told):
    with pytest.raises(exceptions.CommandError, match=told):
        healthcheck.parse(text)
