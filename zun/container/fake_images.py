# SPDX-License-Identifier: Apache-2.0
"""Images of the in-memory driver's host."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zun.common import exceptions
from zun.common.image_reference import LOCAL
from zun.container.driver import ContainerView, ImageFacts, LocalImage, RegistryAuth
from zun.container.fake_operations import OnRuntime


class InMemoryImages(OnRuntime):
    """``images`` are those on the host (None: any image is), ``registry`` those a pull brings."""

    def __init__(
        self, *, images: Mapping[str, ImageFacts] | None, registry: Mapping[str, ImageFacts] | None, **more: Any
    ) -> None:
        super().__init__(**more)
        self.images = None if images is None else dict(images)
        self.registry = dict(registry or {})
        self.pulls: list[str] = []
        self.credentials: list[RegistryAuth | None] = []
        self.commits: dict[str, str] = {}  # name of an image -> the container it was made of

    def ensure(
        self,
        image: str,
        policy: str | None = None,
        auth: RegistryAuth | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> ImageFacts:
        with self._operation("ensure", None):
            if self.images is None:
                return ImageFacts(image_id=f"sha256:{image}")
            if policy != "always" and image in self.images:
                return self.images[image]
            if policy not in (None, "", "ifnotpresent", "always"):
                raise exceptions.ImageNotFound(image=image)
            self.pulls.append(image)
            self.credentials.append(auth)
            if progress is not None:
                progress(f"Pulling {image}")
            if image not in self.registry:
                raise exceptions.ImageNotFound(image=image)
            self.images[image] = self.registry[image]
            return self.images[image]

    def remove_image(self, image: str) -> None:
        with self._operation("remove_image", None):
            if self.images is not None:
                self.images.pop(image, None)

    def commit(self, container: ContainerView, name: str) -> ImageFacts:
        with self._operation("commit", container):
            found = self._find(container)
            self.commits[name] = found.uuid
            facts = ImageFacts(f"sha256:{name}", size=1000)
            if self.images is not None:
                self.images[name] = facts
            return facts

    def find_images(self, term: str) -> Sequence[LocalImage]:
        with self._operation("find_images", None):
            named = sorted((*name.rpartition(":")[::2], facts) for name, facts in (self.images or {}).items())
            return [
                LocalImage(name, (tag,), facts.image_id, facts.size)
                for name, tag, facts in named
                if term in name and name != LOCAL
            ]

    def search_images(self, term: str) -> Sequence[Mapping[str, Any]]:
        with self._operation("search_images", None):
            metadata = {"is_official": False, "star_count": 0}
            return [
                {"name": name, "description": "", "metadata": metadata} for name in self.registry if term in name
            ]
