# SPDX-License-Identifier: Apache-2.0
"""The process list of a container on a real host, whatever the request asks."""

import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api
from zun.tests.unit.common.samples import NASTY

pytestmark = pytest.mark.docker

WORDS = ["-eouid=PID", "-oargs", "f", "e", "ww", "aux", "-ef", "auxeww", "-o", "pid,args", "uid=PID", "-p", "1", "-N"]


@pytest.fixture
def allinone(on_docker):
    made = on_docker()
    made.api = Api(made.url)
    made.start()
    yield made
    made.api.delete_all()


def test_top_never_shows_another_container(allinone):
    """A process of another project has a secret in its environment and another one in its command line."""
    api, secret = allinone.api, f"secret-{uuid.uuid4().hex}"
    stranger = Api(allinone.url, project="stranger")
    script = f"true {secret}; sleep 1000; true"
    other = stranger.run(command=["sh", "-c", script], environment={"KEY": secret})
    own = api.run(command=["sh", "-c", "sleep 1001; true"], environment={"OWN": f"own-{secret}"})
    stranger.settled(other), api.settled(own)
    path = f"/containers/{own}/top"
    wait_for(lambda: len(api.get(path)["Processes"]) == 2)
    pids = {row[1] for row in api.get(path)["Processes"]}
    assert secret in stranger.request("GET", f"/containers/{other}/top").text  # its own project sees it
    host = stranger.get(f"/containers/{other}/top")["Processes"][0][1]

    def ask(ps_args):
        answer = api.request("GET", path, params={"ps_args": ps_args})
        assert answer.status_code in (200, 400), answer.text
        assert secret not in answer.text
        if answer.status_code == 200:
            shown = answer.json()
            if "PID" in shown["Titles"]:
                assert {row[shown["Titles"].index("PID")] for row in shown["Processes"]} <= pids
        return answer

    # Docker's ps on the host gets none of it, and a second look takes what would show everything for nothing.
    for ps_args in [*NASTY, *WORDS, host, f"-o pid,args {host} 1", "aux", "-ef", "-eo user,args"]:
        ask(ps_args)
    assert ask(host).json()["Processes"] == []
    assert [row[0] for row in ask("-o args").json()["Processes"]] == ["sh -c sleep 1001; true", "sleep 1001"]

    @settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.sampled_from(WORDS) | st.text(alphabet="-aefouxwpid,= 0123456789", max_size=8), max_size=6))
    def anything(words):
        ask(" ".join(words))

    anything()
    stranger.delete_all()
