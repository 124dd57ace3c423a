# SPDX-License-Identifier: Apache-2.0
"""Images on this host: their names and sources, the projects that may use them, and requests about them."""

import contextlib
import datetime
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from oslo_config import cfg
from oslo_utils import timeutils

from zun.common import exceptions, secrets
from zun.common.context import RequestContext
from zun.common.image_reference import INTERNAL, Reference, canonical, join, registry_domain, split
from zun.common.secrets import Cipher
from zun.common.states import ImageStatus
from zun.compute.images.glance_images import GlanceImages, local_name
from zun.container.driver.images import ImageFacts, RegistryAuth
from zun.container.driver.images import Images as RuntimeImages
from zun.objects import Container, Image, Registry
from zun.objects.image import COMMITTED, OF_GLANCE, REBUILD, image_found

LOG = logging.getLogger(__name__)

PROGRESS_SECONDS = 2.0  # between two writes of the progress of a pull
GRANT_SECONDS = 24 * 3600  # a grant without its image is kept this long, because a pull may still be running

#: Policies that pull a missing image. An unset policy means "ifnotpresent". Upstream Zun then pulls every time: on a
#: cloud without a registry every run of an image would wait for a network timeout, and an image built on the host could
#: never run. Every other policy, ``never`` for example, pulls nothing.
_PULLING = (None, "", "ifnotpresent", "always")


@dataclass(frozen=True, slots=True)
class Account:
    """The domain of a registry, and its credentials if there are any."""

    domain: str
    auth: RegistryAuth | None = None


def _reference(name: str) -> Reference | None:
    with contextlib.suppress(ValueError):
        return Reference.parse(name)
    return None


def source(image: str, own: Account | None, default: Account | None) -> tuple[str, RegistryAuth | None]:
    """Return the full name of ``image``, and the credentials for its pull.

    A name without a registry gets the domain of the container's ``own`` registry, else of the operator's ``default``
    registry: ``team/app`` becomes ``registry.example/team/app``. Credentials go only to their own registry. Invalid
    names and image ids are returned unchanged. Raises ValueError if the domain is no registry.
    """
    if (reference := _reference(image)) is None:
        return image, None
    known = [account for account in (own, default) if account is not None]
    full = reference.at(known[0].domain if known else None)
    here = canonical(full.domain)
    auth = next((account.auth for account in known if account.auth and canonical(account.domain) == here), None)
    return (str(full) if full.domain != reference.domain else image), auth


def refused(image: str) -> bool:
    """Return whether ``image`` is an internal name of a host. Users must not ask for such a name."""
    reference = _reference(image)
    return reference is not None and reference.path.rpartition("/")[2] in INTERNAL


@dataclass(frozen=True, slots=True)
class Source:
    """The full name of an image at the runtime, the credentials for its pull, and the pull policy.

    ``own`` is True if the credentials belong to the project. ``glance`` is the id of an image of Glance.
    """

    name: str
    auth: RegistryAuth | None
    policy: str | None
    own: bool = False
    glance: str | None = None


