# SPDX-License-Identifier: Apache-2.0
"""OpenStack Glance: the Image API v2, as far as this service uses it.

Its errors are pages of HTML, so only the status of an answer counts.
"""

import contextlib
import hashlib
import http
import logging
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Self

import requests
import urllib3
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import exceptions as ks_exc
from oslo_config import cfg
from oslo_utils import uuidutils

from zun.common import exceptions, keystoneauth, naming
from zun.common.context import RequestContext
from zun.common.units import MIB
from zun.image.driver import GLANCE, ServiceImage, SizedArchive

LOG = logging.getLogger(__name__)

GROUP = "glance"
FORMAT = "docker"  # container_format of images of containers
ATTEMPTS = 3  # of a download that breaks off
_PAGE = 100
_MOST_PAGES = 20
_PIECE = MIB

#: Why an image without data, or with data that nobody gets, cannot be used.
_STATES = {
    "queued": "it has no data yet: upload it, or wait until its upload is done",
    "saving": "its upload is under way: wait until it is active",
    "importing": "its import is under way: wait until it is active",
    "uploading": "its upload is under way: wait until it is active",
    "deactivated": "an administrator deactivated it",
    "killed": "its upload failed: upload it again, as a new image",
    "deleted": "it is deleted",
    "pending_delete": "it is deleted",
}


def configured(conf: cfg.ConfigOpts) -> "Glance | None":
    """Return the client of Glance if requests may name the image driver ``glance``. Raises Misconfigured."""
    return Glance.from_conf(conf) if GLANCE in conf.image_driver_list else None


