# SPDX-License-Identifier: Apache-2.0
"""The page of a panel, and the way of its elements to the container service."""

import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import requests
from django import http
from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.urls import URLPattern, re_path
from django.views import generic
from horizon.exceptions import ServiceCatalogException
from openstack_dashboard.api import base

from zun_dashboard import forwarding
from zun_dashboard.forwarding import Refused

LOG = logging.getLogger(__name__)
PIECE = 1 << 16  # bytes that are read at a time


class Page(generic.TemplateView):
    """A page with the elements that panel.js makes for ``elements``."""

    template_name = "zun_dashboard/page.html"
    title: Any = ""
    elements = ""

    def get_context_data(self, **named: Any) -> dict[str, Any]:
        return super().get_context_data(
            page_title=self.title,
            elements=self.elements,
            api=f"{self.request.path.rstrip('/')}/api",
            login=f"{settings.LOGIN_URL}?{urlencode({REDIRECT_FIELD_NAME: self.request.get_full_path()})}",
            **named,
        )


class Api(generic.View):
    """Requests of the elements, sent on to the session's container service with the session's token.

    Django has checked the CSRF token of methods that change something, and Horizon the login.
    """

    http_method_names = ("get", "post", "put", "delete")

    def dispatch(self, request: http.HttpRequest, *arguments: Any, **named: Any) -> http.HttpResponse:
        try:
            return super().dispatch(request, *arguments, **named)
        except Refused as refused:
            return http.HttpResponse(refused.body(), status=refused.status, headers=forwarding.response_headers({}))

    def get(self, request: http.HttpRequest, path: str) -> http.HttpResponse:
        return self._forward(request, path)

    post = put = delete = get

    def _forward(self, request: http.HttpRequest, path: str) -> http.HttpResponse:
        url = forwarding.target(_endpoint(request), path, request.META.get("QUERY_STRING", ""))
        try:
            with requests.request(
                request.method,
                url,
                data=request.body or None,
                headers=forwarding.request_headers(request.headers, request.user.token.id),
                timeout=forwarding.SECONDS,
                allow_redirects=False,
                stream=True,
                verify=not settings.OPENSTACK_SSL_NO_VERIFY and (settings.OPENSTACK_SSL_CACERT or True),
            ) as answer:
                forwarding.check_status(answer.status_code)
                content = forwarding.content(answer.iter_content(PIECE))
                headers = forwarding.response_headers(answer.headers)
        except requests.RequestException as exc:
            LOG.warning("The container service does not answer %s %s: %s", request.method, url, exc)
            raise _silent(exc) from exc
        return http.HttpResponse(content, status=answer.status_code, headers=headers)


def _silent(exc: requests.RequestException) -> Refused:
    """Return the answer for a service that gave none. The text of ``exc`` is for the log."""
    if isinstance(exc, requests.ReadTimeout):
        seconds = forwarding.SECONDS[1]
        return Refused(
            504, "Gateway Timeout", f"The container service did not answer within {seconds} s. Look again in a minute."
        )
    return Refused(
        503,
        "Service Unavailable",
        "The container service cannot be reached. Try again; tell the operator if it stays so.",
    )


def _endpoint(request: http.HttpRequest) -> str:
    """Return the URL of the container service in the session's catalog and region."""
    try:
        return str(base.url_for(request, "container"))
    except ServiceCatalogException:
        raise Refused(
            503, "Service Unavailable", "The catalog has no container service in this region. Choose another region."
        ) from None


def urls(title: Any, elements: str) -> Sequence[URLPattern]:
    """Return the URLs of a panel: its page, and what its elements ask for."""
    return [
        re_path(r"^$", Page.as_view(title=title, elements=elements), name="index"),
        re_path(r"^api/(?P<path>.*)$", Api.as_view(), name="api"),
    ]