@dataclass(frozen=True, slots=True)
class Accounts:
    """The registry accounts with which this host pulls images."""

    _cipher: Cipher | None
    """Without a cipher passwords arrive decrypted: a conductor does that."""
    default: Account | None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Return the accounts of the configuration. Raises Misconfigured."""
        docker = conf.docker
        default = None
        if docker.default_registry:
            username, password = docker.default_registry_username, docker.default_registry_password
            auth = RegistryAuth(username, password or "") if username else None
            try:
                default = Account(registry_domain(docker.default_registry), auth)
            except ValueError as exc:
                raise exceptions.Misconfigured(f"[docker] default_registry {exc}") from None
        return cls(Cipher(secrets.keys(conf)) if conf.compute.database == "direct" else None, default)

    def source(self, context: RequestContext, container: Container) -> Source:
        """Return the source of the container's image. Raise RegistryNotFound, ImageNotFound or Conflict."""
        rebuild = container.request.get(REBUILD)
        image = container.image if rebuild is None else rebuild["image"]
        asked = container.request if rebuild is None else rebuild
        if (uuid := asked.get(OF_GLANCE)) is not None:
            return Source(local_name(uuid), None, container.image_pull_policy, glance=uuid)
        if (made := asked.get(COMMITTED)) is not None:
            return Source(Image.get_by_uuid(context, made).local_name, None, "never")
        if refused(image):
            raise exceptions.ImageNotFound(
                f"{image}: images of Glance and images made of containers are asked for by the name or uuid that they "
                "were given."
            )
        own = None
        if container.registry_id is not None:
            registry = Registry.get_by_uuid(context, container.registry_id)
            auth = None
            if registry.username is not None:
                auth = RegistryAuth(registry.username, self._password(registry))
            own = Account(registry.domain, auth)
        try:
            name, auth = source(image, own, self.default)
        except ValueError as exc:  # an earlier release stored every text
            raise exceptions.Conflict(f"Registry {container.registry_id}: domain {exc}.") from None
        mine = own is not None and auth is not None and auth is own.auth
        return Source(name, auth, container.image_pull_policy, own=mine)

    def _password(self, registry: Registry) -> str:
        if registry.password is None or self._cipher is None:
            return registry.password or ""
        return self._cipher.decrypt(registry.password, registry.owner)


def made_of(container: Container) -> None:
    """Set the image of ``container`` to the image of its rebuild, after the runtime has made the new container."""
    request = dict(container.request)
    rebuild = request.pop(REBUILD, None)
    if rebuild is None:
        return
    for member in (COMMITTED, OF_GLANCE):
        request.pop(member, None)
        if member in rebuild:
            request[member] = rebuild[member]
    container.image, container.image_driver, container.request = rebuild["image"], rebuild["image_driver"], request


@dataclass(frozen=True, slots=True)
class ImageStore:
    """The images of one host, and the projects that may use each.

    An image pulled with a project's credentials is closed: only projects whose credentials the registry accepted for
    this image may use it. Every other image is open to all projects.
    """

    _hostname: str
    _runtime: RuntimeImages
    _glance: GlanceImages

    def ensure(
        self, context: RequestContext, project_id: str, source: Source, progress: Callable[[str], None] | None = None
    ) -> ImageFacts:
        """Make the image available to the project and return its facts. Raise ImageNotFound if this is impossible.

        The policy ``never`` uses only images on the host. ``ifnotpresent`` and None pull only a missing image.
        ``always`` pulls every time and fails if the pull fails. What they mean for an image of Glance, which never
        changes, GlanceImages says.
        """
        if source.glance is not None:
            return self._glance.ensure(source.glance, source.policy, progress)
        found = None if source.policy == "always" else self._runtime.find_image(source.name)
        closed = found is not None and not (
            self.open_to(context, project_id, source.name, found.digests) and _may_name(source.name, found)
        )
        if found is not None and not closed:
            return found
        if source.policy not in _PULLING:
            raise exceptions.ImageNotFound(
                f"Image {source.name} {_CLOSED if closed else 'is not on the host'}, and the pull policy "
                f"'{source.policy}' does not fetch it. Use the policy ifnotpresent, or pull it to the host."
            )
        if closed and origin(source.name) is None:
            raise exceptions.ImageNotFound(f"Image {source.name} {_CLOSED}. Ask for it by its name.")
        if source.own or closed or "@" in source.name:
            return self.bring(context, source.name, source.auth, progress, project_id if source.own else None)
        return self._runtime.pull_image(source.name, source.auth, progress)

    def bring(
        self,
        context: RequestContext,
        name: str,
        auth: RegistryAuth | None,
        progress: Callable[[str], None] | None,
        project_id: str | None = None,
    ) -> ImageFacts:
        """Check that the registry accepts ``auth`` for the image, pull a missing image, and let the project use it.

        Without ``project_id``, every project may use the image. A pull alone would be no check: Docker accepts a digest
        with a known manifest without asking the registry. The grant is written before the pull, so that no other
        project ever finds the image open.
        """
        digest = self._runtime.image_digest(name, auth)
        reference = Reference.parse(name)
        exact, image = join(reference.repo, digest), f"{reference.origin}@{digest}"
        facts = self._runtime.find_image(exact)
        if project_id is None:
            Image.end_grants(context, self._hostname, [image])
        elif facts is None or Image.granted_to(context, self._hostname, [image]):
            Image.grant(context, self._hostname, image, project_id)
        if facts is None:
            facts = self._runtime.pull_image(exact, auth, progress)
        if reference.digest is None:
            self._runtime.tag_image(exact, name)
        return facts

    def sweep(self, context: RequestContext) -> None:
        """Remove the old grants of images that are no longer on the host, and images of Glance beyond the limit."""
        self._glance.sweep()
        before = timeutils.utcnow() - datetime.timedelta(seconds=GRANT_SECONDS)
        if old := Image.granted_before(context, self._hostname, before):
            here = set(_spellings(self._runtime.image_digests()))
            if gone := [each for each in old if each not in here]:
                Image.end_grants(context, self._hostname, gone, before)

    def open_to(self, context: RequestContext, project_id: str, name: str, digests: Iterable[str]) -> bool:
        """Return whether the project may use the host's image ``name``.

        Only grants of the registry and path in ``name`` count. Other projects may hold grants of a private copy of the
        image in another registry.
        """
        here = origin(name)
        names = _spellings(each for each in digests if here is None or _canonical(each).startswith(f"{here}@"))
        granted = Image.granted_to(context, self._hostname, names) if names else []
        return not granted or project_id in granted


