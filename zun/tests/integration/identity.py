# SPDX-License-Identifier: Apache-2.0
"""A real keystone, and the people who ask it for tokens."""

import urllib.parse
import uuid

from keystoneauth1 import session as ksa_session
from keystoneauth1.identity import v3
from keystoneclient.v3 import client as keystone_client

from zun.tests.functional.api import who_may

DEFAULTS = {"user_domain_id": "default", "project_domain_id": "default"}


class Keystone:
    """The real keystone at ``url``, and a project with the people of ``who_may`` for these tests alone.

    Every password is the user's name. Names have ``suffix``, so that runs do not meet; what they leave goes with the
    keystone, as removing it would take longer than the tests.
    """

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self.url = f"{parts.scheme}://{parts.hostname}:{parts.port}{parts.path}"
        admin = v3.Password(
            self.url, username=parts.username, password=parts.password, project_name="admin", **DEFAULTS
        )
        self.admin = keystone_client.Client(session=ksa_session.Session(admin), interface="public")
        self.suffix = uuid.uuid4().hex[:8]
        self.roles = {role.name: role for role in self.admin.roles.list()}
        names = {*who_may.PROJECTS.values(), "service"}
        self.projects = {
            name: self.admin.projects.create(self.named(name), "default") for name in sorted(names)
        }
        self.users = {who: self.user(who, who_may.PROJECTS[who], who_may.ROLES[who]) for who in who_may.PEOPLE}
        self.user("zun", "service", "service")
        self.user("zun-glance", "service", "admin")
        self.admin.roles.grant(
            self.roles["admin"], user=self.user("zun-cinder", "service", "service"), project=self.projects["service"]
        )

    def named(self, name: str) -> str:
        return f"{name}-{self.suffix}"

    def user(self, who: str, project: str | None = None, role: str | None = None):
        name = self.named(who)
        made = self.admin.users.create(name, domain="default", password=name)
        if project and role:
            self.admin.roles.grant(self.roles[role], user=made, project=self.projects[project])
        return made

    def publish(self, endpoint: str, kind: str = "container") -> None:
        """Put the API at ``endpoint`` into the catalogue, instead of what was there."""
        self.retract(kind)
        names = {"container": "zun", "image": "glance", "network": "neutron", "block-storage": "cinder"}
        service = self.admin.services.create(names[kind], type=kind)
        self.admin.endpoints.create(service, endpoint, interface="public", region="RegionOne")

    def retract(self, kind: str = "container") -> None:
        """Remove the services of the type ``kind`` from the catalogue."""
        for old in self.admin.services.list(type=kind):
            self.admin.services.delete(old)

    def auth(self, who: str, project: str) -> v3.Password:
        name = self.named(who)
        return v3.Password(
            self.url, username=name, password=name, project_id=self.projects[project].id, **DEFAULTS
        )

    def token(self, who: str) -> str:
        return str(ksa_session.Session(self.auth(who, who_may.PROJECTS[who])).get_token())

    def settings(self) -> dict[str, str]:
        """The group keystone_authtoken. Nothing is cached: what is revoked is refused at once."""
        return {
            "www_authenticate_uri": self.url,
            "auth_url": self.url,
            "auth_type": "password",
            "username": self.named("zun"),
            "password": self.named("zun"),
            "project_id": self.projects["service"].id,
            "user_domain_id": "default",
            "interface": "public",
            "token_cache_time": "-1",
        }

    def glance_settings(self) -> dict[str, str]:
        """The group glance, for the Glance of the catalogue."""
        return self._service_settings("zun-glance")

    def cinder_settings(self) -> dict[str, str]:
        """The group cinder, for the Cinder of the catalogue."""
        return self._service_settings("zun-cinder")

    def _service_settings(self, user: str) -> dict[str, str]:
        name = self.named(user)
        return {
            "auth_url": self.url,
            "auth_type": "password",
            "username": name,
            "password": name,
            "project_id": self.projects["service"].id,
            "user_domain_id": "default",
            "valid_interfaces": "public",
        }

    def environment(self, who: str) -> dict[str, str]:
        """Return the environment of ``openstack``: a password but no endpoint. The client asks the catalogue."""
        return {
            "OS_AUTH_URL": self.url,
            "OS_USERNAME": self.named(who),
            "OS_PASSWORD": self.named(who),
            "OS_PROJECT_NAME": self.named(who_may.PROJECTS[who]),
            "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_DOMAIN_ID": "default",
            "OS_REGION_NAME": "RegionOne",
        }
