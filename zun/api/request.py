# SPDX-License-Identifier: Apache-2.0
"""Read a request: its path in one spelling, its arguments in one form, and the caller.

Query parameters and members of the JSON body are equivalent; ``Call.arguments`` is both. ``zun.api.schemas`` checks
names and values.
"""

import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zun.api import errors, limits, parsing
from zun.api.microversion import Version
from zun.api.parsing import whole_number
from zun.api.policy import Access
from zun.common import exceptions
from zun.common.context import RequestContext

JSON = "application/json"
_PIECE = 64 * 1024
_AMBIGUOUS = "zun.ambiguous_headers"  # key of environ

# pecan's ancestor guessed content types from these, so such a last segment never was a name: the reference
# answers 404. Host names have dots by nature and are spared.
_DOTTED_NOUNS = frozenset({"hosts", "aggregates", "groups"})

# Canonical paths of the version documents and of the API's description. Anybody may read them, without a token.
OPENAPI = ("v1", "openapi")
DOCUMENTS: frozenset[tuple[str, ...]] = frozenset({(), ("v1",), OPENAPI})

Environ = Mapping[str, Any]
Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One parsed request. ``parameters`` are the variable parts of its path.

    ``stream`` is the unread body for a route that streams; its ``body`` is empty. ``client_address`` is the address
    that the request came from, None for a unix socket.
    """

    access: Access
    version: Version
    base_url: str
    parameters: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]
    stream: Iterator[bytes] | None = None
    client_address: str | None = None

    @property
    def context(self) -> RequestContext:
        return self.access.context

    @property
    def arguments(self) -> Arguments:
        """Return query and body as one. Raises SchemaValidationError for a name that is in both."""
        twice = self.query.keys() & self.body.keys()
        if twice:
            raise exceptions.SchemaValidationError(
                detail=f"{', '.join(sorted(twice))}: given in the query and in the body; give it once."
            )
        return {**self.query, **self.body}


def is_root(raw: str) -> bool:
    """Return whether a path is ``/``, the one document without a version."""
    return raw.strip("/") in ("", ".json")


def canonical_path(raw: str) -> tuple[str, ...]:
    """Return the segments of a path that WSGI has decoded: ``()`` for the root, else ``("v1", ...)``, none of them
    empty.

    ``v1`` is added to a path without it. Raises PathNotFound for a path that can be no resource.
    """
    try:
        segments = raw.encode("latin-1").decode("utf-8").split("/")[1:]
    except UnicodeError:
        raise errors.PathNotFound("The path is not UTF-8.") from None
    if not all(segment.isprintable() for segment in segments):
        raise errors.PathNotFound("The path has control characters.")
    while segments and not segments[-1]:
        segments.pop()
    if segments:
        segments[-1] = segments[-1].removesuffix(".json")
        if not segments[-1]:
            segments.pop()
    if not segments:
        return ()
    if segments[0] != "v1":
        segments.insert(0, "v1")
    if len(segments) > 1 and not segments[1]:
        raise errors.PathNotFound()  # doubled slashes are fine behind the collection's name, not before it
    if len(segments) > 1 and segments[1] not in _DOTTED_NOUNS and _has_suffix(segments[-1]):
        raise errors.PathNotFound("A path cannot end in a name with a dot; give the uuid instead.")
    return tuple(segment for segment in segments if segment)


def _has_suffix(name: str) -> bool:
    stem, _, suffix = name.rpartition(".")
    return bool(stem and suffix)


def base_url(environ: Environ) -> str:
    """Return scheme and host that the client used, for links, without a mount prefix."""
    host = environ.get("HTTP_HOST") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    return f"{environ['wsgi.url_scheme']}://{host}"


def accepts_json(accept: str | None) -> bool:
    """Return whether an Accept header admits JSON, the only format of responses."""
    if not accept or accept in ("*/*", JSON):
        return True
    best: dict[str, float] = {}
    for item in accept.split(","):
        media, *options = (part.strip().lower() for part in item.split(";"))
        quality = next((_quality(option[2:]) for option in options if option.startswith("q=")), 1.0)
        best[media] = max(best.get(media, 0.0), quality)
    # The most specific range decides (RFC 9110, 12.5.1).
    return next((best[media] > 0 for media in (JSON, "application/*", "*/*") if media in best), False)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def query_arguments(query_string: str) -> dict[str, str]:
    """Return the parameters of a query. Raises ValidationError for a repeated parameter and for text that is not UTF-8.
    """
    try:
        pairs = urllib.parse.parse_qsl(
            query_string,
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=limits.QUERY_PARAMETERS,
        )
    except ValueError:
        raise exceptions.ValidationError(
            detail="The query of the URL is not UTF-8 or has too many parameters."
        ) from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise exceptions.ValidationError(detail=f"{name}: given more than once in the query; give it once.")
        if "\0" in name or "\0" in value:
            raise exceptions.ValidationError(detail="The query has a NUL character, which no parameter may have.")
        found[name] = value
    return found


def is_json(environ: Environ) -> bool:
    return str(environ.get("CONTENT_TYPE") or "").partition(";")[0].strip().lower() == JSON


def note_header_names(environ: dict[str, Any], names: Iterable[str]) -> None:
    """Note in ``environ``, for ``check_header_names``, the ambiguous ones of the header names that a server received.

    WSGI gives ``X_Roles`` and ``X-Roles`` the same key, HTTP_X_ROLES. A proxy that overwrites or removes
    ``X-Forwarded-For`` lets ``X_Forwarded_For`` pass, so zun-api's own server, which sees the names, rejects every
    header with an underscore. nginx and gunicorn drop such headers by themselves.
    """
    if found := sorted(name for name in names if "_" in name):
        environ[_AMBIGUOUS] = found


def check_header_names(environ: Environ) -> None:
    """Raise ValidationError if the server noted an ambiguous header name."""
    if found := environ.get(_AMBIGUOUS):
        raise exceptions.ValidationError(
            detail=f"The header {found[0][:64]} has '_' in its name, so it cannot be told from one with '-'. Send "
            f"{found[0][:64].replace('_', '-')}, or leave it out."
        )


def check_length(environ: Environ) -> None:
    """Raise ValidationError for a Content-Length that is not a number: servers differ in how they read one."""
    length = environ.get("CONTENT_LENGTH") or "0"
    if not (length.isascii() and length.isdigit()):
        raise exceptions.ValidationError(detail="The Content-Length header is not a number.")


def body_arguments(environ: Environ, limit: int = limits.BODY_BYTES) -> Arguments:
    """Return the members of a request's JSON body; empty for no body and for ``null``, which stock clients send.

    Raises ValidationError if the body is no JSON object, RequestTooLarge above ``limit`` bytes, and
    UnsupportedMediaType for another content type, because browsers let any page send such a body. A body without a
    content type is ignored if it is not JSON, as in the reference.
    """
    raw = _read(environ, limit)
    if not raw:
        return {}
    if environ.get("CONTENT_TYPE") and not is_json(environ):
        raise exceptions.UnsupportedMediaType(content_type=f"{environ['CONTENT_TYPE'][:200]!r}")
    try:
        value = parsing.json_value(raw)
    except ValueError as exc:
        if not is_json(environ):
            return {}
        raise exceptions.ValidationError(detail=f"The body is {exc}.") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise exceptions.ValidationError(
            detail=f'The body must be a JSON object such as {{"name": "web"}}, not {_kind(value)}.'
        )
    return value


def body_stream(environ: Environ) -> Iterator[bytes]:
    """Yield the bytes of a request's body, piece by piece."""
    left = whole_number(environ.get("CONTENT_LENGTH") or "")
    if left is None and "chunked" not in str(environ.get("HTTP_TRANSFER_ENCODING", "")).lower():
        return
    while left is None or left > 0:
        piece = _taken(environ, _PIECE if left is None else min(_PIECE, left))
        if not piece:
            return
        left = None if left is None else left - len(piece)
        yield piece


def _taken(environ: Environ, size: int) -> bytes:
    """Return ``size`` bytes of the body, fewer at its end. Raises ValidationError if the body cannot be read."""
    try:
        return bytes(environ["wsgi.input"].read(size))
    except Exception as exc:  # what a server raises for a broken chunk or connection is its own choice
        raise exceptions.ValidationError(detail=f"The body cannot be read to its end: {exc}.") from exc


def _read(environ: Environ, limit: int) -> bytes:
    length = environ.get("CONTENT_LENGTH") or ""
    if length:
        if len(length) > 15 or int(length) > limit:
            raise errors.RequestTooLarge(limit=limit)
        raw = _taken(environ, int(length))
        if len(raw) < int(length):
            raise exceptions.ValidationError(detail=f"The body ends after {len(raw)} of {length} bytes.")
        return raw
    if "chunked" not in str(environ.get("HTTP_TRANSFER_ENCODING", "")).lower():
        return b""
    raw = _taken(environ, limit + 1)
    if len(raw) > limit:
        raise errors.RequestTooLarge(limit=limit)
    return raw


def _kind(value: Any) -> str:
    return {list: "an array", str: "a string", bool: "a boolean"}.get(type(value), "a number")
