# SPDX-License-Identifier: Apache-2.0
"""Images of the host: pull, name, list, remove and make them."""

import contextlib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from docker import APIClient
from docker import errors as docker_errors

from zun.common import exceptions
from zun.common.image_reference import DOCKER_HUB, INTERNAL, Reference
from zun.common.single_flight import SingleFlight
from zun.common.units import MIB
from zun.container.docker.client import LABEL_HOST, LABEL_UUID, Engine, OnEngine, object_name
from zun.container.docker.create import CLAIM_VARIABLES
from zun.container.docker.devices import NVIDIA_VARIABLE
from zun.container.docker.errors import failure_in, says, unbroken
from zun.container.driver.container import ContainerView
from zun.container.driver.images import ImageFacts, LocalImage, RegistryAuth

LOG = logging.getLogger(__name__)

_SHORT_ID = re.compile("(sha256:)?[0-9a-f]{1,63}")


class DockerImages(OnEngine):
    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._pulls = SingleFlight()

    def find_image(self, image: str) -> ImageFacts | None:
        with self._engine.translated(f"inspect image {image}"):
            try:
                return self._facts(self._engine.api, by_name(image))
            except docker_errors.NotFound:
                return None

    def image_digest(self, image: str, auth: RegistryAuth | None = None) -> str:
        self.settings.registries.check_image(image)
        with self._engine.translated(f"ask the registry for image {image}"):
            try:
                answer = self._engine.api.inspect_distribution(image, _credentials(auth))
            except docker_errors.APIError as exc:
                raise _pull_failed(image, str(exc.explanation)) from exc
        return str(answer["Descriptor"]["digest"])

    def pull_image(
        self, image: str, auth: RegistryAuth | None = None, progress: Callable[[str], None] | None = None
    ) -> ImageFacts:
        self.settings.registries.check_image(image)
        self._pulls.do((image, auth), lambda: self._pull(image, auth, progress))
        found = self.find_image(image)
        if found is None:
            raise exceptions.ImageNotFound(f"Image {image} was pulled and is gone again: does something remove images?")
        return found

    def tag_image(self, image: str, name: str) -> None:
        reference = Reference.parse(name)
        with self._engine.translated(f"name image {image}"):
            self._engine.api.tag(image, reference.repo, reference.version)

    def image_digests(self) -> Sequence[str]:
        with self._engine.translated("list images"):
            return [digest for image in self._engine.api.images() for digest in image.get("RepoDigests") or ()]

    def remove_image(self, image: str) -> None:
        with self._engine.translated(f"remove image {image}"), contextlib.suppress(docker_errors.NotFound):
            self._engine.api.remove_image(image)

    def commit(self, container: ContainerView, name: str) -> ImageFacts:
        repository, _, tag = name.rpartition(":")
        with self._engine.translated("make an image of", container), self._engine.patient() as api:
            found = api.inspect_container(object_name(container.uuid))
            changes = forgotten(container, found["Config"].get("Env"), self._environment(api, found["Image"]))
            api.commit(found["Id"], repository, tag or "latest", changes=changes)
            return self._facts(api, name)

    @staticmethod
    def _environment(api: APIClient, image: str) -> Iterable[str] | None:
        """Return the variables of the image that a container was made from, or None if somebody removed the image."""
        try:
            return (api.inspect_image(image).get("Config") or {}).get("Env") or ()
        except docker_errors.NotFound:
            return None

    @staticmethod
    def _facts(api: APIClient, name: str) -> ImageFacts:
        """Return the facts of an image, with one size. Raises docker-py's errors.

        containerd's image store tells two: of the compressed content when it is asked for one image, and with the
        unpacked files in a list. The second is what the image takes of the disk.
        """
        facts = image_facts(api.inspect_image(name))
        if facts.names and any(digest.endswith(f"@{facts.image_id}") for digest in facts.digests):
            listed = api.images(facts.names[0])
            size = next((int(each["Size"]) for each in listed if each["Id"] == facts.image_id), facts.size)
            return replace(facts, size=size)
        return facts

    def load_image(self, archive: Iterable[bytes]) -> None:
        with self._engine.translated("load an image"), self._engine.patient() as api:
            try:
                for step in api.load_image(iter(archive)):
                    if reason := failure_in(step):
                        raise _load_failed(reason)
            except docker_errors.APIError as exc:
                raise _load_failed(str(exc.explanation)) from exc

    def save_image(self, image: str) -> Iterator[bytes]:
        with self._engine.translated(f"save image {image}"), self._engine.patient() as api:
            yield from unbroken(api.get_image(image))

    def find_images(self, term: str) -> Sequence[LocalImage]:
        with self._engine.translated("list images"):
            return local_images(self._engine.api.images(), term)

    def images_of(self, repository: str) -> Sequence[LocalImage]:
        with self._engine.translated("list images"):
            found = local_images(self._engine.api.images(repository), repository, hidden=())
            return [each for each in found if each.name == repository]

    def search_images(self, term: str) -> Sequence[Mapping[str, Any]]:
        self.settings.registries.check_term(term)
        with self._engine.translated(f"search for images called {term}"):
            try:
                return [search_result(each) for each in self._engine.api.search(term)]
            except docker_errors.APIError as exc:
                LOG.warning("The registry could not be asked for %s: %s", term, exc.explanation)
                raise exceptions.Unavailable(
                    f"The registry could not be asked for {term}. Images can only be searched at Docker's own registry "
                    "and at those that know its old API; the log of zun-compute says more."
                ) from exc

    def _pull(self, image: str, auth: RegistryAuth | None, progress: Callable[[str], None] | None) -> None:
        LOG.info("Pulling image %s", image)
        layers = Layers()
        with self._engine.translated(f"pull image {image}"):
            try:
                for step in self._engine.api.pull(image, stream=True, decode=True, auth_config=_credentials(auth)):
                    if reason := failure_in(step):
                        raise _pull_failed(image, reason)
                    if progress is not None and layers.take(step):
                        progress(str(layers))
            except docker_errors.APIError as exc:
                raise _pull_failed(image, str(exc.explanation)) from exc


