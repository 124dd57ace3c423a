# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, MEMBER, READER, rule

_LIST = "/v1/images"
_ITEM = f"{_LIST}/{{uuid}}"

RULES = (
    rule("image:get_all", ADMIN, "List the images on hosts.", f"GET {_LIST}"),
    rule("image:pull", ADMIN, "Pull an image to a host.", f"POST {_LIST}"),
    rule("image:get_one", ADMIN, "Show an image of a host.", f"GET {_ITEM}"),
    rule("image:delete", ADMIN, "Remove an image from its host.", f"DELETE {_ITEM}"),
    rule("image:delete:committed", MEMBER, "Remove a committed image of the user's project.", f"DELETE {_ITEM}"),
    rule(
        "image:search",
        READER,
        "Search for images in registries.",
        f"GET {_LIST}/{{name}}/search",
        f"GET {_LIST}/{{owner}}/{{name}}/search",
    ),
    rule(
        "image:search:host",
        MEMBER,
        "Also find images of the host that answers the search.",
        f"GET {_LIST}/{{name}}/search",
        f"GET {_LIST}/{{owner}}/{{name}}/search",
    ),
)