def _may_name(name: str, found: ImageFacts) -> bool:
    """Return whether users may ask for an image of the host by ``name``.

    An id finds an image whatever its names. One that has only internal names belongs to a project, by its uuid.
    """
    return origin(name) is not None or not found.names or not all(map(refused, found.names))


_CLOSED = "was brought to the host with credentials of a project that this one has not shown"


def origin(name: str) -> str | None:
    """Return the registry and path of an image name, as Docker spells them, or None for an invalid name.

    ``nginx:1.25`` gives ``docker.io/library/nginx``.
    """
    reference = _reference(name)
    return None if reference is None else reference.origin


def _canonical(digested: str) -> str:
    """Return ``docker.io/library/nginx@sha256:...`` for the runtime's name ``nginx@sha256:...``."""
    name, _, digest = digested.rpartition("@")
    return f"{origin(name)}@{digest}"


def _spellings(digests: Iterable[str]) -> list[str]:
    """Return the names of the runtime, each with its canonical one. Earlier releases wrote some grants as the runtime
    spells them.
    """
    return [name for each in digests for name in dict.fromkeys((_canonical(each), each))]


def seen_now_and_then(shown: Container | Image) -> Callable[[str], None]:
    """Return a function that writes the progress of a pull to the row, at most once in ``PROGRESS_SECONDS``."""
    written = -PROGRESS_SECONDS

    def tell(text: str) -> None:
        nonlocal written
        if time.monotonic() - written >= PROGRESS_SECONDS:
            written = time.monotonic()
            shown.status_detail = text[:255]
            # If the row was deleted, the pull goes on: other containers may wait for the same image.
            with contextlib.suppress(exceptions.ContainerNotFound, exceptions.ImageNotFound):
                shown.save()

    return tell


def _listed(term: str) -> str:
    """Return a whole name ``term`` as the runtime lists the image."""
    reference = _reference(term)
    return term if reference is None else reference.listed