def by_name(image: str) -> str:
    """Return a spelling of ``image`` that Docker takes for a name: ``docker.io/library/beef`` for ``beef``.

    Docker takes hexadecimal digits, two suffice, for the beginning of an image id. The image of that id may belong to
    another project.
    """
    return f"docker.io/library/{image}" if _SHORT_ID.fullmatch(image) else image


def forgotten(container: ContainerView, present: Iterable[str] | None, of_image: Iterable[str] | None) -> list[str]:
    """Return Dockerfile lines that take the claim's labels and variables out of an image made from ``container``.

    The agent finds its objects by these labels, so a container that somebody else made from the image would pass for
    one of the agent's. Docker can only set labels and variables to empty values, for example ``LABEL zun.uuid=""``.

    ``present`` are the variables of Docker's object, ``of_image`` those of its image, None if that is not known. What
    neither the user nor the image gave came with a device, for example ``NVIDIA_VISIBLE_DEVICES`` or a variable of a
    CDI file: such a variable gets back the value that the device's replaced, or is emptied.
    """
    before = _pairs(of_image) | _pairs(f"{name}={value}" for name, value in (container.environment or {}).items())
    ours = [name for name, value in _pairs(present).items() if before.get(name) != value]
    if of_image is None:
        ours = [name for name in ours if name == NVIDIA_VARIABLE]
    lines = [f'LABEL {name}=""' for name in (LABEL_UUID, LABEL_HOST)]
    lines += [f"ENV {name}=" for name in CLAIM_VARIABLES]
    lines += [f"ENV {name}={_quoted(before.get(name, ''))}" for name in ours if name not in CLAIM_VARIABLES]
    return lines


def _pairs(environment: Iterable[str] | None) -> dict[str, str]:
    """Return the values of variables by name. Docker writes ``NAME=value``; a bare name has no value."""
    return {name: value for name, equals, value in (each.partition("=") for each in environment or ()) if equals}


def _quoted(value: str) -> str:
    """Return the value as a Dockerfile has it. A line can hold no line break: such a value is emptied."""
    if not value.isprintable():
        return ""
    return '"' + re.sub(r'(["$\\])', r"\\\1", value) + '"'


def local_images(
    listed: Sequence[Mapping[str, Any]], term: str, hidden: Collection[str] = INTERNAL
) -> list[LocalImage]:
    """Return one LocalImage for each name in Docker's list that contains ``term``, except ``hidden`` names."""
    found: dict[tuple[str, str], tuple[list[str], int, tuple[str, ...]]] = {}
    for image in listed:
        for whole in image.get("RepoTags") or ():
            name, _, tag = whole.rpartition(":")
            if term in name and name not in (*hidden, "<none>"):
                digests = tuple(image.get("RepoDigests") or ())
                found.setdefault((name, image["Id"]), ([], int(image.get("Size") or 0), digests))[0].append(tag)
    return [
        LocalImage(name, tuple(sorted(tags)), ident, size, digests)
        for (name, ident), (tags, size, digests) in sorted(found.items())
    ]