class Glance:
    """An ImageService. With a user's token it acts for the user, else as the user of group ``[glance]``."""

    def __init__(self, adapter: ks_adapter.Adapter, transfer_seconds: float = 3600) -> None:
        self._adapter = adapter
        self._transfer_seconds = transfer_seconds

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Return the client of group ``[glance]``. Raises Misconfigured."""
        adapter = keystoneauth.adapter(conf, GROUP, "[DEFAULT] image_driver_list with glance")
        return cls(adapter, conf.glance.transfer_timeout)

    # With the rights of a user.

    def find(self, context: RequestContext, ident: str) -> ServiceImage:
        record = self._found(context, ident)
        image = _ready(record)
        self._check_download(context, image)
        return image

    def _found(self, context: RequestContext, ident: str) -> Mapping[str, Any]:
        if uuidutils.is_uuid_like(ident):
            return self._record(self._request(context, "GET", f"/images/{ident}", about=ident), ident)
        name, _, tag = ident.rpartition(":")
        found = self._listed(context, name=ident)
        if not found and name and "/" not in tag:
            # An image without tags is every version of its name.
            found = [each for each in self._listed(context, name=name) if not each["tags"] or tag in each["tags"]]
            found = [each for each in found if each["tags"]] or found
        return _only(ident, found)

    def _listed(self, context: RequestContext, **filters: str) -> list[Mapping[str, Any]]:
        """Return the images that the user sees with these values, which Glance compares exactly."""
        query = {"limit": str(_PAGE), "container_format": FORMAT}
        query |= {name: _literal(value) for name, value in filters.items()}
        path: str | None = "/images?" + urllib.parse.urlencode(query)
        found: list[Mapping[str, Any]] = []
        for _ in range(_MOST_PAGES):
            answer = self._json(self._request(context, "GET", str(path), about="images"))
            found += [self._checked(each) for each in answer.get("images") or ()]
            following = answer.get("next")
            if not following:
                break
            path = str(following).removeprefix("/v2")
        return [each for each in found if all(each.get(name) == value for name, value in filters.items())]

    def _check_download(self, context: RequestContext, image: ServiceImage) -> None:
        """Raise unless the user may download the image, which is more than to see it."""
        path = f"/images/{image.uuid}/file"
        answer = self._request(context, "GET", path, about=image.uuid, headers={"Range": "bytes=0-0"}, stream=True)
        answer.close()
        if answer.status_code == http.HTTPStatus.NO_CONTENT:
            raise _unready(image.uuid, "queued")

    def search(self, context: RequestContext, term: str, *, exact: bool) -> list[dict[str, Any]]:
        found = self._listed(context, **({"name": term} if exact else {}))
        return [
            {
                "id": each["id"],
                "name": each["name"],
                "tags": list(each["tags"]),
                "status": each["status"],
                "size": each.get("size") or 0,
                "description": "",
                "metadata": {"is_official": False, "star_count": 0},
            }
            for each in found
            if exact or term in (each["name"] or "")
        ]

    def create(self, context: RequestContext, uuid: str, name: str, tag: str) -> None:
        body = {"id": uuid, "name": name, "tags": [tag], "container_format": FORMAT, "disk_format": "raw"}
        try:
            self._request(context, "POST", "/images", about=name, json=body)
        except exceptions.Conflict:
            # The first attempt was done and its answer lost: nobody else has this uuid.
            LOG.info("Image %s is in Glance already", uuid)

    # For the service itself.

    def show(self, uuid: str) -> ServiceImage:
        return _ready(self._record(self._request(None, "GET", f"/images/{uuid}", about=uuid), uuid))

    def download(self, image: ServiceImage, file: BinaryIO, progress: Callable[[int], None]) -> None:
        deadline = time.monotonic() + self._transfer_seconds
        for attempt in range(ATTEMPTS):
            file.seek(0)
            file.truncate()
            try:
                return self._download_once(image, file, progress, deadline)
            except _BrokenOff as exc:
                LOG.warning("The download of image %s broke off: %s", image.uuid, exc)
                if attempt == ATTEMPTS - 1 or time.monotonic() >= deadline:
                    raise
        return None

    def _download_once(
        self, image: ServiceImage, file: BinaryIO, progress: Callable[[int], None], deadline: float
    ) -> None:
        done, check = 0, _checksum(image)
        answer = self._request(None, "GET", f"/images/{image.uuid}/file", about=image.uuid, stream=True)
        with contextlib.closing(answer):
            if answer.status_code == http.HTTPStatus.NO_CONTENT:
                raise _unready(image.uuid, "queued")
            for piece in _pieces(answer, image.uuid):
                done += len(piece)
                if image.size is not None and done > image.size:
                    break
                if time.monotonic() > deadline:
                    raise exceptions.GlanceUnavailable(
                        reason=f"image {image.uuid} did not arrive within {self._transfer_seconds} s, which is "
                        "[glance] transfer_timeout"
                    )
                check.update(piece)
                file.write(piece)
                progress(done)
        file.flush()
        if image.size is not None and done < image.size:
            raise _BrokenOff(reason=f"only {done} of {image.size} bytes of image {image.uuid} arrived")
        if check.hexdigest() != image.hash_value.lower():
            raise exceptions.ImageCorrupt(
                f"The data of image {image.uuid} does not have its {image.hash_algo}: it was damaged in Glance or on "
                "the way. Try again; if it stays so, upload the image again."
            )

    def upload(self, uuid: str, archive: SizedArchive) -> None:
        archive = _InTime(archive, f"image {uuid} was not uploaded", self._transfer_seconds)
        self._request(None, "GET", f"/images/{uuid}", about=uuid)  # a new token, if the old one has expired
        headers = {"Content-Type": "application/octet-stream"}
        # Nothing is sent twice, because the archive would go on where it stopped.
        once = {"connect_retries": 0, "status_code_retries": 0, "allow_reauth": False}
        self._request(None, "PUT", f"/images/{uuid}/file", about=uuid, data=archive, headers=headers, **once)

    def delete(self, uuid: str) -> None:
        with contextlib.suppress(exceptions.ImageNotFound):
            self._request(None, "DELETE", f"/images/{uuid}", about=uuid)

    def delete_unfinished(self, uuid: str) -> bool:
        try:
            found = self._checked(self._json(self._request(None, "GET", f"/images/{uuid}", about=uuid)))
        except exceptions.ImageNotFound:
            return True
        if found["status"] in ("active", "deactivated"):
            return False
        self.delete(uuid)
        return True

    # The wire.

    def _request(
        self, context: RequestContext | None, method: str, path: str, *, about: str, **options: Any
    ) -> requests.Response:
        """Return the answer of a request that succeeded. ``about`` names the image in an error."""
        headers = dict(options.pop("headers", {}))
        token = None if context is None else context.auth_token
        if context is not None and context.global_id:
            headers["X-Openstack-Request-Id"] = context.global_id
        if token:
            headers["X-Auth-Token"] = token
            options["authenticated"] = False
        try:
            url = f"{self._endpoint()}/v2{path}"
            answer: requests.Response = self._adapter.request(
                url, method, raise_exc=False, headers=headers, redirect=False, **options
            )
        except ks_exc.ClientException as exc:
            raise exceptions.GlanceUnavailable(reason=exceptions.first_line(exc)) from exc
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as exc:
            raise exceptions.GlanceUnavailable(reason=f"{method} broke off: {exceptions.first_line(exc)}") from exc
        if 200 <= answer.status_code < 300:
            return answer
        answer.close()
        raise _error(answer.status_code, about, method, of_user=token is not None)

    def _endpoint(self) -> str:
        endpoint = self._adapter.get_endpoint()
        if not endpoint:
            raise exceptions.GlanceUnavailable(
                reason="keystone's catalogue has no endpoint of it; see [glance] service_type, valid_interfaces and "
                "region_name"
            )
        return str(endpoint).rstrip("/").removesuffix("/v2")

    def _record(self, answer: requests.Response, ident: str) -> Mapping[str, Any]:
        record = self._checked(self._json(answer))
        if record.get("container_format") != FORMAT:
            raise exceptions.InvalidValue(
                f"image: {ident} is no image of a container: its container_format is {record.get('container_format')}. "
                "Make one with 'openstack image create --container-format docker' of an archive of 'docker save'."
            )
        return record

    @staticmethod
    def _json(answer: requests.Response) -> dict[str, Any]:
        try:
            found = answer.json()
        except (ValueError, requests.RequestException):
            found = None
        if not isinstance(found, dict):
            raise exceptions.GlanceUnavailable(reason="its answer is not JSON; is something else at its address?")
        return found

    @staticmethod
    def _checked(record: Any) -> Mapping[str, Any]:
        """Return an image of an answer, whose usual members have the usual types."""
        usual = isinstance(record, dict) and all(isinstance(record.get(name), str) for name in ("id", "status"))
        if not usual:
            raise exceptions.GlanceUnavailable(reason="its answer does not describe an image")
        return {**record, "name": record.get("name") or "", "tags": tuple(record.get("tags") or ())}


class _InTime:
    """An archive that raises GlanceUnavailable if the rest of it is wanted after so many seconds."""

    def __init__(self, archive: SizedArchive, failure: str, seconds: float) -> None:
        self._archive, self._failure, self._seconds = archive, failure, seconds
        self._deadline = time.monotonic() + seconds

    def __len__(self) -> int:
        return len(self._archive)

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._archive:
            if time.monotonic() > self._deadline:
                raise exceptions.GlanceUnavailable(
                    reason=f"{self._failure} within {self._seconds} s, which is [glance] transfer_timeout"
                )
            yield piece


class _BrokenOff(exceptions.GlanceUnavailable):
    """The data of an image ended before its end: it may arrive the next time."""


def _pieces(answer: requests.Response, uuid: str) -> Iterator[bytes]:
    try:
        yield from answer.iter_content(_PIECE)
    except (requests.RequestException, urllib3.exceptions.HTTPError) as exc:
        raise _BrokenOff(reason=f"image {uuid} broke off: {exceptions.first_line(exc)}") from exc


def _literal(value: str) -> str:
    """Return a filter that Glance compares with ``value``. What comes before a colon is an operator to Glance."""
    return f'in:"{value}"' if ":" in value else value


def _only(ident: str, found: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the image that a name means. Of several, active ones count, and then the one tagged ``latest``."""
    if not found:
        raise exceptions.ImageNotFound(
            f"Image {ident[:255]} could not be found in Glance. List those of containers with 'openstack image list "
            "--property container_format=docker'; give the id of a community or hidden image."
        )
    active = [each for each in found if each["status"] == "active"] or list(found)
    latest = [each for each in active if "latest" in each["tags"]]
    chosen = active if len(active) == 1 else latest
    if len(chosen) != 1:
        ids = naming.listed(sorted(each["id"] for each in active))
        raise exceptions.Conflict(
            f"image: {len(active)} images of Glance are called {ident[:255]}. Give the id of one: {ids}"
        )
    return chosen[0]


