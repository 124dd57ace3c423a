# SPDX-License-Identifier: Apache-2.0
"""Serve Neutron's API on a port of 127.0.0.1 with threads of one process, after putting it into keystone's catalogue.

Run by the Python that has neutron: ``serve_neutron.py PORT KEYSTONE_URL``, where the URL has the name and password of
keystone's administrator. OS_NEUTRON_CONFIG_FILES names the configuration.
"""

import sys
import urllib.parse

from cheroot import wsgi
from keystoneauth1 import session
from keystoneauth1.identity import v3
from keystoneclient.v3 import client

port, keystone = int(sys.argv[1]), urllib.parse.urlsplit(sys.argv[2])
del sys.argv[1:]  # neutron reads what is left of the arguments

from neutron.wsgi.api import application  # noqa: E402

password = v3.Password(
    f"{keystone.scheme}://{keystone.hostname}:{keystone.port}{keystone.path}",
    username=keystone.username,
    password=keystone.password,
    project_name="admin",
    user_domain_id="default",
    project_domain_id="default",
)
identity = client.Client(session=session.Session(password), interface="public")
for old in identity.services.list(type="network"):
    identity.services.delete(old)
service = identity.services.create("neutron", type="network")
identity.endpoints.create(service, f"http://127.0.0.1:{port}", interface="public", region="RegionOne")
wsgi.Server(("127.0.0.1", port), application, numthreads=8).safe_start()