class Layers:
    """The progress of a pull, from Docker's messages about layers. ``str()`` is a text for people."""

    def __init__(self) -> None:
        self._done: dict[str, bool] = {}
        self._bytes: dict[str, tuple[int, int]] = {}  # layer -> (bytes so far, bytes in total)

    def take(self, step: Mapping[str, Any]) -> bool:
        """Record one message, and return whether it was about a layer."""
        layer, status = step.get("id"), step.get("status") or ""
        if not layer or status.startswith("Pulling from"):
            return False
        self._done[layer] = status in ("Pull complete", "Already exists")
        detail = step.get("progressDetail") or {}
        if status == "Downloading" and detail.get("total"):
            self._bytes[layer] = (detail.get("current") or 0, detail["total"])
        elif layer in self._bytes and status != "Downloading":
            self._bytes[layer] = (self._bytes[layer][1],) * 2
        return True

    def __str__(self) -> str:
        done, total = (sum(each) for each in zip(*self._bytes.values(), strict=True)) if self._bytes else (0, 0)
        whole = sum(self._done.values()) + sum(
            so_far / of for layer, (so_far, of) in self._bytes.items() if not self._done[layer]
        )
        percent = 100 if all(self._done.values()) else min(int(100 * whole / len(self._done)), 99)
        text = f"Pulling the image: {percent} %, {sum(self._done.values())} of {len(self._done)} layers"
        return f"{text}, {done // MIB} of {total // MIB} MiB" if total >= MIB else text


def image_facts(inspected: Mapping[str, Any]) -> ImageFacts:
    config = inspected.get("Config") or {}
    return ImageFacts(
        image_id=inspected["Id"],
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        size=int(inspected.get("Size") or 0),
        digests=tuple(inspected.get("RepoDigests") or ()),
        names=tuple(inspected.get("RepoTags") or ()),
    )


def search_result(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the API's form of one search result. Fields of Docker's own registry alone go to ``metadata``."""
    metadata = {"is_official": bool(found.get("is_official")), "star_count": found.get("star_count", 0)}
    others = {name: value for name, value in found.items() if name not in metadata}
    return {**others, "metadata": metadata}


def _credentials(auth: RegistryAuth | None) -> dict[str, str]:
    """Return docker-py's ``auth_config``. For None docker-py would read ~/.docker/config.json of the service's user."""
    return {"username": auth.username, "password": auth.password} if auth else {}


def _load_failed(reason: str) -> exceptions.ZunError:
    if says(reason, "no space left on device"):
        return exceptions.DockerError("The image could not be loaded: the disk of Docker is full on the host.")
    return exceptions.Invalid(f"Docker cannot load the image: {reason}")


def _pull_failed(image: str, reason: str) -> exceptions.ZunError:
    """Return the error for Docker's ``reason``, and log the reason for the operator.

    The registry chooses the words of the reason, and may redirect the daemon to a service that only the host reaches.
    So users read one and the same text for a missing image, a private image and an address without a registry.
    """
    LOG.warning("Image %s could not be pulled: %s", image, reason)
    if says(reason, "toomanyrequests", "too many requests"):
        return exceptions.DockerError(
            f"Image {image} could not be pulled: its registry limits pulls. Try again later, or create the container "
            "with --registry and an account that may pull more."
        )
    if says(reason, "no space left on device"):
        return exceptions.DockerError(
            f"Image {image} could not be pulled: the disk of the host is full. Tell its operator, or create the "
            "container on another host."
        )
    # ImageNotFound ends the search for a host. Other hosts may reach a registry that does not answer this host.
    missing = says(reason, "not found", "manifest unknown", "does not exist", "access denied")
    return (exceptions.ImageNotFound if missing else exceptions.DockerError)(
        f"Image {image} could not be pulled from {_registry(image)}: not found or not permitted. Check its name and "
        "tag. If it is private, store its account with 'openstack appcontainer registry create', create the container "
        "with --registry, and check that account. The log of zun-compute has the registry's answer."
    )


def _registry(image: str) -> str:
    return Reference.parse(image).domain or DOCKER_HUB
