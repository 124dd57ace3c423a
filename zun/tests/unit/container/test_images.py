# SPDX-License-Identifier: Apache-2.0
import contextlib
import threading
import types
from typing import Any

import pytest
from docker import errors as docker_errors

from zun.common import exceptions
from zun.common.single_flight import SingleFlight
from zun.container.docker.images import (
    DockerImages,
    Layers,
    _pull_failed,
    forgotten,
    image_facts,
    local_images,
    search_result,
)
from zun.container.driver.images import ImageFacts, LocalImage, RegistryAuth
from zun.tests.unit.container.samples import Sample


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, ImageFacts("sha256:1")),
        ({"Entrypoint": None, "Cmd": None}, ImageFacts("sha256:1")),
        ({"Entrypoint": ["/init"], "Cmd": ["-v"]}, ImageFacts("sha256:1", ("/init",), ("-v",))),
    ],
)
def test_image_facts(config: dict[str, Any] | None, expected: ImageFacts) -> None:
    assert image_facts({"Id": "sha256:1", "Config": config}) == expected


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("ab", False),
        ("abc1a", False),
        ("sha256:abc", False),
        (f"sha256:{'abc1' * 16}", True),
        ("busybox", True),
        ("feed/beef", True),
    ],
)
def test_digits_of_an_id_are_no_image(asked: str, found: bool) -> None:
    """Docker finds an image of the host by them, whoever made it."""
    there = {"busybox", "feed/beef"}

    def inspect(image: str) -> dict[str, Any]:
        if image not in there and not ("abc1" * 16).startswith(image.removeprefix("sha256:")):
            raise docker_errors.ImageNotFound(image)
        return {"Id": "sha256:1"}

    engine: Any = types.SimpleNamespace(
        api=types.SimpleNamespace(inspect_image=inspect),
        translated=lambda *_: contextlib.nullcontext(),
        settings=types.SimpleNamespace(host_label="h1"),
    )
    images = DockerImages(engine)
    assert images.find_image(asked) == (ImageFacts("sha256:1") if found else None)


def test_size_of_an_image() -> None:
    assert image_facts({"Id": "sha256:1", "Size": 7}).size == 7


def test_how_far_a_pull_is() -> None:
    layers, texts = Layers(), []

    def step(status: str, layer: str | None = None, current: int = 0, total: int = 0) -> None:
        told = {"status": status, "progressDetail": {"current": current, "total": total} if total else {}}
        if layers.take(told | ({"id": layer} if layer else {})):
            texts.append(str(layers))

    step("Pulling from library/busybox", "latest")
    step("Pulling fs layer", "a")
    step("Already exists", "b")
    step("Downloading", "a", 3 << 20, 8 << 20)
    step("Download complete", "a")
    step("Extracting", "a", 1 << 20, 9 << 20)
    step("Pull complete", "a")
    step("Digest: sha256:1")
    assert texts == [
        "Pulling the image: 0 %, 0 of 1 layers",
        "Pulling the image: 50 %, 1 of 2 layers",
        "Pulling the image: 68 %, 1 of 2 layers, 3 of 8 MiB",
        "Pulling the image: 99 %, 1 of 2 layers, 8 of 8 MiB",
        "Pulling the image: 99 %, 1 of 2 layers, 8 of 8 MiB",
        "Pulling the image: 100 %, 2 of 2 layers, 8 of 8 MiB",
    ]


def test_result_of_a_search() -> None:
    found = {"name": "busybox", "description": "small", "star_count": 5, "is_official": True, "is_automated": False}
    assert search_result(found) == {
        "name": "busybox",
        "description": "small",
        "is_automated": False,
        "metadata": {"is_official": True, "star_count": 5},
    }


@pytest.mark.parametrize(
    ("entrypoint", "command", "expected"),
    [
        (None, None, (["/init"], ["serve"])),
        (None, ["check"], (["/init"], ["check"])),
        (["/sh"], None, (["/sh"], None)),
        (["/sh"], ["-c", "x"], (["/sh"], ["-c", "x"])),
        ([], [], (["/init"], ["serve"])),
    ],
)
def test_what_an_image_and_a_request_run(
    entrypoint: list[str] | None, command: list[str] | None, expected: tuple[list[str] | None, list[str] | None]
) -> None:
    assert ImageFacts("sha256:1", ("/init",), ("serve",)).invocation(entrypoint, command) == expected


def test_image_that_sets_nothing() -> None:
    assert ImageFacts("sha256:1").invocation(None, None) == (None, None)


def test_password_is_not_shown() -> None:
    assert "secret" not in repr(RegistryAuth("ann", "secret"))


class CountedKey:
    """A key that tells how often it was looked up, which happens under the lock."""

    def __init__(self) -> None:
        self.looked_up = threading.Semaphore(0)

    def __hash__(self) -> int:
        self.looked_up.release()
        return 1


@pytest.mark.parametrize("error", [None, LookupError("no image")])
def test_many_who_want_the_same_do_it_once(error: Exception | None) -> None:
    flight, key = SingleFlight(), CountedKey()
    started, finish = threading.Event(), threading.Event()
    runs: list[int] = []
    outcomes: list[BaseException | None] = []

    def work() -> None:
        runs.append(1)
        started.set()
        assert finish.wait(60)
        if error is not None:
            raise error

    def want() -> None:
        try:
            flight.do(key, work)
            outcomes.append(None)
        except LookupError as exc:
            outcomes.append(exc)

    threads = [threading.Thread(target=want) for _ in range(5)]
    threads[0].start()
    assert started.wait(60)
    while key.looked_up.acquire(blocking=False):
        pass
    for thread in threads[1:]:
        thread.start()
    for _ in threads[1:]:
        assert key.looked_up.acquire(timeout=60)
    finish.set()
    for thread in threads:
        thread.join(60)
    assert outcomes == [error] * 5
    assert runs == [1]


