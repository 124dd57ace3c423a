# SPDX-License-Identifier: Apache-2.0
"""Files into and out of real containers, by the real client and by hand, and what that costs in memory."""

import base64
import io
import tarfile
import uuid

import pytest

from zun.compute.images.sessions import Archives, Space
from zun.container.docker import DockerDriver
from zun.container.docker.client import Settings
from zun.tests.integration.programs import Api, Client
from zun.tests.integration.transfers import SECONDS, SIZE, Growth, there_and_back
from zun.tests.unit.container.samples import Sample

pytestmark = pytest.mark.docker


@pytest.fixture
def api(on_docker):
    made = on_docker(docker={"execute_timeout": 60})
    made.start()
    api = Api(made.url)
    api.pid = made.process.pid
    yield api
    api.delete_all()


def tar_of(*members):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


def test_the_client_copies(api, tmp_path):
    running = api.settled(api.run(name="files"))
    assert running["status"] == "Running", running["status_reason"]
    client = Client(api.url)
    (tmp_path / "sent").write_text("hello\n")
    client("appcontainer", "cp", str(tmp_path / "sent"), "files:/root")
    output = api.request("POST", "/containers/files/execute?command=cat%20/root/sent").json()["output"]
    assert output == "hello\n"
    (tmp_path / "back").mkdir()
    client("appcontainer", "cp", "files:/root/sent", str(tmp_path / "back"))
    assert (tmp_path / "back" / "sent").read_text() == "hello\n"


@pytest.mark.timeout(SECONDS)
@pytest.mark.slow
def test_large_archives_do_not_fill_the_memory(api):
    """API and host are one process here and hold a few pieces each, however large the archive is."""
    uuid_ = api.run()
    assert api.settled(uuid_)["status"] == "Running"
    with Growth.measured(api.pid) as grown:
        put, get = there_and_back(api, uuid_)
    print(f"\n{SIZE >> 20} MiB: put {put:.1f} s, get {get:.1f} s, all-in-one + {grown.mib[api.pid]:.0f} MiB")
    assert grown.mib[api.pid] < 80


def test_bad_paths_and_archives(api):
    uuid_ = api.run()
    assert api.settled(uuid_)["status"] == "Running"

    def put(path, data):
        body = {"data": base64.b64encode(data).decode()}
        return api.request("POST", f"/containers/{uuid_}/put_archive?path={path}", json=body)

    good = tar_of(("x", b"x"))
    for path, data in (("/nothing", good), ("/bin/busybox", good), ("/tmp", b"no tar at all" * 200)):
        reply = put(path, data)
        assert reply.status_code == 400, (path, reply.text)
    reply = api.request("GET", f"/containers/{uuid_}/get_archive?path=/nothing")
    assert (reply.status_code, reply.json()["errors"][0]["code"]) == (400, "container.invalid-value")


def test_who_copies_slowly_holds_nobody_up(docker_url, tmp_path):
    """Docker locks a container while an archive of it is under way."""
    driver = DockerDriver(Settings(docker_url, f"test-{uuid.uuid4().hex[:8]}", network_mode="none", default_timeout=20))
    transfers = Archives(driver, Space(tmp_path, 100))
    container = Sample(command=["sleep", "600"])
    driver.create(container, cpuset_cpus="0", cpuset_mems="0")
    try:
        driver.start(container)
        driver.execute(container, ["dd", "if=/dev/zero", "of=/large", "bs=1M", "count=32"], 60)
        transfers.pull(transfers.open_get(container, "/large")["id"])
        transfers.push(transfers.open_put(container, "/tmp"), base64.b64encode(b"only the begin").decode())
        driver.update(container, cpuset_cpus="0")
        assert driver.show(container).pid
    finally:
        driver.delete(container, force=True)


def test_an_archive_cannot_write_outside_of_its_container(docker_url, tmp_path):
    """Neither by names that climb nor through links. /tmp of the host would show it."""
    driver = DockerDriver(Settings(docker_url, f"test-{uuid.uuid4().hex[:8]}", network_mode="none"))
    container, target = Sample(), tmp_path / "written"
    driver.create(container, cpuset_cpus="0", cpuset_mems="0")
    try:
        climbing = "../" * 20 + str(target).lstrip("/")
        through = tar_of(("out", str(tmp_path)), ("out/written", b"bad"))
        for data in (tar_of((climbing, b"bad")), through):
            try:
                driver.put_archive(container, "/tmp", iter([data]))
            except Exception as exc:
                assert "path" in str(exc) or "archive" in str(exc) or "breakout" in str(exc), exc
            assert not target.exists()
        chunks, _ = driver.get_archive(container, "/tmp")
        assert b"".join(chunks)
    finally:
        driver.delete(container, force=True)
