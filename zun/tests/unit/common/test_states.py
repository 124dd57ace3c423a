# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass

import pytest

from zun.common import exceptions, states
from zun.common.states import Status, TaskState
from zun.tests.unit.common.samples import Row

# The actions that each status allows in Zun's API v1, and what Restarting allows beside: an x allows the action.
MATRIX = """
| Action key | Creating | Created | Running | Stopped | Paused | Error | Unknown | Restarting | Rebuilding | Deleting | Deleted | Dead |
| start | | x | | x | | x | | | | | | |
| stop | | | x | | | | | x | | | | |
| reboot | | x | x | x | | x | | | | | | |
| rebuild | | x | x | x | | x | | | | | | |
| pause | | | x | | | | | | | | | |
| unpause | | | | | x | | | | | | | |
| kill | | | x | | | | | x | | | | |
| execute, execute_resize | | | x | | | | | | | | | |
| attach, resize | | | x | | | | | | | | | |
| top, stats | | | x | | | | | | | | | |
| logs | | x | x | x | x | x | x | x | | | | |
| get_archive, put_archive | | x | x | x | x | | | | | | | |
| update, resize_container, move | | x | x | x | x | | | | | | | |
| leave | | x | x | x | | | | x | | | | |
| add_security_group, remove_security_group | | x | x | x | x | | | | | | | |
| commit | | | x | x | x | | | | | | | |
| delete | | x | | x | | x | | | | | x | x |
| delete_force | x | x | x | x | | x | x | x | x | x | x | x |
| delete_after_stop | | x | x | x | | x | | x | | | x | x |
"""  # noqa: E501


@dataclass
class Restarted:
    """A container whose restart somebody asked for."""

    uuid: str
    name: str = "web"
    status: str = Status.RESTARTING
    task_state: str = TaskState.REBOOTING


def matrix():
    """Action -> status -> allowed, as the text above says."""
    header, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in MATRIX.strip().splitlines()]
    return {
        action: dict(zip(header[1:], [cell == "x" for cell in cells], strict=True))
        for keys, *cells in lines
        for action in keys.split(", ")
    }


def allows(action, status):
    try:
        states.check_action(action, Row("some-uuid", status))
    except exceptions.InvalidStateException:
        return False
    return True


def test_every_action_has_a_rule_and_no_other():
    assert set(states.ALLOWED) == set(matrix())


def test_every_status_is_known_and_no_other():
    assert {str(status) for status in Status} == set(matrix()["start"])


@pytest.mark.parametrize("action", sorted(matrix()))
def test_an_action_is_allowed_as_in_the_matrix(action):
    assert {status: allows(action, status) for status in matrix()[action]} == matrix()[action]


def test_refused_action_names_the_container_and_its_status():
    with pytest.raises(exceptions.InvalidStateException) as caught:
        states.check_action("pause", Row("c-1", Status.STOPPED))
    assert caught.value.code == 409
    assert str(caught.value) == "Cannot pause container web (c-1) in Stopped state; it is possible in Running."


@pytest.mark.parametrize("action", ["stop", "kill"])
def test_a_requested_restart_is_not_interrupted(action):
    with pytest.raises(exceptions.InvalidStateException, match=r"web \(c-1\) while a requested restart"):
        states.check_action(action, Restarted("c-1"))
    states.check_action("delete_after_stop", Restarted("c-1"))


@pytest.mark.parametrize("status", [Status.RUNNING, Status.RESTARTING])
def test_refused_deletion_tells_how_to_stop_with_it(status):
    with pytest.raises(exceptions.InvalidStateException, match=r"stop=true .*appcontainer delete --stop web'\.$"):
        states.check_action("delete", Row("c-1", status))


@pytest.mark.parametrize("action", ["delete", "delete_after_stop", "delete_force"])
def test_refused_deletion_of_a_paused_one_says_unpause(action):
    with pytest.raises(exceptions.InvalidStateException, match=r"Unpause it first: .* unpause web'\.$"):
        states.check_action(action, Row("c-1", Status.PAUSED))


