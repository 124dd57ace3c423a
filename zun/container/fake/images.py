# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's images."""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from zun.common import exceptions
from zun.common.image_reference import INTERNAL
from zun.container.driver.container import ContainerView
from zun.container.driver.images import ImageFacts, LocalImage, RegistryAuth
from zun.container.fake.operations import OnRuntime

_UNTAGGED = re.compile(r":[^:/@]+@")


class InMemoryImages(OnRuntime):
    """Images by name: ``images`` on the host (None: every image is there), ``registry`` for a pull to bring."""

    def __init__(
        self, *, images: Mapping[str, ImageFacts] | None, registry: Mapping[str, ImageFacts] | None, **more: Any
    ) -> None:
        super().__init__(**more)
        self.images = None if images is None else dict(images)
        self.registry = dict(registry or {})
        self.pulls: list[str] = []
        self.credentials: list[RegistryAuth | None] = []
        self.accounts: dict[str, RegistryAuth] = {}  # domain of a registry -> the credentials that it accepts
        self.commits: dict[str, str] = {}  # name of an image -> uuid of its container

    def find_image(self, image: str) -> ImageFacts | None:
        with self._operation("find_image", None):
            return self._here(image)

    def _here(self, image: str) -> ImageFacts | None:
        if self.images is None:
            return ImageFacts(image_id=f"sha256:{image}")
        untagged = _UNTAGGED.sub("@", image)  # a digest overrides a tag
        known = (each for each in self.images.values() if untagged in (each.image_id, *each.digests))
        found = self.images.get(image) or next(known, None)
        if found is None:
            return None
        names = (name for name, facts in self.images.items() if facts.image_id == found.image_id and "@" not in name)
        return replace(found, names=tuple(names))

    def image_digest(self, image: str, auth: RegistryAuth | None = None) -> str:
        with self._operation("image_digest", None):
            return self._at_registry(image, auth).digests[0].partition("@")[2]

    def pull_image(
        self, image: str, auth: RegistryAuth | None = None, progress: Callable[[str], None] | None = None
    ) -> ImageFacts:
        with self._operation("pull_image", None):
            if self.images is None:
                return ImageFacts(image_id=f"sha256:{image}")
            self.pulls.append(image)
            self.credentials.append(auth)
            if progress is not None:
                progress(f"Pulling {image}")
            self.images[image] = self._at_registry(image, auth)
            return self.images[image]

    def _at_registry(self, image: str, auth: RegistryAuth | None) -> ImageFacts:
        """Return the registry's image of this name or digest. ImageNotFound if it has none, or ``auth`` is wrong."""
        wanted = self.accounts.get(image.partition("/")[0])
        for name, facts in self.registry.items():
            repository = name.rpartition(":")[0]
            digest = f"{repository}@sha256:{hashlib.sha256(facts.image_id.encode()).hexdigest()}"
            if image in (name, digest) and wanted in (None, auth):
                return replace(facts, digests=(digest,))
        raise exceptions.ImageNotFound(image=image)

    def tag_image(self, image: str, name: str) -> None:
        with self._operation("tag_image", None):
            found = self._here(image)
            if found is None:
                raise exceptions.ImageNotFound(image=image)
            if self.images is not None:
                self.images[name] = found

    def image_digests(self) -> Sequence[str]:
        with self._operation("image_digests", None):
            return [digest for facts in (self.images or {}).values() for digest in facts.digests]

    def remove_image(self, image: str) -> None:
        with self._operation("remove_image", None):
            if self.images is not None and (gone := self.images.pop(image, None)) is not None:
                names = [name for name, facts in self.images.items() if facts.image_id == gone.image_id]
                if all("@" in name for name in names):  # like Docker: digests go with the last tag
                    for name in names:
                        del self.images[name]

    def commit(self, container: ContainerView, name: str) -> ImageFacts:
        with self._operation("commit", container):
            found = self._find(container)
            self.commits[name] = found.uuid
            facts = ImageFacts(f"sha256:{name}", size=1000)
            if self.images is not None:
                self.images[name] = facts
            return facts

    def load_image(self, archive: Iterable[bytes]) -> None:
        with self._operation("load_image", None):
            data = b"".join(archive)
            try:
                with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                    manifest = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
            except (tarfile.TarError, KeyError, ValueError) as exc:
                raise exceptions.Invalid(f"cannot load the image: {exc}") from exc
            for entry in manifest:
                # The name of its configuration stands for the content of the image.
                facts = ImageFacts(f"sha256:{entry['Config']}", size=len(data))
                if self.images is not None:
                    self.images |= dict.fromkeys(entry["RepoTags"], facts)

    def save_image(self, image: str) -> Iterator[bytes]:
        with self._operation("save_image", None):
            found = self._here(image)
            if found is None:
                raise exceptions.ImageNotFound(image=image)
            manifest = [{"Config": found.image_id.removeprefix("sha256:"), "RepoTags": [image], "Layers": []}]
            data, info, buffer = json.dumps(manifest).encode(), tarfile.TarInfo("manifest.json"), io.BytesIO()
            info.size = len(data)
            with tarfile.open(fileobj=buffer, mode="w") as tar:
                tar.addfile(info, io.BytesIO(data))
        yield buffer.getvalue()

    def images_of(self, repository: str) -> Sequence[LocalImage]:
        with self._operation("images_of", None):
            named = sorted((*name.rpartition(":")[::2], facts) for name, facts in (self.images or {}).items())
            return [
                LocalImage(name, (tag,), facts.image_id, facts.size, facts.digests)
                for name, tag, facts in named
                if name == repository
            ]

    def find_images(self, term: str) -> Sequence[LocalImage]:
        with self._operation("find_images", None):
            named = sorted((*name.rpartition(":")[::2], facts) for name, facts in (self.images or {}).items())
            return [
                LocalImage(name, (tag,), facts.image_id, facts.size, facts.digests)
                for name, tag, facts in named
                if term in name and name not in INTERNAL and "@" not in name
            ]

    def search_images(self, term: str) -> Sequence[Mapping[str, Any]]:
        with self._operation("search_images", None):
            metadata = {"is_official": False, "star_count": 0}
            return [{"name": name, "description": "", "metadata": metadata} for name in self.registry if term in name]
