# SPDX-License-Identifier: Apache-2.0
"""Images on this host: which name an image has where it comes from, who may have it, and what is asked of it."""

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
from zun.common.image_reference import LOCAL, Reference, join
from zun.common.secrets import Cipher
from zun.common.states import ImageStatus
from zun.container import driver
from zun.container.driver import ImageFacts, RegistryAuth
from zun.objects import Container, Image, Registry
from zun.objects.image import COMMITTED, image_found

LOG = logging.getLogger(__name__)

PROGRESS_SECONDS = 2.0  # between two writes of how far a pull is
GRANT_SECONDS = 24 * 3600  # for a pull; a grant is kept as long without its image

#: Policies that pull what the host has not. The contract reads an unset policy as "always". Here it is "ifnotpresent":
#: a pull costs a network timeout on a cloud without a registry, at every one of many runs of one image, and an image
#: built on the host could never run. Any policy but these does not pull: clients store odd spellings (``Always``) and
#: expect that.
_PULLING = (None, "", "ifnotpresent", "always")


@dataclass(frozen=True, slots=True)
class Account:
    """A registry and, where it wants them, credentials for it."""

    domain: str
    auth: RegistryAuth | None = None


def source(image: str, own: Account | None, default: Account | None) -> tuple[str, RegistryAuth | None]:
    """The whole name of ``image`` and the credentials to pull it with.

    A name without a registry is looked for at the container's ``own``, else at the operator's ``default`` one.
    Credentials go to the registry they are for and to no other. What is no name (an image id) stays as it is.
    """
    try:
        reference = Reference.parse(image)
    except ValueError:
        return image, None
    known = [account for account in (own, default) if account is not None]
    full = reference.at(known[0].domain) if known else reference
    auth = next((account.auth for account in known if account.auth and account.domain == full.domain), None)
    return (str(full) if full.domain != reference.domain else image), auth


def refused(image: str) -> bool:
    """Whether ``image`` is how hosts themselves call what was made of somebody's container."""
    with contextlib.suppress(ValueError):
        return Reference.parse(image).path.rpartition("/")[2] == LOCAL
    return False


@dataclass(frozen=True, slots=True)
class Source:
    """An image's whole name at the runtime, the credentials to pull it with, and when that is to be done.

    ``own``: the credentials are those of the project.
    """

    name: str
    auth: RegistryAuth | None
    policy: str | None
    own: bool = False


class Accounts:
    """The accounts that this host pulls with."""

    def __init__(self, cipher: Cipher, default: Account | None) -> None:
        self._cipher = cipher
        self.default = default

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        docker = conf.docker
        default = None
        if docker.default_registry:
            username, password = docker.default_registry_username, docker.default_registry_password
            auth = RegistryAuth(username, password or "") if username else None
            default = Account(docker.default_registry, auth)
        return cls(Cipher(secrets.keys(conf)), default)

    def source(self, context: RequestContext, container: Container) -> Source:
        """Where to get the image of ``container``. Raises RegistryNotFound, ImageNotFound, Conflict."""
        made = container.request.get(COMMITTED)
        if made is not None:
            return Source(Image.get_by_uuid(context, made).local_name, None, "never")
        if refused(container.image):
            raise exceptions.ImageNotFound(
                f"{container.image}: images made of containers are asked for by the name or uuid that they were given."
            )
        own = None
        if container.registry_id is not None:
            registry = Registry.get_by_uuid(context, container.registry_id)
            auth = None
            if registry.username is not None:
                password = "" if registry.password is None else self._cipher.decrypt(registry.password)
                auth = RegistryAuth(registry.username, password)
            own = Account(registry.domain, auth)
        name, auth = source(container.image, own, self.default)
        mine = own is not None and auth is not None and auth is own.auth
        return Source(name, auth, container.image_pull_policy, own=mine)


