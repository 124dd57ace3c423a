# SPDX-License-Identifier: Apache-2.0
"""Images on this host: which name an image has where it comes from, who may have it, and what is asked of it."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from oslo_config import cfg

from zun.common import exceptions, secrets
from zun.common.context import RequestContext
from zun.common.image_reference import Reference, join
from zun.common.secrets import Cipher
from zun.container import driver
from zun.container.driver import RegistryAuth
from zun.objects import Container, Image, Registry

LOG = logging.getLogger(__name__)

PROGRESS_SECONDS = 2.0  # between two writes of how far a pull is


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


class Accounts:
    """The accounts that this host pulls with."""

    def __init__(self, cipher: Cipher, default: Account | None = None) -> None:
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

    def source(self, context: RequestContext, container: Container) -> tuple[str, RegistryAuth | None]:
        """As ``source`` above, for the image of ``container``. Raises RegistryNotFound, Conflict."""
        own = None
        if container.registry_id is not None:
            registry = Registry.get_by_uuid(context, container.registry_id)
            auth = None
            if registry.username is not None:
                password = "" if registry.password is None else self._cipher.decrypt(registry.password)
                auth = RegistryAuth(registry.username, password)
            own = Account(registry.domain, auth)
        return source(container.image, own, self.default)


def seen_now_and_then(shown: Container | Image) -> Callable[[str], None]:
    """Takes how far a pull is to where users look, not more often than they do."""
    written = -PROGRESS_SECONDS

    def tell(text: str) -> None:
        nonlocal written
        if time.monotonic() - written >= PROGRESS_SECONDS:
            written = time.monotonic()
            shown.status_detail = text[:255]
            shown.save()

    return tell


class Images:
    """What is asked of the images of one host as such."""

    def __init__(self, runtime: driver.Images, accounts: Accounts) -> None:
        self._runtime = runtime
        self._accounts = accounts

    def pull(self, context: RequestContext, uuid: str) -> None:
        """Bring the image; its row says how far that is, and in the end that it is there or why it is not."""
        image = Image.get_by_uuid(context, uuid)
        name, auth = source(join(image.repo, image.tag), None, self._accounts.default)
        try:
            facts = self._runtime.ensure(name, "always", auth, seen_now_and_then(image))
        except exceptions.ZunError as exc:
            LOG.warning("Image %s (%s) could not be pulled: %s", uuid, name, exc)
            image.status, image.status_detail = "Error", str(exc)[:255]
        else:
            image.image_id, image.size = facts.image_id, str(facts.size)
            image.status, image.status_detail = "Available", None
        image.save()
        if image.image_id is None:
            return
        LOG.info("Image %s (%s) is here", uuid, name)

    def delete(self, context: RequestContext, uuid: str) -> None:
        """Remove the image, and its row once it is gone. One that a container uses stays, and so does its row."""
        image = Image.get_by_uuid(context, uuid)
        name, _ = source(join(image.repo, image.tag), None, self._accounts.default)
        if image.image_id is not None:
            try:
                self._runtime.remove_image(name)
            except exceptions.ZunError as exc:
                LOG.warning("Image %s (%s) could not be removed: %s", uuid, name, exc)
                return
        image.destroy()
        LOG.info("Image %s (%s) is removed", uuid, name)

    def search(self, name: str, *, exact: bool) -> list[Mapping[str, Any]]:
        """What the registries know under ``name``; ``exact``: under this very name only."""
        found = self._runtime.search_images(name)
        return [each for each in found if not exact or each["name"] == name]
