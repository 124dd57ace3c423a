# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from oslo_context import context as oslo_context

from zun.common.context import RequestContext, admin_context


@pytest.mark.parametrize(
    ("roles", "is_admin"),
    [
        pytest.param(["admin"], True, id="admin"),
        pytest.param(["member", "Admin"], True, id="role-names-know-no-case"),
        pytest.param(["member", "reader"], False, id="member"),
        pytest.param(["administrator", "not-admin"], False, id="whole-names-only"),
        pytest.param([], False, id="no-role"),
        pytest.param(None, False, id="roles-unknown"),
    ],
)
def test_an_administrator_is_who_has_the_role(roles, is_admin):
    assert RequestContext(user_id="u", project_id="p", roles=roles).is_admin is is_admin


def test_nobody_becomes_administrator_by_saying_so():
    assert RequestContext(user_id="u", project_id="p", roles=["member"], is_admin=True).is_admin is False


@pytest.mark.parametrize("form", [RequestContext.to_dict, RequestContext.to_message])
@pytest.mark.parametrize("roles", [["member"], ["admin", "member"], []])
def test_a_context_travels_whole(roles, form):
    known = {"request_id": "req-1", "global_request_id": "req-2"}
    sent = RequestContext(user_id="alice", project_id="demo", roles=roles, **known)
    got = RequestContext.from_dict(json.loads(json.dumps(form(sent))))
    names = ("user_id", "project_id", "roles", "is_admin", *known)
    assert {name: getattr(got, name) for name in names} == {name: getattr(sent, name) for name in names}


def test_the_token_of_the_caller_does_not_travel():
    context = RequestContext(user_id="alice", project_id="demo", auth_token="secret-token")
    assert "secret-token" not in json.dumps(context.to_dict())
    assert "secret-token" not in json.dumps(context.to_message())
    assert "secret-token" not in json.dumps(context.get_logging_values())


def test_a_forged_message_gives_no_administrator():
    forged = {**RequestContext(user_id="eve", project_id="p", roles=["member"]).to_dict(), "is_admin": True}
    assert RequestContext.from_dict(forged).is_admin is False


def test_admin_context_is_admin_and_keeps_the_threads_context():
    mine = RequestContext(user_id="alice", project_id="demo")
    assert admin_context().is_admin is True
    assert oslo_context.get_current() is mine
    assert admin_context("req-7").request_id == "req-7"