def test_every_action_has_words_for_users():
    assert states.WORDS.keys() == states.ALLOWED.keys()
    assert all(words.count("{}") == 1 and "_" not in words for words in states.WORDS.values())


def test_task_states_are_those_of_zun():
    told = """container_creating container_starting container_stopping container_rebooting container_pausing
        container_unpausing container_killing container_deleting container_rebuilding sg_adding sg_removing
        network_attaching network_detaching"""
    assert {str(state) for state in TaskState} == set(told.split())


# What becomes of a container: the statuses an action leads through, on success and on failure (as in Zun's API v1),
# and what a runtime may say when the action is over (a process that ends at once, a restart policy).
ENDS = ["Stopped", "Restarting", "Dead", "Unknown", "Error", "Paused"]
OUTCOMES = {
    "start": [["Running"], *(["Running", end] for end in ENDS), ["Error"]],
    "stop": [["Stopped"], ["Running"], ["Error"]],
    "reboot": [["Restarting", "Running"], *(["Restarting", end] for end in ENDS)],
    "rebuild": [["Rebuilding", "Created"], ["Rebuilding", "Created", "Running"], ["Rebuilding", "Error"]],
    "pause": [["Paused"], ["Stopped"]],
    "unpause": [["Running"], ["Stopped"]],
    "kill": [["Stopped"], ["Running"], ["Restarting"]],
    "commit": [["Paused", "Running"]],
    "delete": [["Deleting"], ["Deleting", "Error"]],
    "delete_force": [["Deleting"]],
    "delete_after_stop": [["Deleting"], ["Deleting", "Error"]],
}


@pytest.mark.parametrize("action", OUTCOMES)
def test_every_outcome_of_an_allowed_action_is_a_legal_way(action):
    for start in states.ALLOWED[action]:
        for way in OUTCOMES[action]:
            # A commit pauses what runs, nothing else.
            if action == "commit" and start != Status.RUNNING:
                continue
            for old, new in zip([start, *way], way, strict=False):
                assert new == old or new in states.TRANSITIONS[old]


@pytest.mark.parametrize("new", ["Created", "Running", "Stopped", "Restarting", "Error", "Deleting"])
def test_creation_may_end_in_any_status_of_the_first_process(new):
    assert new in states.TRANSITIONS[Status.CREATING]


@pytest.mark.parametrize("old", sorted(set(Status) - {Status.CREATING, Status.DELETING, Status.DELETED}))
def test_created_container_may_change_to_any_runtime_status(old):
    seen = {"Running", "Stopped", "Paused", "Error", "Unknown", "Restarting", "Dead", "Deleted"}
    assert seen <= states.TRANSITIONS[old]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("Running", "Creating", id="nothing-is-created-twice"),
        pytest.param("Error", "Creating", id="an-error-is-not-retried-in-place"),
        pytest.param("Creating", "Paused", id="a-creation-does-not-pause"),
        pytest.param("Creating", "Deleted", id="a-creation-does-not-vanish"),
        pytest.param("Deleting", "Running", id="a-delete-is-not-taken-back"),
        pytest.param("Deleting", "Stopped", id="a-late-observation-does-not-stop-a-delete"),
        pytest.param("Deleted", "Running", id="the-dead-do-not-rise"),
        pytest.param("Deleted", "Error", id="a-removed-object-is-no-error"),
        pytest.param("Paused", "Rebuilding", id="unpause-first"),
    ],
)
def test_there_is_no_such_way(old, new):
    assert new not in states.TRANSITIONS[old]


def test_every_status_can_change_but_none_back_to_creating():
    assert set(states.TRANSITIONS) == set(Status)
    assert all(states.TRANSITIONS.values())
    assert not any(Status.CREATING in following for following in states.TRANSITIONS.values())
