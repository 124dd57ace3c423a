# SPDX-License-Identifier: Apache-2.0
"""What probes say: forms of the template, and each series of results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common.probes import Command, Connection, Health, Page, Probe, Role, is_ready, probes_of

TCP = {"tcpSocket": {"port": 80}}


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"exec": {"command": ["cat", "/ok"]}}, Probe(Command(("cat", "/ok")))),
        ({"tcpSocket": {"port": 80, "host": "::1"}}, Probe(Connection(80, "::1"))),
        ({"httpGet": {"port": 80}}, Probe(Page(Connection(80)))),
        (
            {"httpGet": {"port": 8443, "path": "healthz", "scheme": "HTTPS", "host": "localhost",
                         "httpHeaders": [{"name": "Host", "value": "a.example"}]}},
            Probe(Page(Connection(8443, "localhost"), "/healthz", True, (("Host", "a.example"),))),
        ),
        (
            {**TCP, "initialDelaySeconds": 1, "periodSeconds": 2, "timeoutSeconds": 3, "successThreshold": 4,
             "failureThreshold": 5},
            Probe(Connection(80), 1, 2, 3, 4, 5),
        ),
        ({**TCP, "periodSeconds": None, "exec": None}, Probe(Connection(80))),
    ],
)  # fmt: skip
def test_the_forms_of_a_template(given_, expected):
    assert Probe.of(Role.READINESS, given_) == expected


@pytest.mark.parametrize(
    ("role", "given_", "words"),
    [
        (Role.READINESS, {}, "one of exec, httpGet and tcpSocket"),
        (Role.READINESS, {**TCP, "exec": {"command": ["true"]}}, "one of exec"),
        (Role.LIVENESS, {**TCP, "successThreshold": 2}, "successThreshold must be 1, except.*got 2"),
        (Role.STARTUP, {"tcpSocket": {"port": 80, "host": "db.example"}}, "tcpSocket.host: 'db.example' is neither"),
        (Role.STARTUP, {"httpGet": {"port": 80, "host": "db.example"}}, "httpGet.host"),
    ],
)
def test_what_means_nothing_is_refused(role, given_, words):
    with pytest.raises(ValueError, match=words.replace("(", "\\(")):
        Probe.of(role, given_)


S, L, R = Role.STARTUP, Role.LIVENESS, Role.READINESS
PROBES = {
    S: Probe(Command(("started",)), failures=3),
    L: Probe(Command(("alive",)), failures=2),
    R: Probe(Connection(80), successes=2, failures=2),
}


def health(*results, probes=PROBES):
    """The health after results such as ``(R, None)`` or ``(L, "exit code 1")``."""
    now = Health.at_start(probes)
    for role, failure in results:
        assert role in now.asked(probes), (role, now)
        now = now.after(role, probes[role], failure)
    return now


@pytest.mark.parametrize(
    ("results", "told", "failed", "asked"),
    [
        ([], "not ready", None, {S}),
        ([(S, "exit code 1")], "not ready: start-up probe: started: exit code 1", None, {S}),
        ([(S, "no")] * 3, "not ready: start-up probe: started: no",
         "Its start-up probe failed 3 times in a row (started: no)", set()),
        ([(S, "no"), (S, None)], "not ready", None, {L, R}),
        ([(S, None), (R, None)], "not ready", None, {L, R}),
        ([(S, None), (R, None), (R, None)], "ready", None, {L, R}),
        ([(S, None), (R, None), (R, "refused"), (R, None)],
         "not ready: readiness probe: connect to capsule:80: refused", None, {L, R}),
        ([(S, None), (R, None), (R, None), (R, "refused")], "ready", None, {L, R}),
        ([(S, None), (R, None), (R, None), (R, "refused"), (R, "late")],
         "not ready: readiness probe: connect to capsule:80: late", None, {L, R}),
        ([(S, None), (L, "no"), (L, None), (L, "no")], "not ready", None, {L, R}),
        ([(S, None), (L, "no"), (L, "no")], "not ready", "Its liveness probe failed 2 times in a row (alive: no)",
         set()),
    ],
)  # fmt: skip
def test_series_of_results(results, told, failed, asked):
    found = health(*results)
    assert (found.told(), found.failed, found.asked(PROBES)) == (told, failed, asked)
    assert is_ready(found.told()) is (told == "ready")


@given(st.lists(st.tuples(st.sampled_from(list(Role)), st.booleans()), max_size=30))
def test_a_container_fails_only_after_enough_failures_in_a_row(results):
    now, last = Health.at_start(PROBES), {}
    for role, good in results:
        if role not in now.asked(PROBES):
            continue
        now = now.after(role, PROBES[role], None if good else "no")
        last.setdefault(role, []).append(good)
    for role in (S, L):
        enough = last.get(role, [])[-PROBES[role].failures :] == [False] * PROBES[role].failures
        assert not enough or now.failed is not None
    assert now.failed is None or any(not any(row[-PROBES[role].failures :]) for role, row in last.items() if row)
    ready = last.get(R, [])
    assert not now.ready or any(ready[at : at + 2] == [True, True] for at in range(len(ready)))


def test_without_probes_everything_is_ready():
    assert probes_of(None) == probes_of({"run": True}) == {}
    assert Health.at_start({}).told() == "ready" and is_ready(None)