class ImageStore:
    """The images of one host, as projects may use them: what was pulled with credentials of a project only those that
    have shown the registry such as get it. What came in any other way is for all.
    """

    def __init__(self, hostname: str, runtime: driver.Images) -> None:
        self._hostname = hostname
        self._runtime = runtime

    def ensure(
        self, context: RequestContext, project_id: str, source: Source, progress: Callable[[str], None] | None = None
    ) -> ImageFacts:
        """Make the image present for the project and tell about it; ImageNotFound when that is impossible.

        The policy ``never`` uses what is here, ``ifnotpresent`` and None pull only what is missing, ``always`` pulls
        every time and fails if that fails.
        """
        found = None if source.policy == "always" else self._runtime.find_image(source.name)
        closed = found is not None and not self.open_to(context, project_id, source.name, found.digests)
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
        """See that the registry gives the image for ``auth``, bring it if it is not here, and let the project use it,
        or all if there is none.

        A pull does not show that: a digest whose manifest it has had before, Docker takes without asking anybody. The
        grant is there before the image is, so nobody else finds that without one.
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
        """Forget who may use images that the host has not."""
        before = timeutils.utcnow() - datetime.timedelta(seconds=GRANT_SECONDS)
        if old := Image.granted_before(context, self._hostname, before):
            here = {_canonical(each) for each in self._runtime.image_digests()}
            if gone := [each for each in old if each not in here]:
                Image.end_grants(context, self._hostname, gone, before)

    def open_to(self, context: RequestContext, project_id: str, name: str, digests: Iterable[str]) -> bool:
        """Whether the project may use what the host has under ``name``. What another registry calls the same does not
        count: somebody may have a copy there, behind a password, of what everybody uses.
        """
        here = origin(name)
        names = [each for each in map(_canonical, digests) if here is None or each.startswith(f"{here}@")]
        granted = Image.granted_to(context, self._hostname, names) if names else []
        return not granted or project_id in granted


_CLOSED = "was brought to the host with credentials of a project that this one has not shown"


def origin(name: str) -> str | None:
    """Where an image of this name comes from, spelled as Docker understands it; None for what is no name."""
    try:
        return Reference.parse(name).origin
    except ValueError:
        return None


def _canonical(digested: str) -> str:
    """ORIGIN@DIGEST of what the runtime calls NAME@DIGEST."""
    name, _, digest = digested.rpartition("@")
    return f"{origin(name)}@{digest}"


def seen_now_and_then(shown: Container | Image) -> Callable[[str], None]:
    """Takes how far a pull is to where users look, not more often than they do."""
    written = -PROGRESS_SECONDS

    def tell(text: str) -> None:
        nonlocal written
        if time.monotonic() - written >= PROGRESS_SECONDS:
            written = time.monotonic()
            shown.status_detail = text[:255]
            # It was deleted: whoever else waits for the same image goes on waiting.
            with contextlib.suppress(exceptions.ContainerNotFound, exceptions.ImageNotFound):
                shown.save()

    return tell


class Images:
    """What is asked of the images of one host as such."""

    def __init__(self, runtime: driver.Images, accounts: Accounts, store: ImageStore) -> None:
        self._runtime = runtime
        self._accounts = accounts
        self._store = store

    def pull(self, context: RequestContext, uuid: str) -> None:
        """Bring the image; its row says how far that is, and in the end that it is there or why it is not."""
        try:
            self._pull(context, Image.get_by_uuid(context, uuid))
        except exceptions.ImageNotFound:
            LOG.info("Image %s was deleted before its pull ended", uuid)

    def _pull(self, context: RequestContext, image: Image) -> None:
        """Raises ImageNotFound when its row is gone."""
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
        """Remove the image, and its row once it is gone. One that a container uses stays, and its row says why."""
        try:
            image = Image.get_by_uuid(context, uuid)
        except exceptions.ImageNotFound:
            LOG.info("Image %s is deleted already", uuid)
            return
        name, _ = source(join(image.repo, image.tag), None, self._accounts.default)
        name = image.local_name or name
        if image.image_id is not None or image.local_name:
            try:
                self._runtime.remove_image(name)
            except exceptions.ZunError as exc:
                LOG.warning("Image %s (%s) could not be removed: %s", uuid, name, exc)
                image.status_detail = f"It could not be removed: {exc}"[:255]
                image.save()
                return
        image.destroy()
        LOG.info("Image %s (%s) is removed", uuid, name)

    def search(self, context: RequestContext, name: str, *, exact: bool) -> list[Mapping[str, Any]]:
        """What this host has for the project, and the registries know, under ``name``; ``exact``: under just this one.

        Unavailable when the registries cannot be asked and the host has nothing.
        """
        term, _, tag = name.partition(":") if "/" not in name.rpartition(":")[2] else (name, "", "")
        here = [
            image_found(each.name, each.tags, each.image_id, each.size)
            for each in self._runtime.find_images(term)
            if (not tag or tag in each.tags)
            and (not exact or each.name == term)
            and (context.is_admin or self._store.open_to(context, str(context.project_id), each.name, each.digests))
        ]
        try:
            found = self._runtime.search_images(name)
        except exceptions.Unavailable as exc:
            if not here:
                raise
            LOG.warning("Only images of this host are found: %s", exc)
            found = []
        return [*here, *(each for each in found if not exact or each["name"] == name)]