def _ready(record: Mapping[str, Any]) -> ServiceImage:
    """Return the image of a record. Conflict unless it is active and can be verified."""
    uuid, status = record["id"], record["status"]
    if status != "active":
        raise _unready(uuid, status)
    algo, value = record.get("os_hash_algo"), record.get("os_hash_value")
    if not (algo and value):
        algo, value = "md5", record.get("checksum")  # of an image from before Glance had better ones
    if not value:
        raise exceptions.Conflict(f"image: {uuid} has no hash to verify its data by. Upload it again, as a new image.")
    properties = {name: text for name, text in record.items() if isinstance(text, str)}
    size = record.get("size")
    return ServiceImage(
        uuid,
        record["name"],
        size if isinstance(size, int) else None,
        str(algo),
        str(value),
        record["tags"],
        properties,
    )


def _unready(uuid: str, status: str) -> exceptions.Conflict:
    return exceptions.Conflict(
        f"image: {uuid} is {status} in Glance, not active: {_STATES.get(status, 'wait until it is active')}."
    )


def _checksum(image: ServiceImage) -> Any:
    try:
        return hashlib.new(image.hash_algo, usedforsecurity=False)
    except ValueError as exc:
        raise exceptions.ImageCorrupt(
            f"The data of image {image.uuid} cannot be verified: this host does not know {image.hash_algo}."
        ) from exc