def test_others_do_not_wait_and_the_next_does_it_again() -> None:
    flight = SingleFlight()
    runs: list[str] = []

    def work() -> None:
        runs.append("outer")
        flight.do("another", lambda: runs.append("inner"))

    flight.do("image", work)
    flight.do("image", work)
    assert runs == ["outer", "inner", "outer", "inner"]


@pytest.mark.parametrize(
    ("reason", "next_step"),
    [
        ("toomanyrequests: You have reached your pull rate limit", "Try again later"),
        ("write /data/x: no space left on device", "disk of the host is full"),
    ],
)
def test_why_a_pull_failed_and_what_to_do(reason: str, next_step: str, caplog: pytest.LogCaptureFixture) -> None:
    said = str(_pull_failed("web:1", reason))
    assert next_step in said and reason not in said
    assert reason in caplog.text


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("manifest unknown: manifest unknown", exceptions.ImageNotFound),
        ("unauthorized: authentication required", exceptions.DockerError),
        ("dial tcp 127.0.0.1:9: connect: connection refused", exceptions.DockerError),
        ("error parsing HTTP 400 response body: invalid character: \"SSH-2.0-OpenSSH_9.2\"", exceptions.DockerError),
    ],
)
def test_reason_of_a_failed_pull_is_for_the_log(
    reason: str, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    failed = _pull_failed("registry.example:5000/web:1", reason)
    assert type(failed) is error
    assert str(failed).startswith(
        "Image registry.example:5000/web:1 could not be pulled from registry.example:5000: not found or not permitted. "
        "Check its name and tag."
    )
    assert reason not in str(failed) and reason in caplog.text


FORGOTTEN = [
    'LABEL zun.uuid=""', 'LABEL zun.host=""', "ENV ZUN_CPUSET_CPUS=", "ENV ZUN_CPUSET_MEMS=", "ENV ZUN_DEDICATED_CPUS=",
    "ENV ZUN_DEVICES=",
]


@pytest.mark.parametrize(
    ("mine", "of_image", "added", "expected"),
    [
        ({}, [], [], []),
        ({"A": "b", "N": 1}, ["PATH=/bin"], [], []),
        ({"A=b": "c"}, [], [], []),
        ({}, [], ["ZUN_CPUSET_CPUS=2-3", "ZUN_CPUSET_MEMS=1", "ZUN_DEVICES"], []),
        ({}, [], ["ZUN_DEDICATED_CPUS=2", "ZUN_DEVICES=gpu=0000:81:00.0"], []),
        ({}, ["ZUN_DEVICES=x=/dev/sda"], ["ZUN_DEVICES"], []),
        ({}, [], ["NVIDIA_VISIBLE_DEVICES=GPU-aa"], ['ENV NVIDIA_VISIBLE_DEVICES=""']),
        ({}, ["NVIDIA_VISIBLE_DEVICES=all"], ["NVIDIA_VISIBLE_DEVICES=void"], ['ENV NVIDIA_VISIBLE_DEVICES="all"']),
        ({"L": "/m"}, ["L=/i", "M=/i"], ["L=/cdi", "M=/cdi"], ['ENV L="/m"', 'ENV M="/i"']),
        ({}, ["L=/same"], ["L=/same"], []),
        ({"L": 'a "b" $C \\d'}, [], ["L=/cdi"], ['ENV L="a \\"b\\" \\$C \\\\d"']),
        ({"L": "a\nENV B=c"}, [], ["L=/cdi"], ["ENV L="]),
        ({"A": "b"}, None, ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=GPU-aa"], ['ENV NVIDIA_VISIBLE_DEVICES=""']),
        ({}, None, ["PATH=/bin"], []),
    ],
)
def test_what_an_image_forgets_of_its_container(
    mine: dict[str, Any], of_image: list[str] | None, added: list[str], expected: list[str]
) -> None:
    """``added`` is what the service gave the container beside, or in the place of, the image's and the user's."""
    given = [*(of_image or ()), *(f"{name}={value}" for name, value in mine.items())]
    present = {each.partition("=")[0]: each for each in (*given, *added)}
    assert forgotten(Sample(environment=mine), present.values(), of_image) == [*FORGOTTEN, *expected]


def test_images_on_the_host() -> None:
    listed = [
        {"Id": "1", "RepoTags": ["reg:5000/lib/web:2", "reg:5000/lib/web:1", "other:1"], "Size": 7},
        {"Id": "2", "RepoTags": ["reg:5000/lib/web:old"], "Size": 8},
        {"Id": "3", "RepoTags": ["zun-commit:some-web-uuid"]},
        {"Id": "4", "RepoTags": None},
        {"Id": "5", "RepoTags": ["<none>:<none>"]},
    ]
    web = [LocalImage("reg:5000/lib/web", ("1", "2"), "1", 7), LocalImage("reg:5000/lib/web", ("old",), "2", 8)]
    assert local_images(listed, "lib/web") == web
    assert local_images(listed, "") == [LocalImage("other", ("1",), "1", 7), *web]
    digests = ["other@sha256:1", "reg:5000/lib/web@sha256:1"]
    told = local_images([{**each, "RepoDigests": digests} for each in listed], "other")
    assert [each.digests for each in told] == [tuple(digests)]
    assert local_images(listed, "old") == local_images(listed, "zun-commit") == local_images(listed, "none") == []
