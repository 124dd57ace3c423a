# SPDX-License-Identifier: Apache-2.0
"""After any sequence of actions, faults, events and times, rows, claims, runtimes, schedulers and actions agree.

CI tries 200 sequences, always the same. ``ZUN_WORLDS=5000`` tries so many other ones, which begin with more containers.
With ``--hypothesis-seed`` they can be tried in parts. Of a sequence that fails, Hypothesis prints the shortest that it
finds, with all that happened in it.
"""

import os
import pathlib
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from zun.tests.functional import invariants
from zun.tests.functional.cloud import configuration
from zun.tests.functional.worlds import BY_HAND, HOSTS, SCHEDULER, Armed, Fault, Front, Side, World

CI = 200
SEQUENCES = int(os.environ.get("ZUN_WORLDS", CI))
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
MOST = 20  # containers at a time
FIRST, STEPS = (4, 10) if SEQUENCES == CI else (MOST, 30)  # most containers at the beginning, and steps after these

HOST = st.sampled_from(list(HOSTS))
NUMBER = st.integers(0, MOST - 1)
SOON = st.integers(0, 30)
EXTRAS = (
    {},
    {"auto_remove": True},
    {"restart_policy": {"Name": "on-failure", "MaximumRetryCount": "1"}},
    {"restart_policy": {"Name": "always"}},
    {"auto_heal": True},
)
ACTIONS = (
    *("POST start", "POST stop", "POST stop?timeout=3600", "POST kill", "POST kill?signal=SIGHUP", "POST reboot"),
    *("POST rebuild", "POST rebuild?image=other", "POST pause", "POST unpause", "POST commit?repository=mine&tag=1"),
    *("POST resize_container?cpu=1", "POST resize_container?cpu=3", "POST resize_container?memory=96"),
    *("DELETE", "DELETE ?force=true", "DELETE ?stop=true", "DELETE ?force=true&stop=true"),
    *("POST network_attach?network=front", "POST network_detach?network=front"),
)
ACTION, HAND = st.sampled_from(ACTIONS), st.sampled_from(BY_HAND)
CREATED = st.fixed_dictionaries(
    {
        "cpu": st.integers(1, 3),
        "cpu_policy": st.sampled_from(["shared", "dedicated"]),
        "nets": st.sampled_from([[], [{"network": "front"}], [{"network": "front"}, {"network": "back"}]]),
        "extra": st.sampled_from(EXTRAS),
        "run": st.booleans(),
    }
)


class Worlds(RuleBasedStateMachine):
    """The rules are the steps that Hypothesis draws."""

    def __init__(self, lasting_database, conf, front):
        super().__init__()
        self._database = lasting_database.empty()
        self._database.__enter__()
        self._folder = tempfile.TemporaryDirectory(prefix="zun-world-", dir=MEMORY)
        self.world = World(conf, pathlib.Path(self._folder.name), front)
        for name in ("front", "back"):
            self.world.ask("POST", "networks", {"name": name})
        self.failed = False
        self._checked = 0

    def teardown(self):
        try:
            if not self.failed:
                self.world.settle(lambda: invariants.check(self.world))
                self.expect_nothing_else()
        finally:
            note(self.world.told())
            self.world.close()
            self._database.__exit__(None, None, None)
            self._folder.cleanup()

    @initialize(bodies=st.lists(CREATED, max_size=FIRST))
    def begin(self, bodies):
        for body in bodies:
            self.create(body)
        self.world.go_on()

    @rule(body=CREATED)
    def create(self, body):
        if len(self.world.containers()) < MOST:
            sent = {"image": "zun-demo", "command": ["sleep", "1000"], "memory": 64, **body, **body["extra"]}
            run, _ = sent.pop("run"), sent.pop("extra")
            self.world.ask("POST", f"containers?run={run}", sent)

    @rule(number=NUMBER, action=ACTION)
    def ask(self, number, action):
        rows = self.world.containers()
        if rows:
            method, _, rest = action.partition(" ")
            path = f"containers/{rows[number % len(rows)]['uuid']}"
            self.world.ask(method, f"{path}{rest}" if method == "DELETE" else f"{path}/{rest}")

    @rule(number=NUMBER, cpu=st.integers(1, 3))
    def resize(self, number, cpu):
        rows = self.world.containers()
        if rows:
            self.world.ask("PATCH", f"containers/{rows[number % len(rows)]['uuid']}", {"cpu": cpu})

    @rule(most=st.integers(1, 40))
    def go_on(self, most):
        self.world.go_on(most)

    @rule(number=st.integers(0, 9))
    def go_on_elsewhere(self, number):
        ready = self.world.ready()
        if ready:
            self.world.perform(ready[number % len(ready)])

    @rule(number=NUMBER, twice=st.booleans())
    def lose_or_double(self, number, twice):
        waiting = [each for each in self.world.pending if each.can_be_lost]
        if waiting:
            message = waiting[number % len(waiting)]
            if twice:
                self.world.pending.append(message)
            else:
                self.world.pending.remove(message)

    @rule(host=HOST, after=SOON, side=st.sampled_from([None, *Side]), fault=st.sampled_from(list(Fault)))
    def arm(self, host, after, side, fault):
        self.world.armed.append(Armed(host, after, side, fault))

    @rule(host=HOST, after=SOON, number=NUMBER, action=ACTION)
    def arm_request(self, host, after, number, action):
        self.world.armed.append(Armed(host, after, None, lambda: self.ask(number, action)))

    @rule(host=HOST, after=SOON, number=NUMBER, what=HAND)
    def arm_hand(self, host, after, number, what):
        self.world.armed.append(Armed(host, after, None, lambda: self.world.by_hand(number, what)))

    @rule(number=NUMBER, what=HAND)
    def by_hand(self, number, what):
        self.world.by_hand(number, what)

    @rule(host=HOST)
    def reboot(self, host):
        self.world.reboot(host)

    @rule(name=st.sampled_from([*HOSTS, SCHEDULER]), again=st.booleans())
    def kill(self, name, again):
        self.world.kill(name)
        if again:
            self.world.start(name)

    @rule(seconds=st.sampled_from([1, 60, 700, 86400, -3600]))
    def let_pass(self, seconds):
        for name in (*HOSTS, SCHEDULER):
            self.world.start(name)
        self.world.let_pass(seconds)

    @invariant()
    def nothing_is_held_twice(self):
        if self._checked == len(self.world.trace):
            return  # since then nothing has happened
        self._checked = len(self.world.trace)
        try:
            invariants.check_always(self.world)
            self.expect_nothing_else()
        except BaseException:
            self.failed = True
            raise

    def expect_nothing_else(self):
        for error in self.world.unexpected:
            raise error


@pytest.mark.timeout(1800 * max(1, SEQUENCES // CI))
def test_everything_agrees_in_the_end(lasting_database):
    options = {"api__auth_strategy": "noauth", "api__host_names": ["zun.example"], "api__access_log": False}
    conf = configuration(**options, quota__cpu=-1)
    found = settings(
        max_examples=SEQUENCES,
        phases=set(Phase) - {Phase.explain},
        stateful_step_count=STEPS,
        derandomize=SEQUENCES == CI,
        suppress_health_check=list(HealthCheck),
    )
    front = Front(conf)
    run_state_machine_as_test(lambda: Worlds(lasting_database, conf, front), settings=found)
