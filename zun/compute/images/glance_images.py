# SPDX-License-Identifier: Apache-2.0
"""Images of Glance on one host: brought to the runtime, kept there up to a limit, and given to Glance.

An image of Glance never changes, so its id names its content. The runtime keeps an image under ``zun-glance:ID``, a
name that nobody may ask for. The runtime's copy is the cache; what the archive is downloaded to vanishes at once.
"""

import contextlib
import logging
import pathlib
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Self

from oslo_config import cfg
from oslo_utils import uuidutils

from zun.common import exceptions
from zun.common.image_reference import OF_SERVICE
from zun.common.single_flight import SingleFlight
from zun.common.units import MIB
from zun.container.driver.images import ImageFacts, Images, LocalImage
from zun.image import glance
from zun.image.archives import Renamed
from zun.image.driver import ImageService

LOG = logging.getLogger(__name__)

#: An image that was used so lately is not removed: a container may be about to be made of it.
FRESH_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Kept:
    """An image that the runtime keeps. ``used`` is when it was last used, in seconds since the epoch."""

    uuid: str
    size: int
    used: float


def removable(kept: Collection[Kept], limit: int, now: float) -> list[Kept]:
    """Return the images to remove until the rest has at most ``limit`` bytes, the longest unused first.

    More are returned than are needed, because some may turn out to be in use.
    """
    if sum(each.size for each in kept) <= limit:
        return []
    old = [each for each in kept if now - each.used >= FRESH_SECONDS]
    return sorted(old, key=lambda each: (each.used, each.uuid))


def local_name(uuid: str) -> str:
    return f"{OF_SERVICE}:{uuid}"