def _error(status: int, about: str, method: str, *, of_user: bool) -> exceptions.ZunError:
    """Return the error for an answer of this status. ``of_user``: the request had a user's token."""
    who = "you" if of_user else "the user of [glance]"
    match status:
        case 401:
            text = "Glance does not accept the token of the request" if of_user else "Glance does not accept our token"
            return exceptions.Forbidden(
                f"{text}. {'Ask for a new one' if of_user else 'Tell the operator: see [glance] in the configuration'}."
            )
        case 403 if method == "DELETE":
            return exceptions.Forbidden(f"Image {about} is protected in Glance, or {who} may not delete it.")
        case 403 if method == "PUT":
            return exceptions.Forbidden(f"Glance does not let {who} upload image {about}. It needs the role admin.")
        case 403 if method == "POST":
            return exceptions.Forbidden(f"Glance does not let {who} make image {about}: its policy or a quota forbids.")
        case 403:
            more = "" if of_user else " It needs the role admin."
            return exceptions.Forbidden(
                f"Glance does not let {who} download image {about}, or an administrator deactivated it.{more}"
            )
        case 404:
            return exceptions.ImageNotFound(
                f"Image {about} could not be found in Glance. List those of containers with 'openstack image list "
                "--property container_format=docker'."
            )
        case 409:
            return exceptions.Conflict(f"Image {about} is in use in Glance, or its data is there already.")
        case 413:
            return exceptions.Forbidden(
                f"Image {about} is larger than Glance accepts, or than the quota of its project allows. Delete images, "
                "or ask an administrator for a larger quota."
            )
        case _ if 400 <= status < 500 and status not in (407, 408, 429):
            return exceptions.Invalid(f"Glance does not accept the request about image {about}: it answers {status}.")
    return exceptions.GlanceUnavailable(reason=f"{method} of image {about} is answered with {status}")