@dataclass(frozen=True, slots=True)
class Images:
    """Pulls, deletes and finds images on one host."""

    _runtime: RuntimeImages
    _accounts: Accounts
    _store: ImageStore
    _glance: GlanceImages

    def end_unfinished(self, context: RequestContext, hostname: str) -> list[str]:
        """Put the images that an earlier run did not finish into Error, and return those whose upload was under way.

        An image for Glance that the runtime does not have may be made yet: the commit may still be wanted.
        """
        reason = "The compute service was restarted. Delete the image and try again."
        uploads = []
        for uuid in Image.fail_unfinished(context, hostname, reason) or ():  # a conductor of 1.0 may return None
            try:
                uploads += [uuid] if self._runtime.find_image(local_name(uuid)) is not None else []
            except exceptions.ZunError as exc:
                LOG.warning("Image %s, whose upload did not end, stays for now: %s", uuid, exc)
        return uploads

    def pull(self, context: RequestContext, uuid: str) -> None:
        """Pull the image. Its row shows the progress, and finally the success or the reason of the failure."""
        try:
            self._pull(context, Image.get_by_uuid(context, uuid))
        except exceptions.ImageNotFound:
            LOG.info("Image %s was deleted before its pull ended", uuid)

    def _pull(self, context: RequestContext, image: Image) -> None:
        """Pull the image. Raise ImageNotFound if its row was deleted."""
        name, auth = source(join(image.repo, image.tag), None, self._accounts.default)
        try:
            facts = self._store.bring(context, name, auth, seen_now_and_then(image))
        except exceptions.ZunError as exc:
            image.status, image.status_detail = ImageStatus.ERROR, str(exc)[:255]
            image.save()
            LOG.warning("Image %s (%s) could not be pulled: %s", image.uuid, name, exc)
            return
        image.set_available(facts.image_id, facts.size)
        image.save()
        LOG.info("Image %s (%s) is here", image.uuid, name)

    def delete(self, context: RequestContext, uuid: str) -> None:
        """Remove the image and then its row. If a container uses the image, keep both and write why to the row.

        The row of an image for Glance is there during the upload only, so it also removes what was uploaded.
        """
        try:
            image = Image.get_by_uuid(context, uuid)
        except exceptions.ImageNotFound:
            LOG.info("Image %s is deleted already", uuid)
            return
        name, _ = source(join(image.repo, image.tag), None, self._accounts.default)
        name = image.local_name or name
        try:
            if image.of_glance:
                self._glance.end(uuid)
            elif (image.image_id is not None or image.local_name) and self._is_there(image, name):
                self._runtime.remove_image(name)
        except exceptions.ZunError as exc:
            LOG.warning("Image %s (%s) could not be removed: %s", uuid, name, exc)
            image.status_detail = f"It could not be removed: {exc}"[:255]
            image.save()
            return
        image.destroy()
        LOG.info("Image %s (%s) is removed", uuid, name)

    def _is_there(self, image: Image, name: str) -> bool:
        """Return whether the runtime's image ``name`` is that of the row. Somebody may have built another one since."""
        found = self._runtime.find_image(name)
        other = found is not None and image.image_id not in (None, found.image_id)
        if other:
            LOG.warning("Image %s on the host stays: it is not the image of row %s any more", name, image.uuid)
        return not other

    def search(self, context: RequestContext, name: str, *, exact: bool) -> list[Mapping[str, Any]]:
        """Return the images on this host that the project may use, and registry images, that match ``name``.

        ``name`` is a part of a name, with or without a tag or digest. If ``exact``, return only images with exactly
        this name. Raise Unavailable if the registries do not answer and the host has no match.
        """
        term, version = split(name)
        listed = _listed(term)
        here: list[Mapping[str, Any]] = [
            image_found(each.name, each.tags, each.image_id, each.size)
            for each in self._runtime.find_images(listed)
            if (version is None or version in (*each.tags, *(known.rpartition("@")[2] for known in each.digests)))
            and (not exact or each.name == listed)
            and (context.is_admin or self._store.open_to(context, str(context.project_id), each.name, each.digests))
        ]
        try:
            found = self._runtime.search_images(term)
        except exceptions.Unavailable as exc:
            if not here:
                raise
            LOG.warning("Only images of this host are found: %s", exc)
            found = []
        for each in found:
            repo, tag = split(each["name"])
            if (tag == version and _listed(repo) == listed) or (not exact and version in (None, tag)):
                here.append(each)
        return here
