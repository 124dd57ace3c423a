#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Django answers a request whose CSRF token is missing or old with status 403. Horizon redirects the request to its login
# page. fetch() of a browser follows, so a script of a page sees 200 and HTML for a POST that did nothing. Only with the
# header X-Requested-With: XMLHttpRequest, which fetch() does not send by itself, the status is an error: 401, and not
# 403.
#
# Versions: Horizon 27.0.0 with Django 5.2.19. Needs Python 3.11 or later with venv; installs into a temporary folder.
#
# Output seen:
#   Horizon 27.0.0 with Django 5.2.19
#   POST without a CSRF token: 302
#   POST without a CSRF token, redirects followed: 200 text/html; charset=utf-8
#   POST without a CSRF token, X-Requested-With: XMLHttpRequest: 401
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install horizon==27.0.0 Django==5.2.19
cd "$("$folder/venv/bin/python" -c 'import importlib.util; print(importlib.util.find_spec("openstack_dashboard").submodule_search_locations[0])')"
cat >local/local_settings.py <<'PYTHON'
ALLOWED_HOSTS = ["testserver"]
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
COMPRESS_ENABLED = False
SECRET_KEY = "any"
PYTHON
seen=$(DJANGO_SETTINGS_MODULE=openstack_dashboard.settings "$folder/venv/bin/python" -W ignore - 2>"$folder/log" <<'PYTHON'
import importlib.metadata

import django

django.setup()
from django.test import Client

print("Horizon", importlib.metadata.version("horizon"), "with Django", django.__version__)
browser, told = Client(enforce_csrf_checks=True), "POST without a CSRF token"
print(f"{told}: {browser.post('/auth/login/').status_code}")
followed = browser.post("/auth/login/", follow=True)
print(f"{told}, redirects followed: {followed.status_code} {followed['Content-Type']}")
asked = browser.post("/auth/login/", headers={"X-Requested-With": "XMLHttpRequest"})
print(f"{told}, X-Requested-With: XMLHttpRequest: {asked.status_code}")
PYTHON
) || { cat "$folder/log" >&2; exit 1; }
echo "$seen"
expected="Horizon 27.0.0 with Django 5.2.19
POST without a CSRF token: 302
POST without a CSRF token, redirects followed: 200 text/html; charset=utf-8
POST without a CSRF token, X-Requested-With: XMLHttpRequest: 401"
[ "$seen" = "$expected" ]