@dataclass(frozen=True, slots=True)
class GlanceImages:
    """The images of Glance on one host. ``_service`` is None on a host that is not configured for Glance."""

    _service: ImageService | None
    _runtime: Images
    _folder: pathlib.Path
    _limit: int  # bytes
    _downloads: SingleFlight = field(default_factory=SingleFlight)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, runtime: Images) -> Self:
        folder = pathlib.Path(conf.glance.images_directory or pathlib.Path(conf.state_path, "images"))
        return cls(glance.configured(conf), runtime, folder, conf.glance.image_cache_mb * MIB)

    def ensure(self, uuid: str, policy: str | None, progress: Callable[[str], None] | None = None) -> ImageFacts:
        """Make Glance's image available at the runtime and return its facts.

        The project must be allowed to use the image. The policy ``always`` has Glance asked whether the image is still
        active, and brings a missing one as ``ifnotpresent`` and None do. ``never`` uses only images on the host.
        """
        name = local_name(uuid)
        found = self._runtime.find_image(name)
        if found is None and policy not in (None, "", "ifnotpresent", "always"):
            raise exceptions.ImageNotFound(
                f"Image {uuid} of Glance is not on the host, and the pull policy '{policy}' does not fetch it. Use the "
                "policy ifnotpresent."
            )
        with _told(f"Image {uuid} could not be brought from Glance"):
            if found is not None and policy == "always":
                self._of_service.show(uuid)
            if found is None:
                self._downloads.do(uuid, lambda: self._bring(uuid, progress or (lambda text: None)))
                found = self._runtime.find_image(name)
        if found is None:
            raise exceptions.ImageNotFound(f"Image {uuid} was loaded and is gone again: does something remove images?")
        self.note_use(uuid)
        return found

    def note_use(self, uuid: str) -> None:
        """Keep sweeps from removing the image, which the runtime has or is about to have, in the next minutes."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / uuid).touch()

    def give(self, uuid: str, shown_name: str) -> None:
        """Upload the runtime's image ``zun-glance:UUID`` as the data of Glance's image, with ``shown_name`` inside."""
        self.note_use(uuid)  # the upload may have waited
        with _told(f"Image {uuid} could not be given to Glance"), self._space() as file:
            for piece in self._runtime.save_image(local_name(uuid)):
                file.write(piece)
            self._of_service.upload(uuid, Renamed(file, shown_name))
        self.sweep()

    def drop(self, uuid: str) -> None:
        """Remove an image that could not be given, here and in Glance. What fails is logged."""
        for remove in (lambda: self._runtime.remove_image(local_name(uuid)), lambda: self._of_service.delete(uuid)):
            try:
                remove()
            except exceptions.ZunError as exc:
                LOG.warning("Image %s, which was not finished, could not be removed: %s", uuid, exc)

    def end(self, uuid: str) -> None:
        """Remove the remains of an abandoned upload, here and in Glance. A whole image in Glance stays."""
        if self._of_service.delete_unfinished(uuid):
            self._runtime.remove_image(local_name(uuid))

    def sweep(self) -> None:
        """Remove images that were used the longest time ago until the rest is within the limit.

        The runtime keeps an image that a container is made of.
        """
        kept = [self._kept(uuid, each.size) for each in self._runtime.images_of(OF_SERVICE) for uuid in _uuids(each)]
        total = sum(each.size for each in kept)
        for each in removable(kept, self._limit, time.time()):
            if total <= self._limit:
                break
            try:
                self._runtime.remove_image(local_name(each.uuid))
            except exceptions.ZunError as exc:
                LOG.debug("Image %s stays on the host: %s", each.uuid, exc)
                continue
            total -= each.size
            LOG.info("Image %s of Glance is removed from this host, where it was not used lately", each.uuid)
        self._forget()

    @property
    def _of_service(self) -> ImageService:
        if self._service is None:
            raise exceptions.ImageServiceFailed(
                "this host is not configured for Glance. Tell the operator: its zun-compute needs glance in [DEFAULT] "
                "image_driver_list, and the section [glance]"
            )
        return self._service

    def _bring(self, uuid: str, progress: Callable[[str], None]) -> None:
        if self._runtime.find_image(local_name(uuid)) is not None:  # another thread was done just now
            return
        image = self._of_service.show(uuid)
        LOG.info("Downloading image %s from Glance", uuid)
        with self._space(image.size or 0) as file:
            self._of_service.download(image, file, lambda done: progress(_progress(done, image.size)))
            progress("Loading the image into Docker")
            self._runtime.load_image(Renamed(file, local_name(uuid)))
        LOG.info("Image %s is here", uuid)
        self.note_use(uuid)
        self.sweep()

    @contextlib.contextmanager
    def _space(self, size: int = 0) -> Iterator[BinaryIO]:
        """Give a file without a name, which vanishes with the block or the process."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (free := shutil.disk_usage(self._folder).free) < size:
                raise exceptions.ImageServiceFailed(
                    f"it needs {size // MIB} MiB on the disk of the host, which has {free // MIB} MiB free. Tell its "
                    "operator, or create the container on another host"
                )
            with tempfile.TemporaryFile(dir=self._folder) as file:
                yield file
        except OSError as exc:
            raise exceptions.ImageServiceFailed(f"the host cannot keep its archive: {exc}") from exc

    def _kept(self, uuid: str, size: int) -> Kept:
        try:
            used = (self._folder / uuid).stat().st_mtime
        except OSError:  # of an earlier installation, or its file was removed: as if it were used never
            used = 0.0
        return Kept(uuid, size, used)

    def _forget(self) -> None:
        """Remove the old times of images that are not here. An image with a fresh time may be about to come.

        Times are empty files. A file with data is somebody else's: a store of Glance names its images alike.
        """
        here = {uuid for each in self._runtime.images_of(OF_SERVICE) for uuid in _uuids(each)}
        now = time.time()
        with contextlib.suppress(OSError):
            for file in self._folder.iterdir():
                if not uuidutils.is_uuid_like(file.name) or file.name in here:
                    continue
                found = file.lstat()
                if stat.S_ISREG(found.st_mode) and not found.st_size and now - found.st_mtime >= FRESH_SECONDS:
                    file.unlink()


def _uuids(image: LocalImage) -> list[str]:
    """Return the uuids that Glance has for the image. A tag that is no uuid was given by somebody else."""
    return [tag for tag in image.tags if uuidutils.is_uuid_like(tag)]


def _progress(done: int, size: int | None) -> str:
    if not size:
        return f"Pulling the image: {done // MIB} MiB"
    return f"Pulling the image: {min(100 * done // size, 100)} %, {done // MIB} of {size // MIB} MiB"


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Give an error of the image service the words of this host.

    Unavailable means that the runtime does not answer, so it is not what a missing answer of Glance is here.
    """
    try:
        yield
    except exceptions.ZunError as exc:
        away = isinstance(exc, exceptions.Unavailable) and not isinstance(exc, exceptions.GlanceUnavailable)
        if away or isinstance(exc, exceptions.ImageNotFound):
            raise
        LOG.warning("%s: %s", what, exc)
        of_image = isinstance(exc, exceptions.Invalid | exceptions.Conflict)
        raise (exceptions.ImageUnusable if of_image else exceptions.ImageServiceFailed)(f"{what}: {exc}") from exc
